"""A full cache under vLLM's own --max-num-seqs and under what `llmops plan` says: who waits where, and who stalls.

    python -m tools.get_vllm && python benchmarks/preemption.py [--repeats 1] [--output text|json]

A real vLLM on the processor serves a tiny model with random weights. Both settings have the same cache, the same
longest request and the same users, who all ask at once; they differ in how many requests run together. Printed are the
preemptions that the server counts, the time to first token, the longest silence in any reply and the end of the last
one. Exit code 1 unless our numbers preempt nothing and the engine's own do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from llmops.core.statistics import percentile
from llmops.engines.vllm.metrics import VllmMetrics, ask_metrics
from llmops.host.local import LocalHost
from llmops.load import LONGEST_GAP_SECONDS, LoadResult, users_closed_loop, warm_up
from tests.engines.vllm_server import NAME, planned_flags, serving, value_of, without
from tests.truth.tiny_models import full_attention, write_model
from tools.get_vllm import installed_version, python_path

HOST = LocalHost()
DEFAULT, OURS = "engine default", "llmops plan"


@dataclass(frozen=True)
class Row:
    """One run of one setting."""

    setting: str
    at_once: str
    requests: int
    failed: int
    preemptions: int
    queue_seconds_sum: float
    ttft_p50_seconds: float
    ttft_p95_seconds: float
    itl_p95_milliseconds: float
    longest_gap_seconds: float
    stalled_streams: int
    last_reply_seconds: float


def main() -> int:
    options = parse()
    if installed_version(python_path()) is None:
        sys.exit("vLLM is not installed: python -m tools.get_vllm")
    with tempfile.TemporaryDirectory() as directory:
        model = write_model(full_attention(), Path(directory))
        ours = planned(model, options)
        own = without(without(ours, "--max-num-seqs"), "--max-num-queued-reqs")
        rows = [
            row
            for setting, flags, at_once in ((DEFAULT, own, "128"), (OURS, ours, str(value_of(ours, "--max-num-seqs"))))
            for row in runs(setting, at_once, model, flags, options)
        ]
    report(rows, ours, options)
    kept = sum(row.preemptions for row in rows if row.setting == OURS)
    lost = sum(row.preemptions for row in rows if row.setting == DEFAULT)
    return 0 if kept == 0 and lost > 0 else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default="6MiB", help="the memory of the cache, as for --kv-memory")
    parser.add_argument("--users", type=int, default=8, help="all ask at once")
    parser.add_argument("--prompt-tokens", type=int, default=112)
    parser.add_argument("--reply-tokens", type=int, default=800)
    parser.add_argument("--repeats", type=int, default=1, help="loads on each server, with other prompts each")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    return parser.parse_args()


def planned(model: Path, options: argparse.Namespace) -> tuple[str, ...]:
    """Our plan for these users, who never pause."""
    return planned_flags(
        model, "--kv-memory", options.cache, "--workload", "batch", "--users", str(options.users),
        "--context", str(options.prompt_tokens + options.reply_tokens), "--prompt-tokens", str(options.prompt_tokens),
        "--reply-tokens", str(options.reply_tokens),
    )  # fmt: skip


def runs(setting: str, at_once: str, model: Path, flags: tuple[str, ...], options: argparse.Namespace) -> list[Row]:
    """Start the server, warm it up, load it."""
    print(f"{setting}: {' '.join(flags)}", file=sys.stderr)
    found = []
    with serving(python_path(), model, flags, model.parent / f"{at_once}.log") as server:
        print(f"{setting}: ready after {server.started_seconds:.0f} s", file=sys.stderr)
        warm_up(HOST, server.url, model=NAME)
        for repeat in range(options.repeats):
            before = ask_metrics(HOST, server.url)
            load = users_closed_loop(
                HOST,
                server.url,
                users=options.users,
                requests=options.users,
                prompt_tokens=options.prompt_tokens,
                reply_tokens=options.reply_tokens,
                seed=repeat + 2,
                model=NAME,
            )
            found.append(row_of(setting, at_once, load, before, ask_metrics(HOST, server.url)))
    return found


def row_of(setting: str, at_once: str, load: LoadResult, before: VllmMetrics, after: VllmMetrics) -> Row:
    """The figures of one load."""
    if not load.answered or before.preemptions is None or after.preemptions is None:
        sys.exit(f"{setting}: nothing can be told: {[one.error for one in load.failed][:2]}")
    waited = 0.0
    if before.queue_time is not None and after.queue_time is not None:
        waited = after.queue_time.since(before.queue_time).sum_seconds
    return Row(
        setting=setting,
        at_once=at_once,
        requests=len(load.requests),
        failed=len(load.failed) + len(load.rejected),
        preemptions=after.preemptions - before.preemptions,
        queue_seconds_sum=waited,
        ttft_p50_seconds=percentile(load.first_token_seconds, 0.5),
        ttft_p95_seconds=percentile(load.first_token_seconds, 0.95),
        itl_p95_milliseconds=percentile(load.inter_token_seconds, 0.95) * 1000.0,
        longest_gap_seconds=max(load.longest_gaps_seconds),
        stalled_streams=load.stalled_streams(LONGEST_GAP_SECONDS),
        last_reply_seconds=load.last_reply_seconds,
    )


def report(rows: list[Row], flags: tuple[str, ...], options: argparse.Namespace) -> None:
    documents = [asdict(row) for row in rows]
    if options.output == "json":
        print(json.dumps({"rows": documents, "planned_flags": flags}, indent=1))
        return
    names = [name for name in documents[0] if name != "setting"]
    table = [[name.replace("_", " "), *(document[name] for document in documents)] for name in names]
    print(tabulate(table, ("", *(row.setting for row in rows)), floatfmt=".2f"))


if __name__ == "__main__":
    sys.exit(main())
