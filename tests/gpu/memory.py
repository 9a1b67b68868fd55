"""A real llama-server on the card: the memory that it takes against the plan's budget."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from llmops.actions.plan import PlanRequest, make_plan
from llmops.core.hardware import Gpu
from llmops.core.memory.budget import MemoryBudget
from llmops.core.plan import Fixed, Policy
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines.base import Health, Launch
from llmops.host import ChildProcess
from llmops.host.local import LocalHost
from llmops.probe import read_hardware
from tests.gpu.report import MIB, Report
from tests.unit.cli.machine import model_file

REPOSITORY = Path(__file__).resolve().parents[2]
LOAD_SECONDS, PORT = 150.0, 18_431
# A budget that is exceeded by more is wrong; one that is this far above what is used wastes memory.
MOST_OVER, LEAST_USED = 1.02, 0.6


def find_model(directory: Path) -> Path:
    """The model that was named, a downloaded one, or a small one without weights that can be planned for only."""
    named = os.environ.get("LLMOPS_GPU_MODEL")
    found = [Path(named)] if named else sorted((REPOSITORY / ".cache/models").glob("*.gguf"))
    return found[0].resolve() if found else model_file(directory, "made.gguf")


def find_server(host: LocalHost) -> tuple[str | None, str]:
    """A llama-server that lists a CUDA device, or why there is none."""
    places = (
        os.environ.get("LLMOPS_GPU_LLAMA_SERVER"),
        shutil.which("llama-server"),
        str(REPOSITORY / ".cache/llama.cpp-cuda/bin/llama-server"),
    )
    for place in places:
        if place and Path(place).exists():
            said = host.query((place, "--list-devices"), timeout_seconds=60.0)
            if "CUDA" in said.stdout + said.stderr:
                return place, ""
    return None, "no llama-server with CUDA: name one in LLMOPS_GPU_LLAMA_SERVER"


def check_server_memory(report: Report, model: Path) -> None:
    """Start the plan as a child, let it answer once, and compare what the card lost with the budget."""
    name = "memory of a real server against its budget"
    host = LocalHost()
    server, why = find_server(host)
    if server is None or model.name == "made.gguf":
        report.leave_out(name, why or "no real model: name one in LLMOPS_GPU_MODEL")
        return
    os.environ["PATH"] = f"{Path(server).parent}{os.pathsep}{os.environ['PATH']}"
    request = PlanRequest(
        DEFAULTS[WorkloadKind.CHAT], Policy(), Fixed(), engine="llama-server", models=(str(model),), replan=True
    )
    planned = make_plan(host, request, progress=lambda line: None)
    cards = {f"gpu{gpu.index}": gpu for gpu in planned.hardware.gpus if not gpu.unified}
    if not cards:
        report.leave_out(name, "no card with memory of its own is used")
        return
    launch = planned.engine.launch(planned.plan, planned.installation, PORT)
    child = host.spawn(launch.argv, launch.environment)
    try:
        ready = wait_until_ready(host, child, launch, lambda: planned.engine.health(host, launch.url) is Health.READY)
        report.check("the planned server starts", holds=ready, detail="" if ready else child.output()[-500:])
        if not ready:
            return
        answer = host.post(f"{launch.url}/completion", {"prompt": "one two three " * 200, "n_predict": 32})
        report.check("it answers", holds=answer.status == 200, detail=str(answer.status))
        after = {f"gpu{gpu.index}": gpu for gpu in read_hardware(host).gpus}
        for budget in planned.plan.budgets:
            if budget.device in cards:
                judge(report, budget, cards[budget.device], after[budget.device])
    finally:
        child.stop(grace_seconds=20.0)


def wait_until_ready(host: LocalHost, child: ChildProcess, launch: Launch, is_ready: object) -> bool:
    """False when it ended or took too long."""
    assert callable(is_ready)
    end = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < end and child.exit_code() is None:
        if is_ready():
            return True
        host.sleep(0.5)
    return False


def judge(report: Report, budget: MemoryBudget, before: Gpu, after: Gpu) -> None:
    """What the card lost lies between the low and the high end of the budget."""
    used = (before.free_bytes or 0) - (after.free_bytes or 0)
    high = budget.used_bytes - budget.reserve_bytes
    low = high - sum(most - least for _, least, most, _ in budget.ranges)
    detail = f"{used // MIB} MiB used, predicted {low // MIB} to {high // MIB}"
    report.check(f"{budget.device} takes no more than its budget", holds=used <= high * MOST_OVER, detail=detail)
    report.check(f"{budget.device} takes most of its budget", holds=used >= low * LEAST_USED, detail=detail)
