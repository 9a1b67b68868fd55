"""What `ps` shows of a ggml server on the processor: more than it needs, for the mapped file stays in view."""

from __future__ import annotations

from llmops.core.layer_weights import output_role
from llmops.core.memory.ggml_cache import total_cache_bytes
from llmops.core.memory.ggml_compute import compute_bytes, output_bytes
from llmops.core.memory.ggml_runtime import process_bytes
from llmops.core.memory.ggml_settings import GgmlSettings
from llmops.core.memory.ggml_weights import HOST, Placement, doubled_output_bytes, repacked_bytes
from llmops.core.model import ModelSpec
from llmops.core.version import Version


def resident_bytes(model: ModelSpec, settings: GgmlSettings, build: Version | None = None) -> int:
    """Likely resident memory of the process after its first requests, with the prompt cache still empty.

    A mapped file counts in full beside the repacked copies of its matrices, as long as nothing else needs the memory.
    """
    return (
        model.weights_bytes
        + copies_bytes(model, settings)
        + total_cache_bytes(model, settings)
        + output_bytes(model, settings)
        + compute_bytes(model, settings, build)
        + process_bytes(model)[1]
    )


def copies_bytes(model: ModelSpec, settings: GgmlSettings) -> int:
    """Bytes of weights that are in memory a second time."""
    if settings.memory_mapped:
        return repacked_bytes(model, settings, ("repeating", output_role(model)))
    return doubled_output_bytes(model, settings, Placement((HOST,) * model.layers, HOST))
