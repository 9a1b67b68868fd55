"""A plan as the words of a particular build, and merged with a person's own command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Misconfigured, TooOld
from llmops.core.version import Version
from llmops.engines import engine_named
from llmops.engines.base import setting_words
from llmops.engines.found import InForce
from llmops.engines.llama_server.command import build
from llmops.engines.llama_server.settings import compose, padded, slot_context_tokens
from tests.unit.engines.llama_host import MODEL, OLD_HELP, SERVER, a_plan, installed

ENGINE = engine_named("llama-server")


def words(plan: object = None, **changes: object) -> str:
    return " ".join(setting_words(compose(plan or a_plan(), installed(**changes)).settings))  # type: ignore[arg-type]


def test_slots_and_context_are_explicit_and_never_shared() -> None:
    said = words(a_plan(context_tokens_per_slot=8000))
    assert "--parallel 5 --ctx-size 40960" in said
    assert "--no-kv-unified" in said
    assert padded(8000) == 8192


def test_values_of_the_plan_in_the_units_of_the_flags() -> None:
    said = words(a_plan(prompt_cache_bytes=700 * 1024**2 + 5, context_checkpoints=6, batch_tokens=512))
    assert "--cache-ram 700 --ctx-checkpoints 6" in said
    assert "--batch-size 512" in said


def test_every_rendered_flag_is_known_to_the_binary() -> None:
    for text in (OLD_HELP, None):
        known = installed(text) if text else installed()
        plan = a_plan(memory_mapped=False, repack=False, gpu_layers=20)
        for setting in compose(plan, known).settings:
            assert known.flags is not None
            assert setting.name in known.flags


def test_flash_attention_has_a_value_only_where_the_help_says_so() -> None:
    assert "--flash-attn auto" in words(a_plan(flash_attention="auto"))
    old = installed(OLD_HELP)
    assert "--flash-attn" not in setting_words(compose(a_plan(flash_attention="auto"), old).settings)
    assert "--flash-attn" in setting_words(compose(a_plan(flash_attention="on"), old).settings)
    quantised = a_plan(flash_attention="auto", cache_type_k="q8_0", cache_type_v="q8_0")
    assert "--flash-attn" in setting_words(compose(quantised, old).settings)


def test_how_the_file_is_read_by_new_and_old_words() -> None:
    assert "--load-mode mmap" in words()
    assert "--load-mode none" in words(a_plan(memory_mapped=False))
    old = setting_words(compose(a_plan(memory_mapped=False), installed(OLD_HELP)).settings)
    assert "--no-mmap" in old
    assert "--no-mmap" not in setting_words(compose(a_plan(), installed(OLD_HELP)).settings)


def test_locked_memory_stays_locked() -> None:
    new = setting_words(compose(a_plan(), installed(), memory_locked=True).settings)
    assert new[new.index("--load-mode") + 1] == "mmap+mlock"
    assert "--mlock" in setting_words(compose(a_plan(), installed(OLD_HELP), memory_locked=True).settings)


def test_a_model_that_is_divided_by_hand() -> None:
    plan = a_plan(gpu_layers=37, cpu_expert_layers=12, tensor_split=(3.0, 1.0))
    assert "--gpu-layers 37 --n-cpu-moe 12 --tensor-split 3,1 --fit off" in words(plan)
    assert "--n-cpu-moe" not in words(a_plan(gpu_layers=37))
    with pytest.raises(TooOld, match="--n-cpu-moe"):
        compose(plan, installed(OLD_HELP))


def test_a_plan_takes_the_place_of_a_person_s_own_division() -> None:
    running = ("/usr/bin/llama-server", "-m", MODEL, "--cpu-moe", "-ts", "1,3", "-ncmoe", "5")
    said = build(a_plan(gpu_layers=37), installed(managed_by="process"), InForce(pid=1, arguments=running)).words
    assert not {"--cpu-moe", "-ts", "-ncmoe", "--tensor-split", "--n-cpu-moe"} & set(said)


def test_layers_are_placed_and_nothing_may_move_them() -> None:
    assert "--gpu-layers 37 --fit off" in words(a_plan(gpu_layers=37), accelerators=("CUDA0: a card",))
    for accelerators in (("CUDA0: a card",), None):
        assert "--device none --gpu-layers 0 --fit off" in words(a_plan(gpu_layers=None), accelerators=accelerators)
    assert "--device" not in words(a_plan(gpu_layers=0), accelerators=("CUDA0: a card",))
    assert "--gpu-layers" not in words(a_plan(gpu_layers=None), accelerators=())


def test_cards_stay_as_a_person_chose_them_unless_a_plan_uses_none() -> None:
    running = InForce(pid=1, arguments=("/usr/bin/llama-server", "-m", MODEL, "-dev", "CUDA1"))
    server = installed(managed_by="process", accelerators=("CUDA0: a card", "CUDA1: a card"))
    used = build(a_plan(gpu_layers=37), server, running).words
    assert used[used.index("-dev") + 1] == "CUDA1"
    unused = build(a_plan(gpu_layers=None), server, running).words
    assert "-dev" not in unused
    assert unused.count("--device") == 1
    again = build(a_plan(gpu_layers=None), server, replace(running, arguments=unused)).words
    assert again == unused


def test_one_pool_only_when_the_plan_says_so() -> None:
    plan = a_plan(kv_unified=True)
    said = words(plan)
    assert "--kv-unified --kv-unified-per-slot 8192" in said
    assert slot_context_tokens(plan, installed()) == 8192
    with pytest.raises(TooOld, match="--kv-unified"):
        compose(plan, installed(OLD_HELP))


def test_a_slot_is_never_promised_more_than_the_model_was_trained_for() -> None:
    plan = a_plan()
    short = replace(plan, model=replace(plan.model, context_tokens_trained=6000))
    assert slot_context_tokens(short, installed()) == 6000


def test_missing_indispensable_flags_are_named() -> None:
    flags = installed().flags
    assert flags is not None
    with pytest.raises(TooOld, match="--cache-type-k") as raised:
        compose(a_plan(), installed(flags=flags - {"--cache-type-k", "-ctk"}))
    assert raised.value.exit_code == 7


def test_builds_that_do_not_obey_one_slot_are_named() -> None:
    one = a_plan(slots=1)
    assert any("four slots" in line for line in compose(one, installed(version=Version((7079,)))).warnings)
    assert not compose(one, installed(version=Version((7433,)))).warnings
    assert not compose(one, installed(version=Version((6899,)))).warnings
    assert not compose(one, installed()).warnings


def test_an_unreadable_help_counts_as_the_newest() -> None:
    said = setting_words(compose(a_plan(), installed(flags=None, valued_flags=None)).settings)
    assert {"--parallel", "--no-kv-unified", "--load-mode"} <= set(said)


# merging


def unit_words(*arguments: str, **seen: object) -> tuple[str, ...]:
    in_force = replace(InForce(user_arguments=(SERVER, *arguments)), **seen)  # type: ignore[arg-type]
    return build(a_plan(), installed(managed_by="unit", unit="x.service"), in_force).words


def test_a_persons_arguments_stay_in_their_order_and_planned_ones_are_replaced() -> None:
    found = unit_words(
        "-m", MODEL, "--alias", "chat", "-np", "1", "--ctx_size=4096", "-kvu", "--jinja", "--api-key-file", "/etc/k"
    )  # fmt: skip
    assert found[:8] == (SERVER, "-m", MODEL, "--alias", "chat", "--jinja", "--api-key-file", "/etc/k")
    assert found.count("--parallel") == 1
    assert not {"-np", "-kvu", "--ctx_size=4096"} & set(found)


def test_address_and_port_stay_and_are_always_written_out() -> None:
    said = unit_words("-m", MODEL, "--host", "0.0.0.0", "--port", "9000")
    assert said[said.index("--host") + 1] == "0.0.0.0"
    assert said[said.index("--port") + 1] == "9000"
    silent = unit_words("-m", MODEL)
    assert silent[silent.index("--host") + 1] == "127.0.0.1"
    assert silent[silent.index("--port") + 1] == "8080"


def test_address_from_the_environment_and_the_configuration_file() -> None:
    said = unit_words(
        "-m", MODEL, environment=(("LLAMA_ARG_PORT", "8123"),),
        config_files=(("/etc/llama.cpp/config.ini", "host = 10.0.0.5\n[other]\nport = 1\n"),),
    )  # fmt: skip
    assert said[said.index("--port") + 1] == "8123"
    assert said[said.index("--host") + 1] == "10.0.0.5"


def test_the_model_stays_as_it_is_named_unless_another_is_planned() -> None:
    by_repository = unit_words("-hf", "some/model:Q4", model_path=MODEL)
    assert by_repository[1:3] == ("-hf", "some/model:Q4")
    assert "--model" not in by_repository
    other = unit_words("-hf", "some/model:Q4", "-m", "/srv/other.gguf", model_path="/srv/other.gguf")
    assert other[other.index("--model") + 1] == MODEL
    assert not {"-hf", "-m"} & set(other)


def test_removed_and_harmful_words_are_reported() -> None:
    in_force = InForce(user_arguments=(SERVER, "-m", MODEL, "--no-mmap", "--mlock", "-nocb", "--own-flag"))
    command = build(a_plan(), installed(managed_by="unit", unit="x.service"), in_force)
    assert not {"--no-mmap", "--mlock"} & set(command.words)
    assert command.words[command.words.index("--load-mode") + 1] == "mmap+mlock"
    assert any("--own-flag" in line for line in command.warnings)
    assert any("-nocb" in line for line in command.warnings)


def test_wrappers_before_the_program_stay() -> None:
    in_force = InForce(user_arguments=("/usr/bin/taskset", "-c", "0-3", SERVER, "-m", MODEL))
    found = build(a_plan(), installed(managed_by="unit", unit="x.service"), in_force).words
    assert found[:6] == ("/usr/bin/taskset", "-c", "0-3", SERVER, "-m", MODEL)


@pytest.mark.parametrize("arguments", [("/bin/sh", "-c", "llama-server -m x"), None])
def test_a_script_cannot_be_merged_with(arguments: tuple[str, ...] | None) -> None:
    with pytest.raises(Misconfigured, match="words that llmops can keep") as raised:
        build(a_plan(), installed(managed_by="unit", unit="x.service"), InForce(user_arguments=arguments))
    assert raised.value.exit_code == 7


def test_a_router_is_refused() -> None:
    with pytest.raises(Misconfigured, match="--models-dir"):
        unit_words("--models-dir", "/srv/models")


def test_merging_again_changes_nothing() -> None:
    first = unit_words("-m", MODEL, "--alias", "chat", "-np", "1")
    assert unit_words(*first[1:]) == first


# files and launch


def test_a_drop_in_for_a_unit_and_a_unit_where_there_is_none() -> None:
    unit = installed(managed_by="unit", unit="my.service")
    (drop_in,) = ENGINE.files(a_plan(), unit, InForce(user_arguments=(SERVER, "-m", MODEL)))
    assert drop_in.path == "/etc/systemd/system/my.service.d/zz-llmops.conf"
    assert "ExecStart=\nExecStart=/usr/bin/llama-server" in drop_in.content
    (whole,) = ENGINE.files(a_plan(), installed(), InForce())
    assert whole.path == "/etc/systemd/system/llama-server.service"
    assert f"BindReadOnlyPaths={MODEL}" in whole.content
    again = InForce(user_arguments=(SERVER, "-m", MODEL), unit_file_managed=True)
    (same,) = ENGINE.files(a_plan(), installed(managed_by="unit", unit="llama-server.service"), again)
    assert same == replace(whole, content=same.content)
    assert "[Install]" in same.content


def test_containers_get_the_lines_for_their_own_configuration() -> None:
    with pytest.raises(Misconfigured, match="container web") as raised:
        ENGINE.files(a_plan(), installed(managed_by="docker", detail="container web"), InForce())
    assert raised.value.hint is not None
    assert "--parallel 5" in raised.value.hint
    assert MODEL not in raised.value.hint


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--host", "/run/llama.sock"), "socket in the file system"), (("--ssl-cert-file", "/etc/c.pem"), "TLS")],
)
def test_a_server_that_cannot_be_asked_is_left_alone(arguments: tuple[str, ...], says: str) -> None:
    unit = installed(managed_by="unit", unit="my.service")
    with pytest.raises(Misconfigured, match=says) as raised:
        ENGINE.files(a_plan(), unit, InForce(user_arguments=(SERVER, "-m", MODEL, *arguments)))
    assert raised.value.hint


def test_a_trial_uses_the_same_settings_on_loopback() -> None:
    started = ENGINE.launch(a_plan(), installed(), 23456)
    assert started.argv[:7] == (SERVER, "--model", MODEL, "--host", "127.0.0.1", "--port", "23456")
    assert started.url == "http://127.0.0.1:23456"
    planned = setting_words(compose(a_plan(), installed()).settings)
    assert started.argv[7:] == planned


def test_programs_that_cannot_be_used() -> None:
    with pytest.raises(Misconfigured, match="libllama"):
        ENGINE.require_usable(installed(problem="libllama.so: cannot open shared object file"))
    with pytest.raises(TooOld, match="--batch-size"):
        flags = installed().flags
        assert flags is not None
        ENGINE.require_usable(installed(flags=flags - {"--batch-size", "-b"}))
    ENGINE.require_usable(installed(OLD_HELP))
