"""Who a unit runs as and what it hides, read from its files."""

from __future__ import annotations

import pytest

from llmops.render import systemd_bind
from llmops.systemd import Confinement, UnitFile, changed_by, confinement, hidden_by, shown_from

UNIT = "vllm.service"


def read(*texts: str, unit: str = UNIT) -> Confinement:
    return confinement(unit, tuple(UnitFile(f"/etc/{place}", f"[Service]\n{text}") for place, text in enumerate(texts)))


def test_a_unit_that_says_nothing_is_roots_and_hides_nothing() -> None:
    found = read("ExecStart=/bin/true")
    assert (found.user, found.groups, found.is_dynamic, found.root_reads_all) == (None, (), False, True)
    assert hidden_by(found, "/home/me/model.gguf") is None


def test_later_files_win_and_an_empty_value_takes_back() -> None:
    assert read("User=vllm\nGroup=models", "User=other").user == "other"
    assert read("User=vllm", "User=").user is None
    found = read("Group=models\nSupplementaryGroups=video render", "SupplementaryGroups=shared")
    assert found.groups == ("models", "video", "render", "shared")
    assert read("User=%i", unit="vllm@me.service").user == "me"


@pytest.mark.parametrize(
    ("text", "path", "setting"),
    [
        ("ProtectHome=yes", "/home/me/m", "ProtectHome=yes"),
        ("ProtectHome=true", "/root/m", "ProtectHome=true"),
        ("ProtectHome=read-only", "/home/me/m", None),
        ("ProtectHome=tmpfs", "/run/user/1000/m", "ProtectHome=tmpfs"),
        ("ProtectHome=yes", "/homes/m", None),
        ("PrivateTmp=yes", "/tmp/m", "PrivateTmp="),
        ("PrivateTmp=disconnected", "/var/tmp/m", "PrivateTmp="),
        ("DynamicUser=yes", "/var/tmp/m", "PrivateTmp="),
        ("InaccessiblePaths=-/srv/secret +/data", "/data/m", "InaccessiblePaths="),
        ("InaccessiblePaths=/srv/secret\nInaccessiblePaths=", "/srv/secret/m", None),
        ("TemporaryFileSystem=/srv:ro,size=1M", "/srv/m", "TemporaryFileSystem="),
        ("TemporaryFileSystem=/srv:ro\nBindReadOnlyPaths=-/srv/m", "/srv/m/file", None),
        ("TemporaryFileSystem=/srv:ro\nBindReadOnlyPaths=/data/m:/srv/m", "/srv/m/file", "TemporaryFileSystem="),
        ("ProtectHome=tmpfs\nBindPaths=/home/me/m:/home/me/m:rbind", "/home/me/m/file", None),
        # What is bound below a closed place is dropped (systemd, namespace.c, drop_inaccessible).
        ("ProtectHome=yes\nBindReadOnlyPaths=/home/me/m", "/home/me/m/file", "ProtectHome=yes"),
    ],
)
def test_what_a_unit_hides(text: str, path: str, setting: str | None) -> None:
    assert hidden_by(read(text), path) == setting


@pytest.mark.parametrize("path", ["/home/me/m", "/home/me/with space", "/home/me/a:b", '/home/me/"m"', "/home/me/100%"])
def test_what_our_own_units_show_is_found_again(path: str) -> None:
    found = read(f"ProtectHome=tmpfs\nBindReadOnlyPaths={systemd_bind(path)}")
    assert hidden_by(found, f"{path}/file") is None
    assert shown_from(found, f"{path}/file") == path


def test_only_what_is_bound_into_an_emptied_place_has_directories_made_for_it() -> None:
    found = read("ProtectHome=tmpfs\nBindReadOnlyPaths=/srv/m")
    assert shown_from(found, "/srv/m/file") is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("CapabilityBoundingSet=", False),
        ("CapabilityBoundingSet=CAP_NET_BIND_SERVICE", False),
        ("CapabilityBoundingSet=CAP_NET_ADMIN\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH", True),
        ("CapabilityBoundingSet=~CAP_SYS_ADMIN", True),
        ("CapabilityBoundingSet=~CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH", False),
        ("CapabilityBoundingSet=\nCapabilityBoundingSet=~", True),
    ],
)
def test_root_without_capabilities_is_bound_by_modes(text: str, kept: bool) -> None:
    assert read(text).root_reads_all is kept


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("User=vllm", False),
        ("User=vllm\nAmbientCapabilities=CAP_NET_BIND_SERVICE", False),
        ("User=vllm\nAmbientCapabilities=CAP_NET_BIND_SERVICE CAP_DAC_READ_SEARCH", True),
        ("User=vllm\nAmbientCapabilities=CAP_DAC_READ_SEARCH\nAmbientCapabilities=", False),
        ("User=vllm\nAmbientCapabilities=CAP_DAC_READ_SEARCH\nCapabilityBoundingSet=CAP_CHOWN", False),
    ],
)
def test_an_account_may_be_given_what_root_has(text: str, given: bool) -> None:
    assert read(text).reads_all is given


def test_roots_capabilities_end_at_a_user_namespace() -> None:
    assert not read("PrivateUsers=yes").root_reads_all
    assert read("PrivateUsers=identity").root_reads_all


@pytest.mark.parametrize(
    ("text", "path", "setting"),
    [
        ("BindReadOnlyPaths=/data/m:/srv/m", "/srv/m/file", "BindPaths="),
        ("BindReadOnlyPaths=/data/m:/srv/m", "/data/m/file", None),
        ("BindPaths=/srv/m:/srv/m:rbind", "/srv/m/file", None),
        ("DynamicUser=yes\nStateDirectory=llama:llm other", "/var/lib/private/llama/m", "StateDirectory="),
        ("DynamicUser=yes\nCacheDirectory=vllm", "/var/cache/vllm/m", "CacheDirectory="),
        ("User=vllm\nCacheDirectory=vllm", "/var/cache/vllm/m", None),
    ],
)
def test_what_the_service_sees_otherwise_than_the_machine_is_told(text: str, path: str, setting: str | None) -> None:
    assert changed_by(read(text), path) == setting


def test_a_root_of_its_own_is_told() -> None:
    assert read("RootImage=/srv/image.raw").has_own_root
    assert not read("RootDirectory=/").has_own_root
