"""A machine with a vLLM: its package, its unit, its processes, and what the server answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from llmops.core.overrides import GIVEN
from llmops.core.plan import Fixed, Plan, Policy
from llmops.core.problem import Problem
from llmops.core.sizing import size
from llmops.core.throughput import predict_rates
from llmops.core.version import Version
from llmops.core.workload import DEFAULTS, WorkloadKind
from llmops.engines import engine_named
from llmops.engines.found import Installation
from llmops.host import ListeningSocket, Response
from tests.unit.core.example_models import GIB, cpu_host, eight_billion_16_bit
from tests.unit.engines.llama_host import LookedAt, process

SCRIPT = "/opt/vllm/bin/vllm"
MODEL = "/srv/models/qwen3-8b"
URL = "http://127.0.0.1:8000"
UNIT = "vllm.service"
VLLM = engine_named("vllm")


@dataclass
class VllmHost(LookedAt):
    """A machine whose directories can be listed and whose scripts have a first line."""

    directories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shebangs: dict[str, str] = field(default_factory=dict)

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        if str(path) not in self.directories:
            raise FileNotFoundError(str(path))
        return self.directories[str(path)]

    def read_bytes(self, path: PurePosixPath | str, offset: int, length: int) -> bytes:
        return f"#!{self.shebangs.get(str(path), '')}\nimport sys\n".encode()[offset : offset + length]

    def environment_of(self, prefix: str, *metadata: str, script: str | None = None) -> None:
        """A virtual environment with these metadata directories."""
        self.directories[f"{prefix}/lib"] = ("python3.12", "something.so")
        self.directories[f"{prefix}/lib/python3.12/site-packages"] = ("torch", *metadata)
        self.files[script or f"{prefix}/bin/vllm"] = ""

    def serves(self, *words: str, tokens: int | None = None, longest: int = 8_192, preemptions: int = 0) -> None:
        """A running server: the API server, the engine's core and a worker, and what they answer."""
        self.running = (
            process(7, "/opt/vllm/bin/python3", SCRIPT, "serve", *words),
            process(8, "VLLM::EngineCore", parent=7),
            process(9, "VLLM::Worker", parent=8),
        )
        self.listeners = (ListeningSocket("127.0.0.1", 8000, 7),)
        cache = "" if tokens is None else f',kv_cache_size_tokens="{tokens}"'
        self.answers |= {
            f"{URL}/version": _answer('{"version":"0.33.0"}'),
            f"{URL}/v1/models": _answer(json.dumps({"data": [{"id": words[0], "max_model_len": longest}]})),
            f"{URL}/health": _answer(""),
            f"{URL}/metrics": _answer(
                f'vllm:num_requests_running{{engine="0"}} 1.0\nvllm:num_requests_waiting{{engine="0"}} 2.0\n'
                f'vllm:num_preemptions_total{{engine="0"}} {preemptions}.0\n'
                f'vllm:cache_config_info{{engine="0",block_size="16",num_gpu_blocks="2385"{cache}}} 1.0\n'
            ),
        }


def _answer(body: str, status: int = 200) -> Response:
    return Response(status, body)


def installed(version: str | None = "0.33.0", **changes: object) -> Installation:
    """A vLLM in /opt/vllm."""
    found = Installation("vllm", "binary", (SCRIPT,), Version.parse(version) if version else None, version, None)
    return replace(found, **changes)  # type: ignore[arg-type]


def plan_of(fixed: Fixed | None = None, /, **changes: object) -> Plan:
    """A plan for a processor with a cache of 4 GiB, or with what is fixed."""
    hardware = replace(cpu_host(64 * GIB, cores=16, bandwidth=100_000_000_000), gpu_detail=GIVEN)
    model = replace(
        eight_billion_16_bit(),
        reference=MODEL,
        format="safetensors",
        data_type="bfloat16",
        quantization="bf16",
        source_paths=(f"{MODEL}/model.safetensors",),
    )
    version, wanted, load = (
        Version.parse("0.33.0"),
        fixed or Fixed(kv_memory_bytes=4 * GIB),
        DEFAULTS[WorkloadKind.CHAT],
    )
    found = size(
        Problem(
            engine="vllm",
            engine_version="0.33.0",
            hardware=hardware,
            model=model,
            workload=load,
            policy=Policy(),
            fixed=wanted,
            rates=predict_rates(hardware, model, load, on_gpu=False, engine="vllm"),
            memory=VLLM.memory_model(hardware, model, version),
            on_gpu=False,
            most_slots=VLLM.most_slots,
            choices=VLLM.choices(hardware, model, version, wanted),
        )
    )
    return replace(found, **changes)  # type: ignore[arg-type]
