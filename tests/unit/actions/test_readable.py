"""Whether the account of a service can read its model, by modes, groups, and what its unit hides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.actions.readable import CHECK, model_paths, obstacle, readable_check, require
from llmops.actions.service_account import Undecided
from llmops.core.errors import Misconfigured
from llmops.core.verification import CheckStatus
from llmops.systemd import UnitFile
from tests.unit.actions.serving_machine import FRAGMENT, MODEL, UNIT, a_plan, installation, machine
from tests.unit.fake_machine import FakeFile, FakeMachine

DIRECTORY = "/srv/models/qwen3-8b"
WEIGHTS = f"{DIRECTORY}/model.safetensors"
VLLM_USER = "uid=998(vllm) gid=997(vllm) groups=997(vllm),44(models)"


def host_with(path: str = WEIGHTS, *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> FakeMachine:
    host = FakeMachine(files={path: FakeFile("weights", mode, uid, gid)})
    host.said["id vllm"] = VLLM_USER
    return host


def found(host: FakeMachine, settings: str, *paths: str) -> str | None:
    said = obstacle(host, UNIT, (UnitFile(FRAGMENT, f"[Service]\n{settings}"),), paths or (WEIGHTS,))
    return None if said is None else f"{said.message} | {said.hint}"


def test_everybody_may_read_what_is_open_to_all() -> None:
    for settings in ("", "User=vllm", "DynamicUser=yes", "DynamicUser=yes\nProtectHome=tmpfs"):
        assert found(host_with(), settings) is None


def test_a_directory_on_the_way_must_let_through() -> None:
    host = host_with()
    host.modes["/srv/models"] = 0o700
    assert found(host, "") is None, "root goes everywhere"
    said = found(host, "User=vllm") or ""
    assert "runs as the user vllm, which may not enter /srv/models (mode 0700)" in said
    assert "chmod a+x /srv/models" in said
    assert "an account of its own" in (found(host, "DynamicUser=yes") or "")
    host.modes["/srv/models"] = 0o711
    assert found(host, "User=vllm") is None, "to pass by name, the list of names is not needed"


@pytest.mark.parametrize(
    ("file", "settings", "reads"),
    [
        ({"mode": 0o600, "uid": 998}, "User=vllm", True),
        ({"mode": 0o600, "uid": 0}, "User=vllm", False),
        ({"mode": 0o600, "uid": 0}, "", True),
        ({"mode": 0o600, "uid": 7}, "CapabilityBoundingSet=", False),
        ({"mode": 0o640, "gid": 44}, "User=vllm", True),
        ({"mode": 0o640, "gid": 45}, "User=vllm", False),
        ({"mode": 0o640, "gid": 45}, "User=vllm\nSupplementaryGroups=shared", True),
        ({"mode": 0o640, "gid": 45}, "DynamicUser=yes\nGroup=45", True),
        # The first class that fits decides, even where a later one gives more.
        ({"mode": 0o604, "gid": 44}, "User=vllm", False),
        ({"mode": 0o044, "uid": 998}, "User=vllm", False),
    ],
)
def test_owner_group_and_others(file: dict[str, int], settings: str, reads: bool) -> None:
    host = host_with(WEIGHTS, **file)
    host.said["getent group shared"] = "shared:x:45:me"
    assert (found(host, settings) is None) is reads


def test_a_hidden_place_is_named_with_the_setting_that_hides_it() -> None:
    path = "/home/me/model.gguf"
    said = found(host_with(path), "User=vllm\nProtectHome=yes", path) or ""
    assert "hides /home/me/model.gguf from its service (ProtectHome=yes)" in said
    assert "BindReadOnlyPaths=/home/me" in said


def test_above_what_is_shown_in_a_hidden_home_no_directory_counts() -> None:
    path = "/home/me/models/model.gguf"
    host = host_with(path)
    host.modes["/home/me"] = 0o700
    shown = "DynamicUser=yes\nProtectHome=tmpfs\nBindReadOnlyPaths=/home/me/models"
    assert found(host, shown, path) is None
    host.modes["/home/me/models"] = 0o700
    assert "may not enter /home/me/models (mode 0700)" in (found(host, shown, path) or "")


def test_links_of_what_is_shown_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    path, links = "/home/me/models/model.gguf", {"/srv/link": "/home/me/models"}
    host = host_with(path)
    monkeypatch.setattr(host, "resolve", lambda place: links.get(str(place), str(place)))
    assert found(host, "DynamicUser=yes\nProtectHome=tmpfs\nBindReadOnlyPaths=/srv/link", path) is None


def test_a_checkpoint_is_a_directory_that_is_listed_and_read_whole() -> None:
    host = host_with()
    host.files[f"{DIRECTORY}/tokenizer.json"] = FakeFile("{}", 0o600)
    for unused in (".gitattributes", "optimizer.pt", "training_args.bin", "notes.md"):
        host.files[f"{DIRECTORY}/{unused}"] = FakeFile("", 0o600)
    model = replace(a_plan().model, format="safetensors", source_paths=(WEIGHTS,))
    paths = model_paths(host, model)
    assert paths == (DIRECTORY, WEIGHTS, f"{DIRECTORY}/tokenizer.json")
    said = found(host, "User=vllm", *paths) or ""
    assert "may not read" in said
    assert f"chmod -R a+rX {DIRECTORY}" in said
    host.modes[DIRECTORY] = 0o711
    assert f"may not read {DIRECTORY} (mode 0711)" in (found(host, "User=vllm", *paths) or "")


def test_an_access_list_decides_instead_of_the_mode() -> None:
    host = host_with(mode=0o640)
    host.said[f"ls -ld -- {WEIGHTS}"] = f"-rw-r-----+ 1 root root 7 Nov 30 08:00 {WEIGHTS}"
    with pytest.raises(Undecided, match="has an access list"):
        found(host, "User=vllm")
    require(host, UNIT, (UnitFile(FRAGMENT, "[Service]\nUser=vllm"),), (WEIGHTS,))


def test_what_this_machine_does_not_know_is_undecided() -> None:
    with pytest.raises(Undecided, match="nobody-here"):
        found(host_with(), "User=nobody-here")
    with pytest.raises(Undecided, match="the group nowhere"):
        found(host_with(), "User=vllm\nGroup=nowhere")
    with pytest.raises(Undecided, match="root directory"):
        found(host_with(), "RootDirectory=/srv/image")


@pytest.mark.parametrize(
    "settings",
    [
        f"User=vllm\nTemporaryFileSystem=/srv\nBindReadOnlyPaths=/data/model:{DIRECTORY}",
        "DynamicUser=yes\nStateDirectory=other/one\nBindPaths=/data:/srv",
    ],
)
def test_what_the_service_sees_otherwise_is_undecided(settings: str) -> None:
    with pytest.raises(Undecided, match="shows its service another"):
        found(host_with(mode=0o600), settings)


def test_an_account_with_the_capability_reads_everything() -> None:
    assert found(host_with(mode=0o600), "User=vllm\nAmbientCapabilities=CAP_DAC_READ_SEARCH") is None


def test_a_drop_in_that_only_root_reads_leaves_it_open() -> None:
    files = (UnitFile(FRAGMENT, "[Service]\nUser=vllm\n"), UnitFile(f"{FRAGMENT}.d/secret.conf", "", readable=False))
    with pytest.raises(Undecided, match=r"secret\.conf is readable by root only"):
        obstacle(host_with(mode=0o600), UNIT, files, (WEIGHTS,))


def test_an_account_named_like_the_unit_is_used_where_there_is_one() -> None:
    host = host_with(mode=0o600, uid=996)
    assert found(host, "DynamicUser=yes") is not None
    host.said["id llama-server"] = "uid=996(llama-server) gid=996(llama-server) groups=996(llama-server)"
    assert found(host, "DynamicUser=yes") is None


def test_a_refusal_says_what_and_how() -> None:
    with pytest.raises(Misconfigured, match="which may not read") as caught:
        require(host_with(mode=0o600), UNIT, (UnitFile(FRAGMENT, "[Service]\nUser=vllm"),), (WEIGHTS,))
    assert f"chmod a+r {WEIGHTS}" in (caught.value.hint or "")


def test_a_running_unit_whose_model_became_unreadable_is_found() -> None:
    host, model = machine(), a_plan().model
    (check,) = readable_check(host, installation(), model)
    assert (check.name, check.status) == (CHECK, CheckStatus.PASS)
    host.said["id vllm"] = VLLM_USER
    host.files[FRAGMENT] = FakeFile(f"{host.files[FRAGMENT].text}User=vllm\n")
    host.files[MODEL] = FakeFile("GGUF", 0o600)
    host.reload()
    (check,) = readable_check(host, installation(), model)
    assert check.status is CheckStatus.FAIL
    assert "the next start would fail" in check.detail
    del host.files[MODEL]
    (check,) = readable_check(host, installation(), model)
    assert f"{MODEL} is not there" in check.detail
    assert readable_check(host, installation(unit=None), model) == ()
