"""Whether a vLLM names the quantisation of a model: by its own list, which is quicker than starting it by minutes."""

from __future__ import annotations

import re

from llmops.core.model import ModelSpec
from llmops.engines.found import Installation
from llmops.engines.vllm.package import package_of
from llmops.host import Host

_LIST_FILE = "vllm/model_executor/layers/quantization/__init__.py"
# The names that its configuration may hold, one by one between brackets.
_LIST = re.compile(r"QuantizationMethods = Literal\[([^\]]*)\]")
_NAME = re.compile(r'"([a-z0-9_-]+)"')


def check_quantization(host: Host, model: ModelSpec, installation: Installation) -> tuple[str, ...]:
    """A warning only: some names stand for another in the list, and plugins add their own."""
    method, known = model.quantization_method, _names(host, installation)
    if method is None or not known or method.replace("-", "_") in known:
        return ()
    said = f"vllm {installation.version_text}" if installation.version_text else "this vllm"
    return (
        f"{said} does not name the quantisation {method} of {model.reference}: it may end at its start; a trial tells"
        " (llmops tune --trial)",
    )


def _names(host: Host, installation: Installation) -> frozenset[str]:
    """Those that the installed package names; none where it cannot be read."""
    directory = package_of(host, installation.command).directory
    if directory is None:
        return frozenset()
    try:
        found = _LIST.search(host.read_text(f"{directory}/{_LIST_FILE}"))
    except OSError:
        return frozenset()
    return frozenset(name.replace("-", "_") for name in _NAME.findall(found[1])) if found else frozenset()
