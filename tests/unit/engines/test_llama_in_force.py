"""What a llama-server really serves, and how it compares with a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from llmops.core.errors import Misconfigured, NoPermission
from llmops.core.verification import CheckStatus
from llmops.engines import engine_named
from llmops.engines.base import Health
from llmops.engines.found import InForce, Installation, Served
from llmops.engines.llama_server.command import build
from llmops.engines.llama_server.failures import last_words
from llmops.engines.llama_server.log import log_checks, port_was_taken
from llmops.host import ListeningSocket, Response
from tests.unit.engines.llama_host import MODEL, SERVER, LookedAt, a_plan, installed, process, props

ENGINE = engine_named("llama-server")
UNIT = "llama-server.service"
URL = "http://127.0.0.1:8080"


def in_unit() -> Installation:
    return installed(managed_by="unit", unit=UNIT)


def planned_words(*own: str) -> tuple[str, ...]:
    return build(a_plan(), in_unit(), InForce(user_arguments=(SERVER, "-m", MODEL, *own))).words


def serving(*extra: str, environment: dict[str, str] | None = None, slots: int = 5, context: int = 8192) -> LookedAt:
    """A machine on which the plan is live."""
    words = (*planned_words(), *extra)
    host = LookedAt()
    (drop_in,) = ENGINE.files(a_plan(), in_unit(), InForce(user_arguments=(SERVER, "-m", MODEL)))
    text = drop_in.content.rstrip("\n") + "".join(f" {word}" for word in extra) + "\n"
    host.unit(UNIT, f"[Service]\nExecStart={SERVER} -m {MODEL}\n", main_pid=7, zz_llmops=text)
    host.running = (process(7, *words, group=f"/system.slice/{UNIT}", environment=environment),)
    host.files["/proc/7/status"] = "Name:\tllama-server\nVmRSS:\t  2048 kB\nRssAnon:\t  1024 kB\n"
    host.listeners = (ListeningSocket("127.0.0.1", 8080, 7),)
    host.answers = {
        f"{URL}/props": Response(200, json.dumps(props(slots, context, build_info="b9265-abc", is_sleeping=False))),
        f"{URL}/slots": Response(200, json.dumps([{"n_ctx": context, "is_processing": False}] * slots)),
        f"{URL}/health": Response(200, '{"status":"ok"}'),
    }
    return host


def compared(host: LookedAt) -> dict[str, tuple[CheckStatus, str | None, str]]:
    seen = ENGINE.in_force(host, in_unit())
    found = ENGINE.checks(ENGINE.expectations(a_plan(), in_unit(), seen), in_unit(), seen)
    return {check.name: (check.status, check.observed, check.detail) for check in found}


def test_everything_that_is_in_force() -> None:
    seen = ENGINE.in_force(serving(), in_unit())
    assert (seen.pid, seen.listener_pid, seen.url) == (7, 7, URL)
    assert (seen.slots, seen.context_tokens_per_slot, seen.slot_contexts) == (5, 8192, (8192,) * 5)
    assert (seen.resident_bytes, seen.anonymous_bytes) == (2048 * 1024, 1024 * 1024)
    assert seen.user_arguments == (SERVER, "-m", MODEL)
    assert seen.configured_arguments == seen.arguments
    assert seen.build == "b9265-abc"
    assert seen.unseen == ()


def test_a_live_plan_passes_every_check() -> None:
    found = compared(serving())
    assert {name: status for name, (status, _, _) in found.items() if status is not CheckStatus.PASS} == {}
    assert {"--parallel", "total_slots", "drop_in", "running_command", "listener", "hidden_variables"} <= set(found)


def test_a_later_word_beats_the_plan() -> None:
    status, observed, detail = compared(serving("-np", "1", "--kv-unified", slots=1, context=40960))["--parallel"]
    assert (status, observed) == (CheckStatus.FAIL, "1")
    assert "-np 1" in detail


@pytest.mark.parametrize("name", ["total_slots", "slot_context", "every_slot_context"])
def test_the_engines_own_word_counts(name: str) -> None:
    host = serving(slots=4, context=40960)
    assert compared(host)[name][0] is CheckStatus.FAIL


def test_variables_that_the_command_line_beats_are_only_named() -> None:
    status, observed, detail = compared(serving(environment={"LLAMA_ARG_CTX_SIZE": "512"}))["hidden_variables"]
    assert (status, observed) == (CheckStatus.PASS, "none")
    assert "LLAMA_ARG_CTX_SIZE" in detail


def test_variables_and_keys_that_decide_are_faults() -> None:
    host = serving(environment={"LLAMA_ARG_SWA_FULL": "1", "LLAMA_API_KEY": "secret", "HOME": "/var/lib/llama"})
    host.files["/etc/llama.cpp/config.ini"] = "[*]\nswa_full = true\nctx-size = 512\n"
    found = compared(host)
    assert found["hidden_variables"][:2] == (CheckStatus.FAIL, "LLAMA_ARG_SWA_FULL=1")
    status, observed, _ = found["hidden_config_keys"]
    assert status is CheckStatus.FAIL
    assert observed == "/etc/llama.cpp/config.ini: swa_full = true"
    assert not any("secret" in str(value) for value in found.values())


def test_the_listener_must_be_the_engine() -> None:
    host = serving()
    host.listeners = (ListeningSocket("127.0.0.1", 8080, 99),)
    assert compared(host)["listener"][:2] == (CheckStatus.FAIL, "process 99")
    host.listeners = (ListeningSocket("127.0.0.1", 8080, None),)
    assert compared(host)["listener"][0] is CheckStatus.NOT_EVALUATED


def test_another_drop_in_after_ours() -> None:
    host = serving()
    host.unit(
        UNIT,
        "[Service]\n",
        main_pid=7,
        zz_llmops=host.files[f"/etc/systemd/system/{UNIT}.d/zz-llmops.conf"],
        zzz="[Service]\nExecStart=\nExecStart=/usr/bin/llama-server -m x\n",
    )
    found = compared(host)
    assert found["drop_in"][0] is CheckStatus.FAIL
    assert "last" in found["drop_in"][2]
    assert found["running_command"][0] is CheckStatus.FAIL


def test_what_cannot_be_seen_is_not_evaluated_with_the_reason() -> None:
    host = serving()
    host.answers[f"{URL}/props"] = Response(401, "{}")
    host.answers[f"{URL}/slots"] = Response(501, "{}")
    found = compared(host)
    assert found["total_slots"][0] is CheckStatus.NOT_EVALUATED
    assert "API key" in found["total_slots"][2]
    host.running = ()
    gone = compared(host)
    assert gone["--parallel"][0] is CheckStatus.NOT_EVALUATED
    assert "not running" in gone["--parallel"][2]


@pytest.mark.parametrize("body", ["<html>", "[1,2]", "null", '{"total_slots": "five"}', "[" * 100_000])
def test_nonsense_from_the_server_is_no_traceback(body: str) -> None:
    host = serving()
    host.answers[f"{URL}/props"] = host.answers[f"{URL}/slots"] = Response(200, body)
    seen = ENGINE.in_force(host, in_unit())
    assert (seen.slots, seen.slot_contexts) == (None, None)
    assert {"props"} <= set(dict(seen.unseen))


def test_a_sleeping_server_is_not_woken() -> None:
    host = serving()
    host.answers[f"{URL}/props"] = Response(200, json.dumps(props(is_sleeping=True)))
    del host.answers[f"{URL}/slots"]
    seen = ENGINE.in_force(host, in_unit())
    assert seen.sleeping is True
    assert dict(seen.unseen)["slot_contexts"] == "the server sleeps"


def test_the_words_of_a_unit_with_variables_and_specifiers() -> None:
    host = LookedAt(files={"/etc/default/llama": 'MODEL="/srv/a b.gguf"\nEXTRA=--alias chat\n'})
    host.unit(
        UNIT,
        "[Service]\nEnvironmentFile=-/etc/default/llama\n"
        f"ExecStart={SERVER} -m ${{MODEL}} $EXTRA --log-file %S/%N.log\n",
    )
    seen = ENGINE.in_force(host, in_unit())
    assert seen.user_arguments == (
        SERVER,
        "-m",
        "/srv/a b.gguf",
        "--alias",
        "chat",
        "--log-file",
        "/var/lib/llama-server.log",
    )
    assert seen.environment_files == ("/etc/default/llama",)
    host.unit(UNIT, f"[Service]\nExecStart={SERVER} -m /srv/%H.gguf\n")
    assert ENGINE.in_force(host, in_unit()).user_arguments is None


def drop_in_over(host: LookedAt, unit: str) -> str:
    """The file of llmops over a unit that a person wrote."""
    host.unit(UNIT, f"[Service]\n{unit}\n")
    (file,) = ENGINE.files(a_plan(), in_unit(), ENGINE.in_force(host, in_unit()))
    return " ".join(file.content.replace("\\\n", " ").split())


def test_variables_stay_variables_so_that_no_secret_is_copied_and_their_owner_can_change_them() -> None:
    host = LookedAt(files={"/etc/default/llama-server": "KEY=s3cret\nEXTRA=--alias chat\nSLOTS=1\n"})
    text = drop_in_over(
        host,
        "EnvironmentFile=-/etc/default/%p\n"
        f"ExecStart={SERVER} -m {MODEL} --api-key ${{KEY}} $EXTRA $NONE -np ${{SLOTS}} --log-file %S/a$$b",
    )
    assert f"ExecStart={SERVER} -m {MODEL} --api-key ${{KEY}} $EXTRA $NONE --log-file %S/a$$b --host" in text
    assert "s3cret" not in text
    assert "SLOTS" not in text


def test_planned_words_behind_a_variable_stay_there_and_ours_come_later() -> None:
    host = LookedAt()
    host.unit(UNIT, f"[Service]\nEnvironment=ARGS='-np 1 -m {MODEL}'\nExecStart={SERVER} $ARGS\n")
    seen = ENGINE.in_force(host, in_unit())
    line = build(a_plan(), in_unit(), seen)
    assert line.written[:2] == (SERVER, "$ARGS")
    assert line.written[line.written.index("--parallel") + 1] == "5"
    assert [word for word in line.warnings if word.startswith("-np 1 stays in the variable")]
    host.unit(UNIT, f"[Service]\nEnvironment=ARGS='-cmoe -m {MODEL}'\nExecStart={SERVER} $ARGS\n")
    with pytest.raises(Misconfigured, match="-cmoe hides in a variable"):
        build(a_plan(), in_unit(), ENGINE.in_force(host, in_unit()))


@pytest.mark.parametrize("prefix", ["-", "+", "!", "-+"])
def test_what_stands_before_the_program_stays(prefix: str) -> None:
    assert f"ExecStart={prefix}{SERVER} -m" in drop_in_over(LookedAt(), f"ExecStart={prefix}{SERVER} -m {MODEL}")


def test_a_prefix_that_only_says_how_the_line_is_read_is_obeyed_and_left_out() -> None:
    text = drop_in_over(LookedAt(), f"ExecStart=-@:{SERVER} llm -m {MODEL} --alias $HOME")
    assert f"ExecStart=-{SERVER} -m {MODEL} --alias $$HOME" in text


def test_a_specifier_that_only_systemd_knows_is_kept_but_not_in_what_is_written_anew() -> None:
    words = f"ExecStart={SERVER} -m {MODEL} --api-key-file %d/key"
    assert "--api-key-file %d/key" in drop_in_over(LookedAt(), words)
    with pytest.raises(Misconfigured, match="--host %H"):
        drop_in_over(LookedAt(), f"{words} --host %H")


def test_an_environment_file_that_may_not_be_read_leaves_the_words_unknown() -> None:
    class Closed(LookedAt):
        def read_text(self, path: PurePosixPath | str) -> str:
            if str(path) == "/etc/secret":
                raise PermissionError(13, "Permission denied", str(path))
            return super().read_text(path)

    host = Closed()
    unit = f"EnvironmentFile=/etc/secret\nExecStart={SERVER} -m {MODEL} --api-key"
    assert "--api-key ${KEY}" in drop_in_over(host, f"{unit} ${{KEY}}")
    assert ENGINE.in_force(host, in_unit()).configured_arguments is None
    drop_in_over(host, f"{unit} plain")
    assert ENGINE.in_force(host, in_unit()).configured_arguments is not None


def test_a_drop_in_that_may_not_be_read_is_said_and_nothing_is_guessed() -> None:
    closed = f"/etc/systemd/system/{UNIT}.d/50-secret.conf"

    class Closed(LookedAt):
        def read_text(self, path: PurePosixPath | str) -> str:
            if str(path) == closed:
                raise PermissionError(13, "Permission denied", closed)
            return super().read_text(path)

    host = Closed()
    host.unit(UNIT, f"[Service]\nExecStart={SERVER} -m {MODEL}\n", main_pid=7, **{"50_secret": ""})
    host.running = (process(7, SERVER, "-m", MODEL, group=f"/system.slice/{UNIT}"),)
    (found,) = [one for one in ENGINE.detect(host) if one.unit]
    assert (found.unit, found.pid) == (UNIT, 7)
    seen = ENGINE.in_force(host, found)
    assert dict(seen.unseen)["unit"] == f"{closed} may be read by root only"
    assert (seen.user_arguments, seen.user_command, seen.arguments) == (None, None, (SERVER, "-m", MODEL))
    with pytest.raises(NoPermission, match="50-secret"):
        ENGINE.files(a_plan(), in_unit(), seen)


def test_a_variable_that_systemd_gives_is_not_taken_for_empty() -> None:
    host = LookedAt()
    drop_in_over(host, f"ExecStart={SERVER} -m {MODEL} --api-key-file ${{CREDENTIALS_DIRECTORY}}/key")
    assert ENGINE.in_force(host, in_unit()).user_arguments is None


def test_environment_files_by_a_pattern() -> None:
    host = LookedAt(files={"/etc/llm/b.env": "B=2\n", "/etc/llm/a.env": "A=1\nB=1\n", "/etc/llm/c.txt": "B=3\n"})
    host.unit(UNIT, f"[Service]\nEnvironmentFile=/etc/llm/*.env\nExecStart={SERVER} -m {MODEL}\n")
    seen = ENGINE.in_force(host, in_unit())
    assert seen.environment_files == ("/etc/llm/a.env", "/etc/llm/b.env")
    assert seen.configured_environment == (("A", "1"), ("B", "2"))


def test_the_server_behind_a_script_is_found_in_its_control_group() -> None:
    host = LookedAt()
    host.unit(UNIT, "[Service]\nExecStart=/usr/local/bin/start\n", main_pid=7)
    group = f"/system.slice/{UNIT}"
    host.running = (
        process(7, "/bin/sh", "/usr/local/bin/start", group=group),
        process(8, SERVER, "-m", MODEL, group=group),
    )
    assert ENGINE.in_force(host, in_unit()).pid == 8


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        (Response(200, '{"status":"ok"}'), Health.READY),
        (Response(503, '{"error":{"message":"Loading model"}}'), Health.LOADING),
        (Response(200, "<html>hello</html>"), Health.NONSENSE),
        (Response(404, "{}"), Health.NONSENSE),
        (Response(200, "[]"), Health.NONSENSE),
        (ConnectionError("SSH-2.0"), Health.NONSENSE),
        (TimeoutError("late"), Health.DOWN),
    ],
)
def test_health(answer: Response | OSError, health: Health) -> None:
    assert ENGINE.health(LookedAt(answers={f"{URL}/health": answer}), URL) is health
    assert ENGINE.health(LookedAt(), URL) is Health.DOWN


def test_served_is_read_back_from_what_runs() -> None:
    seen = ENGINE.in_force(serving(), in_unit())
    found = ENGINE.served(seen, in_unit())
    assert found is not None
    assert (found.values.slots, found.values.context_tokens, found.context_was_chosen) == (5, 8192, True)
    assert (found.request_context_tokens, found.works_against) == (8192, ())


def started_with(*words: str, slots: int = 4, context: int = 8192, environment: dict[str, str] | None = None) -> Served:
    seen = replace(
        ENGINE.in_force(serving(), in_unit()),
        arguments=(SERVER, "-m", MODEL, *words),
        environment=tuple((environment or {}).items()),
        slots=slots,
        context_tokens_per_slot=context,
    )
    found = ENGINE.served(seen, in_unit())
    assert found is not None
    return found


def test_of_one_pool_a_share_is_sure_and_all_of_it_is_the_longest_request() -> None:
    by_default = started_with("-c", "8192")
    assert by_default.values.kv_unified
    assert (by_default.values.context_tokens, by_default.request_context_tokens) == (2048, 8192)
    capped = started_with("-np", "4", "-kvu", "--kv-unified-per-slot", "8192")
    assert (capped.values.context_tokens, capped.request_context_tokens) == (8192, 8192)
    wide = started_with("-np", "4", "-kvu", "-c", "131072", context=32_768)  # each slot is cut to the trained context
    assert (wide.values.context_tokens, wide.request_context_tokens) == (32_768, 32_768)
    own = started_with("-np", "4", "-c", "32768")
    assert (own.values.kv_unified, own.values.context_tokens) == (False, 8192)


def test_one_slot_that_some_builds_took_for_automatic() -> None:
    assert started_with("-np", "1", "-c", "8192").values.kv_unified


def test_a_variable_that_turns_off_does_so_with_any_value() -> None:
    assert not started_with("-np", "4", environment={"LLAMA_ARG_NO_KV_UNIFIED": "1"}).values.kv_unified
    assert started_with("-np", "4", environment={"LLAMA_ARG_KV_UNIFIED": "1"}).values.kv_unified
    assert started_with(environment={"LLAMA_ARG_NO_REPACK": "0"}).values.repack is False


def test_how_a_person_divided_a_model() -> None:
    found = started_with("-ncmoe", "12", "-ts", "3/1").values
    assert (found.cpu_expert_layers, found.tensor_split) == (12, (3.0, 1.0))
    every = started_with("--cpu-moe", "-ts", "odd").values
    assert (every.cpu_expert_layers, every.tensor_split) == (1 << 16, None)
    plain = started_with().values
    assert (plain.cpu_expert_layers, plain.tensor_split) == (None, None)


def test_threads_layers_and_words_that_no_plan_would_have() -> None:
    found = started_with("-t", "64", "-ngl", "20", "-nocb")
    assert (found.threads, found.gpu_layers) == (64, 20)
    (against,) = found.works_against
    assert "-nocb" in against
    automatic = started_with("-t", "-1", "-ngl", "all")
    assert (automatic.threads, automatic.gpu_layers) == (None, None)


@pytest.mark.parametrize(
    ("code", "output", "says"),
    [
        (139, "load_tensors: AMX model buffer size = 213 MiB", "--no-repack"),
        (132, "", "--no-repack"),
        (137, "", "out of memory"),
        (
            1,
            "0.1 E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1",
            "another program has the port",
        ),
        (1, "E ggml_backend: failed to allocate buffer of size 49152000000", "--ram-available"),
        (1, "error: invalid argument: --no-mmap", "--no-mmap"),
        (1, "", "exit code 1"),
    ],
)
def test_last_words(code: int, output: str, says: str) -> None:
    said = last_words(code, output)
    assert says in said
    assert "\n" not in said


def test_what_the_log_of_a_trial_says() -> None:
    plan = a_plan()
    cache = sum(budget.cache_bytes for budget in plan.budgets) / 1024**2
    (good,) = log_checks(plan, f"I llama_kv_cache: size = {cache:.2f} MiB ( 8192 cells")
    assert good.status is CheckStatus.PASS
    (bad,) = log_checks(plan, f"I llama_kv_cache: size = {cache * 2:.2f} MiB ( 8192 cells")
    assert bad.status is CheckStatus.FAIL
    (silent,) = log_checks(plan, "")
    assert silent.status is CheckStatus.NOT_EVALUATED
    on_card = replace(plan, gpu_layers=37)
    assert log_checks(on_card, "load_tensors: offloaded 36/37 layers to GPU")[1].status is CheckStatus.FAIL
    assert log_checks(on_card, "load_tensors: offloaded 37/37 layers to GPU")[1].status is CheckStatus.PASS
    assert port_was_taken("E srv start: couldn't bind HTTP server socket") is True
    assert port_was_taken("all is well") is False
