"""Every bad input: one line that names the cause, the next step, the documented exit code, nothing changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmops.host import Completed
from tests.unit.cli.conftest import Ran, Run
from tests.unit.cli.machine import PROGRAM, Machine
from tests.unit.fake_machine import FakeFile

VERSION = ("--engine-version", "11434", "--bandwidth", "20GB/s")


def assert_one_line(ran: Ran, exit_code: int, *words: str) -> None:
    assert ran.exit_code == exit_code, ran
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "])
    assert "Traceback" not in ran.stderr
    for word in words:
        assert word in ran.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--users", "0"), ("--users", "the least is 1")),
        (("--users", "-3"), ("--users", "the least is 1")),
        (("--users", "many"), ("--users", "expected a whole number, found 'many'")),
        (("--users", "2.5"), ("expected a whole number",)),
        (("--slots", "0"), ("--slots", "the least is 1")),
        (("--context", "0"), ("--context",)),
        (("--queue", "-1"), ("--queue",)),
        (("--batch-size", "0"), ("--batch-size",)),
        (("--prompt-tokens", "-1"), ("--prompt-tokens",)),
        (("--turn-seconds", "0"), ("--turn-seconds", "more than 0")),
        (("--turn-seconds", "nan"), ("expected a number",)),
        (("--wait-probability", "1.5"), ("--wait-probability", "less than 1")),
        (("--wait-probability", "0"), ("more than 0",)),
        (("--min-speed", "-1"), ("--min-speed",)),
        (("--cache-type", "q3_k"), ("--cache-type", "'q3_k' is not one of")),
        (("--cache-type-k", "fp8"), ("--cache-type-k",)),
        (("--cache-type", "fp8"), ("fp8 is a cache type of vllm", "q8_0")),
        (("--workload", "party"), ("--workload", "chat, rag, agent, batch")),
        (("--engine", "triton"), ("--engine",)),
        (("--protect", "all"), ("--protect",)),
        (("--flash-attn", "maybe"), ("--flash-attn",)),
        (("--ram", "8 parsecs"), ("--ram", "is not a size", "24GiB")),
        (("--ram", "-8GiB"), ("--ram",)),
        (("--ram", "0"), ("--ram",)),
        (("--bandwidth", "20GB"), ("--bandwidth", "is not a rate")),
        (("--gpu", "RTX"), ("RTX", "NAME:TOTAL")),
        (("--gpu", "RTX:24GiB", "--no-gpu"), ("--gpu and --no-gpu",)),
        (("--ram", "4GiB", "--ram-available", "8GiB"), ("--ram-available",)),
        (("--cache-type", "f16", "--cache-type-k", "q8_0"), ("--cache-type and --cache-type-k",)),
        (("--batch-size", "128", "--ubatch-size", "512"), ("--ubatch-size 512 is larger",)),
        (("--flash-attn", "off", "--cache-type", "q8_0"), ("flash attention",)),
        (("--context", "99999"), ("--context 99999 is more than the 16384 tokens",)),
        (("--engine-version", "newest"), ("'newest' is not a version",)),
        (("--engine-version", "-1"), ("'-1' is not a version",)),
        (("--model", "/other.gguf"), ("--model once",)),
        (("--users", "1000000000000"), ("--users", "the most is 100,000")),
        (("--ram", "9" * 400 + "GiB"), ("--ram", "more than any machine has")),
        (("--cores", "99999999999999999999"), ("--cores", "the most is 8,192")),
        (("--patience-seconds", "1e308"), ("--patience-seconds", "the most is")),
        (("--max-gap-seconds", "1e308"), ("--max-gap-seconds", "the most is")),
        (("--generation-seconds", "1e308"), ("--generation-seconds", "the most is")),
        (("--batch-size", "10000000000"), ("--batch-size", "the most is")),
        (("--kv-memory", "4GiB"), ("--kv-memory is an option of vllm",)),
        (("--tensor-parallel=2",), ("--tensor-parallel is an option of vllm",)),
        (("--no-enable-prefix-caching",), ("is an option of vllm", "leave it out")),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "size", "tune"])
def test_values_that_cannot_be_meant_are_2(
    run: Run, machine: Machine, model: str, verb: str, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    known = () if "--engine-version" in options else ("--engine-version", "11434")
    rate = () if "--bandwidth" in options else ("--bandwidth", "20GB/s")
    assert_one_line(run(verb, "--model", model, *known, *rate, *options), 2, *words)
    assert machine.log == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tune", "--apply", "--trial"), "--apply and --trial exclude each other"),
        (("tune", "--apply", "--snapshot", "x"), "a recording cannot be changed"),
        (("apply", "--snapshot", "x"), "a recording cannot be changed"),
        (("apply", "--plan", "x", "--users", "3"), "without --users"),
        (("apply", "--plan", "x", "--replan"), "without --replan"),
        (("rollback", "--recover", "--to", "3"), "--recover and --to exclude each other"),
        (("rollback", "--to", "-1"), "--to"),
        (("snapshot",), "DIR"),
    ],
)
def test_words_that_exclude_each_other_are_2(run: Run, machine: Machine, words: tuple[str, ...], said: str) -> None:
    assert_one_line(run(*words), 2, said)
    assert machine.log == []


@pytest.mark.parametrize("verb", ["plan", "size", "tune", "render"])
def test_a_gguf_file_is_no_model_of_vllm(run: Run, machine: Machine, model: str, verb: str) -> None:
    ran = run(verb, "--engine", "vllm", "--model", model)
    assert_one_line(ran, 2, "is a GGUF file, and vLLM serves Hugging Face checkpoints", "--engine llama-server")


@pytest.mark.parametrize("verb", ["plan", "size", "tune", "render"])
def test_missing_model_is_9(run: Run, machine: Machine, tmp_path: Path, verb: str) -> None:
    missing = str(tmp_path / "missing.gguf")
    assert_one_line(run(verb, "--model", missing, *VERSION), 9, missing)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all, but long enough", b"GGUF" + bytes(60)])
def test_truncated_or_foreign_model_is_9(run: Run, machine: Machine, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    assert_one_line(run("plan", "--model", str(path), *VERSION), 9, str(path))


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("/" + "a" * 5000, "File name too long"),
        ("/models/a\nb.gguf", "'/models/a\\nb.gguf': no such file"),
        ("/models/\x1b[2Jb.gguf", "'/models/\\x1b[2Jb.gguf': no such file"),
        ("~nobody-of-this-name/m.gguf", "Could not determine home directory"),
    ],
)
def test_a_model_that_no_file_can_be_is_9_in_one_line(run: Run, machine: Machine, reference: str, words: str) -> None:
    assert_one_line(run("plan", "--model", reference, *VERSION), 9, words, "hint: ")


def test_a_device_or_a_pipe_is_no_model(run: Run, machine: Machine, tmp_path: Path) -> None:
    machine.files["/dev/zero"] = FakeFile("")
    real = machine.status
    machine.status = lambda path: replace(real(path), kind="device")  # type: ignore[method-assign]
    assert_one_line(run("plan", "--model", "/dev/zero", *VERSION), 9, "/dev/zero: is a device, not a model file")


def test_cut_model_is_9(run: Run, machine: Machine, model: str) -> None:
    path = Path(model)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert_one_line(run("plan", "--model", model, *VERSION), 9, model)


def test_no_model_at_all_is_2_and_says_what_to_type(run: Run, machine: Machine) -> None:
    assert_one_line(run("plan", *VERSION), 2, "--model /path/to/model.gguf")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('"text"', "expected an object"),
        ("NaN", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"data": {"hardware": {"memory": {"total_bytes": "8 GB"}}}}', "memory.total_bytes: expected a whole number"),
        ('{"data": {"hardware": {"memory": {"totl": 8}}}}', "unknown key 'totl'"),
        ('{"memory": {"total_bytes": -1}}', "not negative"),
        ('{"schema": 7, "data": {}}', "its schema is 7"),
        ('{"schema": 1, "exit_code": 9, "data": {}}', "it holds an error"),
    ],
)
def test_garbage_as_hardware_is_9(
    run: Run, machine: Machine, model: str, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "hardware.json"
    path.write_text(content)
    ran = run("plan", "--model", model, *VERSION, "--hardware", str(path))
    assert_one_line(ran, 9, f"hardware file {path}", words, "hint: ")


@pytest.mark.parametrize("option", ["--hardware", "--config"])
def test_missing_file_is_9(run: Run, machine: Machine, model: str, option: str) -> None:
    assert_one_line(
        run("plan", "--model", model, *VERSION, option, "/no/such/file"), 9, "/no/such/file", "no such file"
    )


@pytest.mark.parametrize("option", ["--hardware", "--config"])
def test_directory_or_binary_as_a_file_is_9(
    run: Run, machine: Machine, model: str, tmp_path: Path, option: str
) -> None:
    assert_one_line(run("plan", "--model", model, *VERSION, option, str(tmp_path)), 9, "this is a directory")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert_one_line(run("plan", "--model", model, *VERSION, option, str(binary)), 9, "not a text file")


def test_wrong_configuration_is_9_with_line_and_column(run: Run, machine: Machine, model: str, tmp_path: Path) -> None:
    config = tmp_path / "llmops.yaml"
    config.write_text("users: 3\nslotz: 4\n")
    ran = run("plan", "--model", model, *VERSION, "--config", str(config))
    assert_one_line(ran, 9, f"{config}:2:1: unknown key 'slotz'", "did you mean 'slots'?")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("users: many\n", "1:1: users: expected a whole number"),
        ("users:\t5\n", "not valid YAML"),
        ("<<: {users: 5}\n", "'users' comes from a merge key"),
        ("users: 1000000000000\n", "the most is 100,000"),
        ("- users\n", "expected lines of the form"),
        ("#" * 70_000, "larger than 65536 bytes"),
    ],
)
def test_every_mistake_in_the_configuration_has_a_next_step(
    run: Run, machine: Machine, model: str, tmp_path: Path, content: str, words: str
) -> None:
    config = tmp_path / "llmops.yaml"
    config.write_text(content)
    ran = run("plan", "--model", model, *VERSION, "--config", str(config))
    assert_one_line(ran, 9, str(config), words, "hint: ")


def test_contradiction_inside_the_configuration_is_2(run: Run, machine: Machine, model: str, tmp_path: Path) -> None:
    config = tmp_path / "llmops.yaml"
    config.write_text("no-gpu: true\ngpu: [A:24GiB]\n")
    ran = run("plan", "--model", model, *VERSION, "--config", str(config))
    assert_one_line(ran, 2, f"file {config}:2", "contradict each other")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not JSON"),
        ("{}", "no plan in it"),
        ('{"data": {"plan": {}}}', "no plan in it"),
        ('{"data": {}, "exit_code": 4}', "it holds an error"),
        ('{"data": {"model": {}, "workload": {}, "policy": {}, "plan": {"engine": 1}}}', "plan"),
    ],
)
def test_garbage_as_plan_is_9(run: Run, machine: Machine, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert_one_line(run("apply", "--plan", str(path)), 9, f"plan file {path}", words, "hint: ")
    assert_one_line(run("verify", "--plan", str(path)), 9, f"plan file {path}")
    assert machine.log == []


def test_apply_without_root_is_10(run: Run, machine: Machine, model: str) -> None:
    machine.installed, machine.uid = True, 1000
    machine.__post_init__()
    ran = run("tune", "--apply", "--install-unit", "--model", model, "--bandwidth", "20GB/s")
    assert ran.exit_code == 10
    assert "only root may" in ran.stderr
    assert "Plan for llama-server" in ran.stdout
    assert machine.log == []


def test_rollback_without_root_is_10(run: Run, machine: Machine) -> None:
    machine.uid = 1000
    assert_one_line(run("rollback"), 10, "only root may")


def test_rollback_of_nothing_is_2_even_without_systemd(run: Run, machine: Machine) -> None:
    assert_one_line(run("rollback"), 2, "there is nothing to take back", "llmops history")


def test_apply_without_systemd_is_7(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    machine.directories.discard("/run/systemd/system")
    ran = run("tune", "--apply", "--install-unit", "--model", model, "--bandwidth", "20GB/s")
    assert ran.exit_code == 7
    assert "systemd" in ran.stderr
    assert machine.log == []


def test_apply_while_another_works_is_8(run: Run, machine: Machine, model: str) -> None:
    machine.installed, machine.is_locked = True, True
    machine.__post_init__()
    ran = run("tune", "--apply", "--install-unit", "--model", model, "--bandwidth", "20GB/s")
    assert ran.exit_code == 8
    assert machine.log == []


def test_rollback_of_nothing_is_2(run: Run, machine: Machine) -> None:
    assert_one_line(run("rollback"), 2, "nothing to take back", "llmops history")


def test_verify_of_nothing_is_2(run: Run, machine: Machine) -> None:
    assert_one_line(run("verify"), 2, "applied no plan", "llmops tune --apply")


def test_a_damaged_applied_plan_is_named(run: Run, machine: Machine) -> None:
    machine.files["/var/lib/llmops/applied-llama-server.json"] = FakeFile("{")
    assert_one_line(run("verify"), 2, "applied-llama-server.json is ignored: it is not JSON")


def test_history_of_nothing_is_said(run: Run, machine: Machine) -> None:
    ran = run("history")
    assert (ran.exit_code, ran.stdout) == (0, "Nothing was applied on this machine.\n")
    assert run("history", "--output", "json").envelope["data"] == {"history": []}


def test_recover_of_nothing_is_ok(run: Run, machine: Machine) -> None:
    ran = run("rollback", "--recover", "--output", "json")
    assert (ran.exit_code, ran.envelope["status"]) == (0, "ok")


def test_snapshot_into_a_directory_that_holds_something_is_2(run: Run, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert_one_line(run("snapshot", str(tmp_path)), 2, "is not empty")
    assert_one_line(run("snapshot", str(tmp_path / "file")), 2, "is not a directory")


@pytest.mark.parametrize("directory", ["/proc/no_such_place/here", "/" + "a" * 5000])
def test_a_snapshot_that_cannot_be_written_is_2(run: Run, machine: Machine, directory: str) -> None:
    ran = run("snapshot", directory)
    assert ran.exit_code == 2
    assert "cannot be written to" in ran.stderr
    assert "hint: name another directory" in ran.stderr


def test_files_that_cannot_be_written_are_2(run: Run, machine: Machine, model: str) -> None:
    machine.stop_at, machine.failure = 0, NotADirectoryError(20, "Not a directory", "/etc/passwd/x")
    ran = run("render", "--model", model, *VERSION, "--directory", "/etc/passwd")
    assert_one_line(ran, 2, "/etc/passwd: cannot be written to: Not a directory")


def test_an_engine_that_does_not_run_is_a_warning_in_the_plan(run: Run, machine: Machine, model: str) -> None:
    machine.installed = True
    machine.__post_init__()
    machine.answers[(PROGRAM, "--help")] = Completed((), 1, "", "cannot open shared object file")
    ran = run("plan", "--model", model, "--output", "json")
    assert ran.exit_code == 0
    assert any("cannot be used as it is" in line for line in ran.envelope["data"]["warnings"])
