"""Finding llama-servers in every place where people run them."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from llmops.core.errors import UsageError
from llmops.core.version import Version
from llmops.engines import ENGINES, engine_named
from llmops.engines.llama_server import programs
from llmops.engines.llama_server.detect import detect
from llmops.host import FileStatus
from tests.unit.engines.llama_host import NEW_HELP, SERVER, LookedAt, process


@pytest.fixture(autouse=True)
def no_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed beside these tests is no part of the machines in them."""
    monkeypatch.setattr(programs, "EMBEDDED_LIBRARY", "no_such_library_anywhere")


def test_engines_by_name() -> None:
    assert engine_named("llama-server") is ENGINES[0]
    with pytest.raises(UsageError, match="sglang"):
        engine_named("sglang")


def test_an_empty_machine() -> None:
    assert detect(LookedAt()) == ()


def test_a_unit_with_a_second_name_is_one_and_one_that_is_linked_keeps_its_own() -> None:
    class Linked(LookedAt):
        def resolve(self, path: PurePosixPath | str) -> str:
            target = {
                "/etc/systemd/system/llm.service": "/etc/systemd/system/chat.service",
                "/etc/systemd/system/far.service": "/opt/units/elsewhere.service",
                "/etc/systemd/system/multi-user.target.wants/many@7b.service": "/etc/systemd/system/many@.service",
            }
            return target.get(str(path), str(path))

    host = Linked()
    host.install(SERVER)
    for name in ("chat", "far", "many@7b"):
        host.unit(f"{name}.service", f"[Service]\nExecStart={SERVER} -m /m.gguf\n")
    wanted = "multi-user.target.wants"
    places = ("chat", "far", "llm", "many@", f"{wanted}/chat", f"{wanted}/many@7b")
    host.named_in(*(f"/etc/systemd/system/{place}.service" for place in places))
    assert [one.unit for one in detect(host)] == ["chat.service", "far.service", "many@7b.service"]


def test_a_unit_of_any_name_with_a_drop_in_is_asked_what_it_knows() -> None:
    host = LookedAt()
    host.install(SERVER)
    host.unit(
        "chat.service",
        f"[Service]\nExecStart={SERVER} -m /m.gguf\n",
        override=f"[Service]\nExecStart=\nExecStart={SERVER} -m /n.gguf\n",
    )
    host.named_in("/etc/systemd/system/chat.service", "/etc/systemd/system/chat.service.d/override.conf")
    (found,) = detect(host)
    assert (found.managed_by, found.unit, found.command) == ("unit", "chat.service", (SERVER,))
    assert found.version == Version((9265,))
    assert found.accelerators == ()
    assert found.flags is not None
    assert "--kv-unified-per-slot" in found.flags


def test_running_units_come_first_and_mentions_are_no_units() -> None:
    host = LookedAt()
    host.install(SERVER)
    host.unit("a.service", f"[Service]\nExecStart={SERVER} -m /a.gguf\n")
    host.unit("b.service", f"[Service]\nExecStart={SERVER} -m /b.gguf\n", main_pid=7)
    host.unit("front.service", "[Unit]\nAfter=llama-server.service\n[Service]\nExecStart=/usr/sbin/haproxy\n")
    host.named_in(*(f"/etc/systemd/system/{name}.service" for name in ("a", "b", "front", "template@")))
    host.running = (process(7, SERVER, "-m", "/b.gguf", group="/system.slice/b.service"),)
    assert [found.unit for found in detect(host)] == ["b.service", "a.service"]


def test_a_unit_that_starts_it_through_a_script() -> None:
    host = LookedAt()
    host.install("/opt/llama/llama-server")
    host.unit("ai.service", "[Service]\nExecStart=/usr/local/bin/start-ai\n", main_pid=7)
    host.named_in()
    host.running = (
        process(7, "/bin/sh", "/usr/local/bin/start-ai", group="/system.slice/ai.service"),
        process(8, "/opt/llama/llama-server", "-m", "/m.gguf", parent=7, group="/system.slice/ai.service"),
    )
    (found,) = detect(host)
    assert (found.managed_by, found.unit, found.pid) == ("unit", "ai.service", 8)
    assert "script" in found.detail


def test_processes_outside_units_and_children_of_others() -> None:
    host = LookedAt()
    host.install("/home/me/llama-server")
    host.running = (
        process(20, "/home/me/llama-server", "-m", "/m.gguf", group="/user.slice/user-1000.slice/session-2.scope"),
        process(30, "/usr/bin/ollama", "serve"),
        process(31, "/usr/lib/ollama/llama-server", "--model", "/blob", parent=30),
        process(32, "/usr/bin/python3", "/home/me/bin/ollama", "serve"),
        process(33, "/home/me/lib/llama-server", "--model", "/blob", parent=32),
        process(40, "/home/me/llama-server", "--models-dir", "/m", group="/user.slice"),
        process(41, "/home/me/llama-server", "-m", "/m/one.gguf", parent=40, group="/user.slice"),
        process(50, "/usr/bin/vim", "llama-server"),
    )
    assert [(found.managed_by, found.pid) for found in detect(host)] == [("process", 20), ("process", 40)]


def test_a_program_that_was_replaced_while_it_ran() -> None:
    host = LookedAt()
    host.install("/opt/new/llama-server")
    deleted = process(20, "llama-server", "-m", "/m.gguf")
    host.running = (type(deleted)(20, 1, "/opt/new/llama-server (deleted)", deleted.argv, (), 0, "/"),)
    (found,) = detect(host)
    assert found.command == ("/opt/new/llama-server",)
    assert found.problem is None


@pytest.mark.parametrize(
    ("manager", "entry", "scope"),
    [
        ("docker", {"ID": "a" * 64, "Image": "ghcr.io/x/llama.cpp:server", "Names": "web", "Command": "x"}, "docker"),
        ("podman", {"Id": "a" * 64, "Image": "quay.io/llama-cpp", "Names": ["pod"], "Command": ["x"]}, "libpod"),
    ],
)
def test_containers_are_found_and_named(manager: str, entry: dict[str, object], scope: str) -> None:
    host = LookedAt(programs={manager: f"/usr/bin/{manager}"})
    other = json.dumps({"ID": "c", "Image": "postgres", "Names": "db", "Command": "postgres"})
    host.says((manager, "ps", "--no-trunc", "--format", "{{json .}}"), f"{json.dumps(entry)}\nnot json\n{other}\n")
    host.running = (process(9, "/app/llama-server", "-m", "/m.gguf", group=f"/system.slice/{scope}-{'a' * 64}.scope"),)
    (found,) = detect(host)
    assert (found.managed_by, found.pid) == (manager, 9)
    assert ("web" if manager == "docker" else "pod") in found.detail
    host.running = ()
    (listed,) = detect(host)
    assert (listed.managed_by, listed.pid) == (manager, None)


def test_a_container_is_told_by_its_control_group_where_the_manager_cannot_be_asked() -> None:
    host = LookedAt(programs={"docker": "/usr/bin/docker"})
    host.says(("docker", "ps", "--no-trunc", "--format", "{{json .}}"), "", stderr="permission denied", exit_code=1)
    host.running = (process(9, "/app/llama-server", group=f"/docker/{'d' * 64}"),)
    (found,) = detect(host)
    assert found.managed_by == "docker"
    assert "d" * 12 in found.detail


@pytest.mark.parametrize("machine", ["machine.slice/machine-other.scope", "system.slice/mine.service", "plain"])
def test_system_containers_are_other_machines(machine: str) -> None:
    host = LookedAt()
    host.install(SERVER)
    group = f"/{machine}/payload/system.slice/llama-server.service"
    host.running = (process(9, SERVER, "-m", "/m.gguf", group=group),)
    assert detect(host) == detect(LookedAt(files=dict(host.files), commands=host.commands))
    host.files["/proc/self/cgroup"] = f"1:name=systemd:/{machine}/payload/user.slice\n"
    assert [found.managed_by for found in detect(host)] == ["process"]


def test_a_snap() -> None:
    host = LookedAt(programs={"llama-server": "/snap/bin/llama-server"})
    host.install("/snap/bin/llama-server")
    (found,) = detect(host)
    assert found.managed_by == "snap"


def test_programs_on_path_and_in_common_places_each_once() -> None:
    host = LookedAt(programs={"llama-server": SERVER}, variables={"HOME": "/home/me"})
    for path in (SERVER, "/home/me/llama.cpp/build/bin/llama-server"):
        host.install(path)
    found = detect(host)
    assert [one.command[0] for one in found] == [SERVER, "/home/me/llama.cpp/build/bin/llama-server"]
    assert {one.managed_by for one in found} == {"binary"}


def test_a_program_that_does_not_run_says_why() -> None:
    host = LookedAt(programs={"llama-server": SERVER}, files={SERVER: ""})
    host.says((SERVER, "--help"), "", stderr="error while loading shared libraries: libllama.so.0", exit_code=127)
    (found,) = detect(host)
    assert found.problem is not None
    assert "libllama.so.0" in found.problem
    assert found.flags is None


def test_a_build_without_device_list_has_unknown_accelerators() -> None:
    host = LookedAt(programs={"llama-server": SERVER})
    host.install(SERVER, NEW_HELP.replace("--list-devices                          devices\n", ""))
    (found,) = detect(host)
    assert found.accelerators is None


def test_the_embedded_server_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "EMBEDDED_LIBRARY", "click")  # any library that is installed beside the tests
    (found,) = detect(LookedAt())
    assert found.managed_by == "embedded"
    assert found.command[1:] == ("-m", "llmops.embedded")
    assert found.flags is not None
    assert {"--parallel", "--ctx-size", "--port"} <= found.flags


class Owned(LookedAt):
    """A machine whose files and directories have owners."""

    def status(self, path: PurePosixPath | str) -> FileStatus:
        owner, mode = {"/home/mallory": (1000, 0o755), "/srv/open": (0, 0o777)}.get(str(path), (0, 0o755))
        return FileStatus("file", 1, mode, owner, 0, 0.0, 0, 0)


@pytest.mark.parametrize(
    ("program", "variables", "uid", "problem"),
    [
        ("/home/mallory/llama-server", {}, 0, "user 1000 owns /home/mallory"),
        ("/srv/open/llama-server", {}, 0, "anybody may write to /srv/open"),
        ("/home/mallory/llama-server", {"SUDO_UID": "1000"}, 0, None),
        ("/home/mallory/llama-server", {}, 1000, None),
        ("/opt/llama-server", {}, 0, None),
    ],
)
def test_root_runs_no_program_that_somebody_else_has_started_and_owns(
    program: str, variables: dict[str, str], uid: int, problem: str | None
) -> None:
    host = Owned(uid=uid, variables=variables)
    host.install(program)
    host.programs.clear()
    host.running = (process(7, program, "-m", "/m.gguf"),)
    found = next(found for found in detect(host) if found.pid == 7)
    if problem is None:
        assert found.problem is None
        assert found.version == Version((9265,))
    else:
        assert problem in str(found.problem)
        assert found.flags is None
