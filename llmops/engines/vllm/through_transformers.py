"""What else makes a vLLM serve an architecture that its registry lacks: Transformers' own class, or a plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmops.core.model import ModelSpec
from llmops.host import Host

# Where Transformers names the classes of every family (4.x and 5.x).
_CLASSES_FILE = "transformers/models/auto/modeling_auto.py"
_PLUGIN_GROUP = "[vllm.general_plugins]"
_OWN_METADATA = re.compile(r"vllm(?:_cpu\w*)?-\d[^-]*\.dist-info")


def fallback_class(model: ModelSpec, served: frozenset[str]) -> str | None:
    """The class of this vLLM that wraps a model of Transformers; None where it has none for such a model.

    Wrapped are full and sliding attention only (docs/models/supported_models.md of 0.11.2 to 0.32.0), models that read
    pictures since 0.10.0, experts since 0.11.1 (ModelConfig._get_transformers_backend_cls and the registries).
    """
    if model.state_layers:
        return None
    experts = "MoE" if model.experts else ""
    names = [f"Transformers{experts}ForCausalLM"]
    if model.encoder_weights_bytes:
        names = [f"TransformersMultiModal{experts}ForCausalLM"]
        names += [] if experts else ["TransformersForMultimodalLM"]
    return next((name for name in names if name in served), None)


def transformers_has(host: Host, directory: str, model: ModelSpec) -> bool | None:
    """Whether the Transformers in this site-packages directory, or the model's own code, has its class.

    None where that cannot be read.
    """
    if model.has_own_code:
        return True
    family = model.architecture.replace("-", "_")
    listed = _text(host, f"{directory}/{_CLASSES_FILE}")
    own = _text(host, f"{directory}/transformers/models/{family}/modeling_{family}.py") if _is_word(family) else None
    if listed is None:
        return None
    name = model.classes[0]
    return f'"{name}"' in listed or (own is not None and f"class {name}(" in own)


def plugins_beside(host: Host, directory: str) -> tuple[str, ...]:
    """Packages beside vLLM that may register further architectures (entry points of vllm.general_plugins)."""
    return tuple(_plugins(host, directory))


def _plugins(host: Host, directory: str) -> Iterator[str]:
    try:
        names = host.list_directory(directory)
    except OSError:
        return
    for name in names:
        # vLLM names two plugins of its own there, which find adapters.
        if name.endswith(".dist-info") and not _OWN_METADATA.fullmatch(name):
            text = _text(host, f"{directory}/{name}/entry_points.txt")
            if text is not None and _PLUGIN_GROUP in text:
                yield name.split("-")[0]


def _is_word(text: str) -> bool:
    return re.fullmatch(r"\w+", text) is not None


def _text(host: Host, path: str) -> str | None:
    try:
        return host.read_text(path)
    except (OSError, UnicodeDecodeError):
        return None
