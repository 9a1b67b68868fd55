"""The key of a running server, read from a file that its owner named."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmops.cli import hosts
from llmops.host.local import LocalHost
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    "content",
    [
        "secret=one\n",
        "# of the team\n\nsecret=one\nsecret-two\n",
        "VLLM_API_KEY=secret=one\n",
        'export LLAMA_API_KEY = "secret=one"\n',
    ],
)
def test_the_key_is_the_first_line_with_or_without_a_name(content: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    assert hosts.read_api_key(str(file)) == "secret=one"


_NO_KEYS = (b"", b"# nothing\n", b"two words\n", b"VLLM_API_KEY=\n", "schl\u00fcssel".encode())


@pytest.mark.parametrize("content", _NO_KEYS)
def test_what_is_no_key_is_named(content: bytes, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    ran = run("verify", "--api-key-file", str(file))
    assert ran.exit_code == 9
    assert f"API key file {file}: its first line is no key" in ran.stderr


def test_a_file_that_is_not_there_is_named(run: Run) -> None:
    ran = run("probe", "--api-key-file", "/no/such/key")
    assert ran.exit_code == 9
    assert "API key file /no/such/key: there is no such file" in ran.stderr


@pytest.mark.parametrize("words", [("probe",), ("verify",), ("plan",), ("tune",), ("apply",), ("tune", "--trial")])
def test_the_host_gets_the_key_and_nobody_sees_it(
    words: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("secret-one\n")
    given: list[str | None] = []

    def build(_snapshot: str | None = None, api_key: str | None = None) -> object:
        given.append(api_key)
        raise PermissionError(13, "stopped here", "/stopped")

    monkeypatch.setattr(hosts, "build_host", build)
    monkeypatch.setattr(hosts, "build_mutable_host", lambda api_key=None: build(None, api_key))
    ran = run(*words, "--api-key-file", str(file))
    assert given == ["secret-one"]
    assert "secret-one" not in ran.stdout + ran.stderr


def test_a_host_without_a_key_sends_none() -> None:
    assert vars(LocalHost()) == {"_headers": {}}
    assert vars(LocalHost(api_key="k")) == {"_headers": {"Authorization": "Bearer k"}}
