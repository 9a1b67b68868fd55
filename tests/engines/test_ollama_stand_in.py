"""The stand-in for Ollama passes the conformance script with a real llama-server, as both kinds of scheduler."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.ollama.stand_in.store import register
from tests.engines.conftest import REPOSITORY, SHARED_CORES, stop
from tests.engines.http_calls import a_free_port, call

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

PROGRAM = REPOSITORY / "tests" / "doubles" / "ollama" / "ollama"
CONFORMANCE = REPOSITORY / "tests" / "doubles" / "conformance.py"
NEW, OLD = "0.32.15", "0.24.0"


@pytest.fixture(scope="module")
def store(model_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model under three names: as it is, with a template, and as a family that has one slot."""
    directory = tmp_path_factory.mktemp("store")
    register(directory, "plain", Path(model_path))
    register(directory, "rendered", Path(model_path), template="{{ .Prompt }}")
    register(directory, "single", Path(model_path), family="qwen35")
    return directory


@contextlib.contextmanager
def ollama(version: str, store: Path, llama_server: str, log: Path, **variables: str) -> Iterator[str]:
    """A running stand-in of this version; its URL."""
    address = f"127.0.0.1:{a_free_port()}"
    environment = {
        **os.environ, **SHARED_CORES, "OLLAMA_HOST": address, "OLLAMA_MODELS": str(store), **variables,
        "OLLAMA_STAND_IN_VERSION": version, "OLLAMA_STAND_IN_LLAMA_SERVER": llama_server,
    }  # fmt: skip
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "serve"], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            env=environment,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not answers(f"http://{address}"):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)
        yield f"http://{address}"
    finally:
        stop(process)


def answers(url: str) -> bool:
    try:
        return call(url).status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def conformance(url: str, *words: str) -> dict[str, str]:
    """PASS, FAIL or SKIP by the name of the check."""
    result = subprocess.run(
        [sys.executable, str(CONFORMANCE), url, *words], capture_output=True, text=True, timeout=1700, check=False
    )
    lines = [line.split(" ", 2) for line in result.stdout.splitlines() if line.startswith(("PASS", "FAIL", "SKIP"))]
    assert result.returncode == 0, result.stdout + result.stderr
    return {name: word for word, name, _ in lines}


def words_for(log: Path) -> tuple[str, ...]:
    return (
        "--model", "plain", "--parallel", "2", "--queue", "2", "--log", str(log),
        "--one-slot-model", "single", "--rendered-model", "rendered",
    )  # fmt: skip


LIMITS = {"OLLAMA_NUM_PARALLEL": "2", "OLLAMA_MAX_QUEUE": "2", "LLAMA_ARG_CACHE_RAM": "64"}


def test_every_behaviour_holds_for_the_wrapper_of_llama_server(
    store: Path, llama_server: tuple[str, ...], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ollama(NEW, store, llama_server[0], log, **LIMITS) as url:
        found = conformance(url, *words_for(log))
    skipped = {name for name, word in found.items() if word == "SKIP"}
    assert len(found) >= 38
    # Both depend on how fast the machine is at that moment.
    assert skipped <= {"waiting_for_a_load_is_in_load_duration", "waiting_for_a_slot_is_in_no_part_of_the_durations"}


OLD_CHECKS = (
    "version_is_three_numbers", "ps_shows_the_context_of_one_slot", "as_many_requests_as_slots_run_at_once",
    "about_half_of_a_cut_prompt_stays", "log_begins_with_the_settings", "log_says_how_long_a_load_took",
    "loading_refuses_above_the_queue", "loaded_model_refuses_nobody",
)  # fmt: skip


def test_the_old_scheduler_shows_its_slots_in_the_log_only(
    store: Path, llama_server: tuple[str, ...], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    only = [word for name in OLD_CHECKS for word in ("--only", name)]
    with ollama(OLD, store, llama_server[0], log, OLLAMA_KV_CACHE_TYPE="q8_0", **LIMITS) as url:
        found = conformance(url, *words_for(log), *only)
    text = log.read_text(encoding="utf-8", errors="replace")
    assert found == dict.fromkeys(found, "PASS")
    assert set(found) == set(OLD_CHECKS)
    assert "Parallel:2 BatchSize:512 FlashAttention:Disabled KvSize:2048 KvCacheType: " in text
    assert "OLLAMA_FLASH_ATTENTION must be enabled to use a quantized OLLAMA_KV_CACHE_TYPE" in text
    assert "starting llama-server" not in text


def test_listing_shows_processor_context_and_time(store: Path, llama_server: tuple[str, ...], tmp_path: Path) -> None:
    with ollama(NEW, store, llama_server[0], tmp_path / "log", OLLAMA_CONTEXT_LENGTH="512") as url:
        assert call(f"{url}/api/generate", {"model": "plain", "stream": False}).document["done_reason"] == "load"
        environment = {**os.environ, "OLLAMA_HOST": url}
        said = {
            word: subprocess.run(
                [sys.executable, str(PROGRAM), word], capture_output=True, text=True, env=environment, check=True
            ).stdout
            for word in ("ps", "list", "--version")
        }
    heading, row = said["ps"].splitlines()
    assert heading.split() == ["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"]
    assert row.split("    ")[0].strip() == "plain:latest"
    assert "100% CPU" in row and " 512 " in row and "minutes from now" in row
    assert said["list"].count(":latest") == 3
    assert said["--version"] == f"ollama version is {NEW}\n"


@pytest.mark.parametrize(
    ("given", "default"), [({}, "4096"), ({"OLLAMA_CONTEXT_LENGTH": "640"}, "640")], ids=["tier", "variable"]
)
def test_context_comes_from_the_tier_unless_it_is_set(
    store: Path, llama_server: tuple[str, ...], tmp_path: Path, given: dict[str, str], default: str
) -> None:
    with ollama(NEW, store, llama_server[0], tmp_path / "log", **given) as url:
        call(f"{url}/api/generate", {"model": "plain", "stream": False})
        assert str(call(f"{url}/api/ps").document["models"][0]["context_length"]) == default
