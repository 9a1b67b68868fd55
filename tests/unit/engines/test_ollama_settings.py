"""A plan as Ollama's variables, for both schedulers, and the shape that Ollama makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Misconfigured, TooOld, UsageError
from llmops.core.memory.ggml import budgets
from llmops.core.plan import Plan, Shape
from llmops.core.version import Timeline, Version
from llmops.engines.found import InForce
from llmops.engines.ggml import ggml_settings
from llmops.engines.ollama import facts
from llmops.engines.ollama.settings import compose, require_usable
from llmops.engines.ollama.shape import most_slots_of, shaped
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit
from tests.unit.engines.ollama_host import BLOB, DROP_IN, ENGINE, NEW, OLD, STORE, UNIT, a_host, a_plan, installed

MODEL = eight_billion_16_bit()


def variables(plan: Plan, version: str = NEW) -> dict[str, str]:
    return {one.name: one.value or "" for one in compose(plan, Version.parse(version))}


def test_every_planned_variable_is_explicit() -> None:
    found = variables(a_plan(queue_requests=7, prompt_cache_bytes=700 * 1024**2 + 5, context_checkpoints=6, threads=8))
    assert found == {
        "OLLAMA_NUM_PARALLEL": "2",
        "OLLAMA_CONTEXT_LENGTH": "8192",
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_MAX_QUEUE": "7",
        "OLLAMA_KV_CACHE_TYPE": "f16",
        "LLAMA_ARG_CACHE_RAM": "700",
        "LLAMA_ARG_CTX_CHECKPOINTS": "6",
        "LLAMA_ARG_THREADS": "8",
    }


def test_variables_of_llama_server_only_where_one_is_started() -> None:
    assert not [name for name in variables(a_plan(OLD), OLD) if name.startswith(("LLAMA_", "OMP_"))]


def test_a_queue_of_zero_would_block_the_server() -> None:
    assert variables(a_plan(queue_requests=0))["OLLAMA_MAX_QUEUE"] == "1"


def test_a_quantised_cache_needs_flash_attention_only_before_0_30() -> None:
    plan = a_plan(cache_type_k="q8_0", cache_type_v="q8_0")
    assert variables(plan, OLD)["OLLAMA_FLASH_ATTENTION"] == "1"
    assert "OLLAMA_FLASH_ATTENTION" not in variables(plan, "0.30.0")
    assert "OLLAMA_FLASH_ATTENTION" not in variables(a_plan(), OLD)
    assert variables(a_plan(flash_attention="off"))["OLLAMA_FLASH_ATTENTION"] == "0"


def test_caches_that_ollama_does_not_have() -> None:
    with pytest.raises(UsageError, match="one type"):
        variables(a_plan(cache_type_k="q8_0"))
    with pytest.raises(UsageError, match="no cache of type q5_1"):
        variables(a_plan(cache_type_k="q5_1", cache_type_v="q5_1"), OLD)
    assert variables(a_plan(cache_type_k="q5_1", cache_type_v="q5_1"))["OLLAMA_KV_CACHE_TYPE"] == "q5_1"


def test_room_on_cards_is_left_for_a_projector() -> None:
    plan = a_plan(gpu_layers=37)
    assert variables(plan)["LLAMA_ARG_FIT_TARGET"] == "1024"
    projector = replace(plan.model.tensors[0], role="encoder", stored_bytes=600 * 1024**2, matrix_bytes=0)
    seeing = replace(plan.model, tensors=(*plan.model.tensors, projector))
    assert variables(replace(plan, model=seeing))["LLAMA_ARG_FIT_TARGET"] == "1624"


def test_how_threads_wait_is_the_persons_choice() -> None:
    plan, version = a_plan(passive_waiting=True), Version.parse(NEW)
    assert variables(plan)["OMP_WAIT_POLICY"] == "passive"
    told = InForce(environment=(("GOMP_SPINCOUNT", "100"),))
    assert "OMP_WAIT_POLICY" not in {one.name for one in compose(plan, version, told)}


@pytest.mark.parametrize(
    ("version", "family", "slots"),
    [
        ("0.12.6", "qwen3vl", 256),
        ("0.12.7", "qwen3vl", 1),
        ("0.15.4", "qwen3next", 256),
        ("0.15.5", "qwen3next", 1),
        ("0.17.0", "qwen35", 256),
        ("0.17.1", "qwen35", 1),
        ("0.22.0", "nemotron_h_omni", 256),
        ("0.22.1", "nemotron_h_omni", 1),
        (NEW, "mllama", 1),
        (NEW, "qwen3", 256),
    ],
)
def test_families_of_one_slot(version: str, family: str, slots: int) -> None:
    assert most_slots_of(replace(MODEL, architecture=family), Version.parse(version)) == slots


@pytest.mark.parametrize(
    ("version", "slots", "context", "batch"),
    [
        (OLD, 8, 8192, 512),
        (NEW, 1, 4096, 512),
        (NEW, 2, 4096, 1024),
        (NEW, 4, 8192, 1024),
        (NEW, 5, 8192, 2048),
    ],
)
def test_the_batch_follows_all_tokens(version: str, slots: int, context: int, batch: int) -> None:
    found = shaped(Shape(slots, context, batch_tokens=64), MODEL, Version.parse(version))
    assert (found.batch_tokens, found.ubatch_tokens) == (batch, batch)


def test_what_ollama_makes_of_a_shape() -> None:
    wanted = Shape(4, 99_999, prompt_cache_bytes=1000, context_checkpoints=4, memory_mapped=True)
    new, old = (shaped(wanted, MODEL, Version.parse(version)) for version in (NEW, OLD))
    assert new.context_tokens_per_slot == MODEL.context_tokens_trained
    assert not new.memory_mapped
    assert shaped(replace(wanted, gpu_layers=37), MODEL, None).memory_mapped
    assert (new.prompt_cache_bytes, old.prompt_cache_bytes, old.context_checkpoints) == (1000, 0, 0)
    assert shaped(wanted, replace(MODEL, architecture="qwen35"), Version.parse(NEW)).slots == 1


def test_prompts_that_are_kept_count_in_the_memory_of_the_host() -> None:
    plan = a_plan(memory=20 * 1024**3)
    (host,) = plan.budgets
    assert host.prompt_cache_bytes >= plan.prompt_cache_bytes > 0
    assert host.weights_bytes >= plan.model.weights_bytes


@pytest.mark.parametrize(("version", "own_mib"), [(OLD, 200), (NEW, 100)])
def test_the_server_itself_counts_in_the_memory_of_the_host(version: str, own_mib: int) -> None:
    shape, hardware = Shape(2, 8192), cpu_host(64 * GIB, cores=16)
    found = ENGINE.memory_model(hardware, MODEL, Version.parse(version))(shape)[0]
    settings = ggml_settings(shaped(shape, MODEL, Version.parse(version)), hardware.cpu.flags)
    engine = budgets(hardware, MODEL, settings)[0]
    assert found.runtime_bytes == engine.runtime_bytes + own_mib * 1024**2
    (runtime,) = [row for row in found.ranges if row[0] == "runtime_bytes"]
    assert runtime[2] == found.runtime_bytes
    assert "Ollama's own processes" in runtime[3]


def test_the_drop_in_holds_variables_only() -> None:
    (file,) = ENGINE.files(a_plan(), installed(), InForce())
    assert file.path == DROP_IN
    lines = [line for line in file.content.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "[Service]"
    assert "Environment=OLLAMA_NUM_PARALLEL=2" in lines
    assert all(line.startswith("Environment=") for line in lines[1:])
    assert not any(version in file.content for version in (NEW, "20"))


def test_containers_and_snaps_get_the_words() -> None:
    with pytest.raises(Misconfigured) as container:
        ENGINE.files(a_plan(), installed(managed_by="docker", unit=None, detail="container web"), InForce())
    assert "-e OLLAMA_NUM_PARALLEL=2" in (container.value.hint or "")
    with pytest.raises(Misconfigured) as snap:
        ENGINE.files(
            a_plan(), installed(managed_by="snap", unit=None, detail="snap.ollama.listener.service"), InForce()
        )
    assert "systemctl edit snap.ollama.listener.service" in (snap.value.hint or "")
    with pytest.raises(Misconfigured, match="its own installer"):
        ENGINE.files(a_plan(), installed(managed_by="binary", unit=None), InForce())


def test_a_file_without_a_name_cannot_be_asked_for() -> None:
    plan = a_plan()
    unnamed = replace(plan, model=replace(plan.model, reference="/srv/model.gguf"))
    with pytest.raises(Misconfigured) as refused:
        ENGINE.files(unnamed, installed(), InForce())
    assert "ollama create" in (refused.value.hint or "")
    with pytest.raises(Misconfigured):
        ENGINE.launch(unnamed, installed(), 23456)


def test_programs_that_cannot_be_tuned() -> None:
    with pytest.raises(TooOld, match=r"0\.5\.13"):
        require_usable(installed("0.5.12"))
    with pytest.raises(Misconfigured, match="broken"):
        require_usable(installed(None, problem="broken"))
    require_usable(installed("0.5.13"))


def test_other_peoples_values_for_planned_variables() -> None:
    host = a_host()
    host.files["/etc/default/ollama"] = "OLLAMA_MAX_QUEUE=5\nOLLAMA_CONTEXT_LENGTH=8192\n"
    theirs = '[Service]\nEnvironment="OLLAMA_NUM_PARALLEL=9" OLLAMA_DEBUG=1\n'
    path = f"/etc/systemd/system/{UNIT}.d/override.conf"
    in_force = InForce(unmanaged_drop_ins=((path, theirs),), environment_files=("/etc/default/ollama",))
    plan = a_plan(queue_requests=7)
    found = ENGINE.contradictions(host, plan, installed(), in_force)
    assert [(one.path, one.source, one.setting, one.theirs, one.ours) for one in found] == [
        (path, "drop_in", "OLLAMA_NUM_PARALLEL", "9", "2"),
        ("/etc/default/ollama", "environment_file", "OLLAMA_MAX_QUEUE", "5", "7"),
    ]


def test_a_trial_uses_the_store_of_the_model_and_removes_nothing() -> None:
    launch = ENGINE.launch(a_plan(), installed(), 23456)
    assert launch.argv == ("/usr/local/bin/ollama", "serve")
    assert launch.url == "http://127.0.0.1:23456"
    assert launch.environment["OLLAMA_MODELS"] == STORE
    assert launch.environment["OLLAMA_HOST"] == "127.0.0.1:23456"
    assert launch.environment["OLLAMA_NOPRUNE"] == "1"
    assert BLOB.startswith(STORE)


def test_warnings_say_what_one_would_not_expect() -> None:
    plan = a_plan()
    said = " ".join(ENGINE.warnings(plan, installed(), None))
    assert "wait without limit" in said
    assert "loses its oldest messages" in said
    alone = replace(plan, model=replace(plan.model, architecture="qwen35"))
    assert "one request at a time" in ENGINE.warnings(alone, installed(), None)[0]
    assert any("keeps no prompts" in line for line in ENGINE.warnings(plan, installed(OLD), None))


@pytest.mark.parametrize("name", [name for name, value in vars(facts).items() if isinstance(value, Timeline)])
def test_facts_are_sorted_and_have_sources(name: str) -> None:
    rows = vars(facts)[name].rows
    assert [row.version for row in rows] == sorted(row.version for row in rows)
    assert all(row.source for row in rows)
