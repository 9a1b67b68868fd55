"""Asks an Ollama whether it behaves as llmops relies on: `python tests/doubles/conformance.py http://127.0.0.1:11434`.

It loads and unloads a model and sends it requests: give it a server that nobody else uses. Nothing is installed,
removed or configured. Each check prints PASS, FAIL or SKIP; the exit code is 1 when one failed.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.doubles.ollama.conformance import answering, describing, inside, loading, queueing
from tests.doubles.ollama.conformance.client import Server
from tests.doubles.ollama.conformance.registry import CHECKS, Check, Failed, NotApplicable

MODULES = (describing, loading, answering, queueing, inside)


def arguments() -> argparse.ArgumentParser:
    """What can be given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:11434")
    parser.add_argument("--model", help="a model that can chat; the smallest installed one where it is not given")
    parser.add_argument("--context", type=int, default=1024, help="num_ctx of the requests (default 1024)")
    parser.add_argument("--parallel", type=int, help="OLLAMA_NUM_PARALLEL of the server")
    parser.add_argument("--queue", type=int, help="OLLAMA_MAX_QUEUE of the server")
    parser.add_argument("--log", type=Path, help="a file with the server's log")
    parser.add_argument("--one-slot-model", help="an installed model of a family that has one slot only")
    parser.add_argument("--rendered-model", help="an installed model with a TEMPLATE, besides --model")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this check; repeatable")
    parser.add_argument("--list", action="store_true", help="list the checks and ask nothing")
    return parser


def smallest_model(url: str) -> str:
    """The smallest installed model."""
    rows = Server(url, "").get("/api/tags").document["models"]
    if not rows:
        raise SystemExit("no model is installed")
    return str(min(rows, key=lambda row: row["size"])["name"])


def outcome(check: Check, server: Server) -> tuple[str, str]:
    """PASS, FAIL or SKIP, and why; of one that is tried several times, the first that is no FAIL."""
    for _ in range(check.tries):
        word, why = outcome_of_one_try(check, server)
        if word != "FAIL":
            break
    return word, why


def outcome_of_one_try(check: Check, server: Server) -> tuple[str, str]:
    """PASS, FAIL or SKIP, and why."""
    try:
        check.run(server)
    except Failed as error:
        return "FAIL", str(error)
    except NotApplicable as error:
        return "SKIP", str(error)
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        return "FAIL", f"{type(error).__name__}: {error}"
    return "PASS", ""


def run(server: Server, only: Sequence[str] = ()) -> dict[str, str]:
    """Run the checks and print a line for each; the outcome of each by name."""
    found = {}
    for check in CHECKS:
        if only and check.name not in only:
            continue
        began = time.monotonic()
        word, why = outcome(check, server)
        found[check.name] = word
        reason = f": {why}" if why else ""
        print(f"{word} {check.name} ({time.monotonic() - began:.1f} s){reason}", flush=True)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 when a check failed."""
    given = arguments().parse_args(words)
    if given.list:
        for check in CHECKS:
            print(f"{check.name}\n    {check.statement}")
        return 0
    url = given.url.rstrip("/")
    server = Server(
        url, given.model or smallest_model(url), given.parallel, given.queue, given.context, given.log,
        given.one_slot_model, given.rendered_model,
    )  # fmt: skip
    found = list(run(server, given.only).values())
    counts = ", ".join(f"{found.count(word)} {name}" for word, name in WORDS.items())
    print(f"Ollama {'.'.join(map(str, server.version))}, model {server.model}: {counts}")
    return 1 if "FAIL" in found else 0


WORDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}

if __name__ == "__main__":
    raise SystemExit(main())
