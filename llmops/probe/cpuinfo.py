"""What /proc/cpuinfo tells on x86, arm64 and RISC-V: model, architecture, the instruction sets that engines use."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.probe.sources import to_int

# Those that llama.cpp's CPU backends choose their kernels by (ggml/src/ggml-cpu).
SIGNIFICANT_FLAGS = (
    "hypervisor",
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "bmi2",
    "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "asimdfhm", "i8mm", "bf16", "sve", "sve2", "sme",
)  # fmt: skip

# Arm's own list of part numbers (Main ID Register); /proc/cpuinfo has no model name there.
_ARM_PARTS = {
    (0x41, 0xD03): "Arm Cortex-A53", (0x41, 0xD05): "Arm Cortex-A55", (0x41, 0xD08): "Arm Cortex-A72",
    (0x41, 0xD0B): "Arm Cortex-A76", (0x41, 0xD0C): "Arm Neoverse-N1", (0x41, 0xD40): "Arm Neoverse-V1",
    (0x41, 0xD49): "Arm Neoverse-N2", (0x41, 0xD4F): "Arm Neoverse-V2", (0x41, 0xD85): "Arm Cortex-X925",
    (0x41, 0xD87): "Arm Cortex-A725", (0xC0, 0xAC3): "Ampere-1", (0xC0, 0xAC4): "Ampere-1a",
}  # fmt: skip


@dataclass(frozen=True)
class CpuInfo:
    """One parsed /proc/cpuinfo; `core_keys` are the (package, core) pairs that it names."""

    model: str | None
    architecture: str | None
    flags: tuple[str, ...]
    has_flags: bool
    processors: frozenset[int]
    core_keys: frozenset[tuple[str, str]]


def parse_cpuinfo(content: str) -> CpuInfo:
    """Parse the blocks, one per processor."""
    blocks = [block for block in (_parse_block(text) for text in content.split("\n\n")) if block]
    first = blocks[0] if blocks else {}
    flag_text = first.get("flags") or first.get("Features") or ""
    present = set(flag_text.split())
    numbers = (to_int(block.get("processor")) for block in blocks)
    return CpuInfo(
        model=_model(blocks),
        architecture=_architecture(first, present),
        flags=tuple(flag for flag in SIGNIFICANT_FLAGS if flag in present),
        has_flags=bool(present),
        processors=frozenset(number for number in numbers if number is not None),
        core_keys=frozenset(
            (block["physical id"], block["core id"]) for block in blocks if {"physical id", "core id"} <= block.keys()
        ),
    )


def _parse_block(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _model(blocks: list[dict[str, str]]) -> str | None:
    """The name that the kernel gives, or the part names of an Arm system, each kind of core once."""
    if not blocks:
        return None
    for key in ("model name", "uarch", "cpu"):
        if blocks[0].get(key):
            return blocks[0][key]
    parts = dict.fromkeys(name for name in (_arm_part(block) for block in blocks) if name)
    return " + ".join(parts) or None


def _arm_part(block: dict[str, str]) -> str | None:
    try:
        key = (int(block["CPU implementer"], 16), int(block["CPU part"], 16))
    except (KeyError, ValueError):
        return None
    return _ARM_PARTS.get(key, f"Arm implementer {key[0]:#x} part {key[1]:#x}")


def _architecture(block: dict[str, str], flags: set[str]) -> str | None:
    if "lm" in flags:
        return "x86_64"
    if "asimd" in flags:
        return "aarch64"
    if block.get("isa", "").startswith("rv64"):
        return "riscv64"
    return None
