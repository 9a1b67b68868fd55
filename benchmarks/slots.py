"""Five users on one small model: our plan beside one slot and beside llama-server's own default.

    python benchmarks/slots.py --engine-command .cache/llama.cpp/bin/llama-server --model .cache/models/MODEL.gguf

Closed loop: every user sends, reads the whole reply, thinks for a moment and sends again; all begin at once. The
settings take turns in every repeat, so that a busy minute of the machine does not fall on one of them alone.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from llmops.core.statistics import percentile, spread
from llmops.host.local import LocalHost
from llmops.host.local.signals import interruptible
from llmops.load import LoadResult, users_closed_loop

HOST = LocalHost()
READY_SECONDS = 120.0
STOP_SECONDS = 45.0  # llama-server ends a live stream only at its next ping, every 30 s
WARM_UP_REQUESTS = 2
ONE_SLOT, ENGINE_DEFAULT, OUR_PLAN = "one slot", "engine default", "our plan"


@dataclass
class Setting:
    """One way to start the engine, and what was measured with it."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    runs: list[LoadResult] = field(default_factory=list)

    def first_token_seconds(self, fraction: float) -> float:
        """A percentile of the time to first token over all repeats."""
        return percentile([seconds for run in self.runs for seconds in run.first_token_seconds], fraction)

    def tokens_per_second(self) -> float:
        """Reply tokens of all users together over all repeats."""
        return sum(run.reply_tokens for run in self.runs) / sum(run.wall_seconds for run in self.runs)

    def row(self, longest_gap_seconds: float) -> dict[str, float | int | str]:
        """Everything that is reported of this setting; the spreads are between repeats."""
        gaps = [gap for run in self.runs for gap in run.inter_token_seconds]
        answered = [run for run in self.runs if run.answered]
        return {
            "setting": self.name,
            "requests": sum(len(run.requests) for run in self.runs),
            "failed": sum(len(run.failed) for run in self.runs),
            "ttft_p50_seconds": self.first_token_seconds(0.5),
            "ttft_p95_seconds": self.first_token_seconds(0.95),
            "ttft_p95_spread": spread(percentile(run.first_token_seconds, 0.95) for run in answered),
            "queue_p95_seconds": percentile([one for run in self.runs for one in run.headers_seconds], 0.95),
            "itl_p95_seconds": percentile(gaps, 0.95),
            "longest_gap_seconds": max(gaps),
            "stalls": sum(run.stalls(longest_gap_seconds) for run in self.runs),
            "tokens_per_second": self.tokens_per_second(),
            "tokens_per_second_spread": spread(run.tokens_per_second for run in answered),
        }


def main() -> int:
    options = parse()
    command = tuple(shlex.split(options.engine_command))
    common = tuple(shlex.split(options.common_arguments))
    settings = (
        Setting(ONE_SLOT, ("-np", "1", *common)),
        Setting(ENGINE_DEFAULT, common),
        our_plan(options, common),
    )
    for setting in settings:
        print(f"{setting.name}: {shlex.join((*command, *setting.arguments))}", file=sys.stderr)
    each = -(-options.requests // options.repeats)
    with interruptible():
        for repeat in range(options.repeats):
            order = settings[repeat % len(settings) :] + settings[: repeat % len(settings)]
            for setting in order:
                run = measure(command, setting, options, each, seed=repeat + 1)
                setting.runs.append(run)
                speed = f"{run.tokens_per_second:.1f} tokens/s, {len(run.failed)} of {each} failed"
                print(f"repeat {repeat + 1}, {setting.name}: {run.wall_seconds:.0f} s, {speed}", file=sys.stderr)
                for failed in run.failed[:1]:
                    print(f"  first failure: {failed.error}", file=sys.stderr)
    report(settings, options)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine-command", required=True, help="the words that start llama-server")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--plan-arguments", help="the flags of our plan; default: ask `llmops plan`")
    parser.add_argument("--plan-json", type=Path, help="take them from what `llmops plan --output json` printed")
    parser.add_argument("--common-arguments", default="", help="flags that every setting gets, last")
    parser.add_argument("--users", type=int, default=5)
    parser.add_argument("--requests", type=int, default=102, help="per setting, all repeats together")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=100)
    parser.add_argument("--reply-tokens", type=int, default=64)
    parser.add_argument("--think-seconds", type=float, default=0.5)
    parser.add_argument("--longest-gap-seconds", type=float, default=2.0, help="a longer one counts as a stall")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    return parser.parse_args()


def our_plan(options: argparse.Namespace, common: tuple[str, ...]) -> Setting:
    """What llmops would set here for these users, who hardly pause: workload `batch` with this shape of turn."""
    if options.plan_arguments is not None:
        return Setting(OUR_PLAN, (*shlex.split(options.plan_arguments), *common))
    if options.plan_json is not None:
        return setting_of(options.plan_json.read_text("utf-8"), common)
    words = (
        *("plan", "--replan", "--engine", "llama-server", "--model", options.model, "--users", str(options.users)),
        *("--workload", "batch", "--prompt-tokens", str(options.prompt_tokens)),
        *("--reply-tokens", str(options.reply_tokens)),
    )
    llmops = (sys.executable, "-c", "import sys; from llmops.cli import main; sys.exit(main())")
    found = HOST.query((*llmops, *words, "--output", "json"), timeout_seconds=120.0)
    if found.exit_code != 0:
        sys.exit(f"llmops plan ended with {found.exit_code}: {found.stdout}{found.stderr}")
    return setting_of(found.stdout, common)


def setting_of(envelope: str, common: tuple[str, ...]) -> Setting:
    """data.plan.arguments and data.plan.environment of a JSON envelope."""
    plan = json.loads(envelope)["data"]["plan"]
    return Setting(OUR_PLAN, (*(str(word) for word in plan["arguments"]), *common), dict(plan["environment"]))


def measure(
    command: tuple[str, ...], setting: Setting, options: argparse.Namespace, requests: int, seed: int
) -> LoadResult:
    """Start the engine, warm it up, send the requests, stop it."""
    with engine((*command, "-m", options.model, *setting.arguments), setting.environment) as url:

        def load(count: int, number: int) -> LoadResult:
            return users_closed_loop(
                HOST,
                url,
                users=options.users,
                requests=count,
                prompt_tokens=options.prompt_tokens,
                reply_tokens=options.reply_tokens,
                think_seconds=options.think_seconds,
                seed=number,
            )

        load(WARM_UP_REQUESTS, 1000 + seed)
        return load(requests, seed)


@contextmanager
def engine(words: tuple[str, ...], environment: dict[str, str]) -> Iterator[str]:
    """The URL of an engine that is ready; it is stopped at the end, whatever happens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    child = HOST.spawn((*words, "--host", "127.0.0.1", "--port", str(port)), environment)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready(url):
            if child.exit_code() is not None or time.monotonic() > deadline:
                sys.exit(f"{shlex.join(words)} did not become ready:\n{child.output()[-3000:]}")
            time.sleep(0.1)
        yield url
    finally:
        child.stop(grace_seconds=STOP_SECONDS)


def is_ready(url: str) -> bool:
    try:
        return HOST.get(f"{url}/health").status == 200
    except (ConnectionError, TimeoutError):
        return False


def report(settings: tuple[Setting, ...], options: argparse.Namespace) -> None:
    rows = [setting.row(options.longest_gap_seconds) for setting in settings]
    one, default, ours = settings
    ratios = {
        "ttft_p95_to_one_slot": ours.first_token_seconds(0.95) / one.first_token_seconds(0.95),
        "ttft_p95_to_engine_default": ours.first_token_seconds(0.95) / default.first_token_seconds(0.95),
        "tokens_per_second_to_one_slot": ours.tokens_per_second() / one.tokens_per_second(),
    }
    if options.output == "json":
        document = {"settings": rows, "ratios": ratios, "arguments": {one.name: one.arguments for one in settings}}
        print(json.dumps(document, indent=1))
        return
    columns = [name for name in rows[0] if name != "setting"]
    print("".join(["".ljust(26), *(str(row["setting"]).rjust(16) for row in rows)]))
    for name in columns:
        cells = (row[name] for row in rows)
        print(
            "".join(
                [name.ljust(26), *(f"{cell:16.3f}" if isinstance(cell, float) else f"{cell:>16}" for cell in cells)]
            )
        )
    for name, ratio in ratios.items():
        print(f"our plan, {name}: {ratio:.2f}")


if __name__ == "__main__":
    sys.exit(main())
