"""Names of models as Ollama writes them: host/namespace/model:tag, with the usual parts left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

# types/model/name.go: what a missing part means.
DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
# types/model/name.go, isValidPart: letters, digits and a few marks; a part becomes the name of a directory.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}")


@dataclass(frozen=True)
class OllamaName:
    """The four parts of a whole name."""

    host: str
    namespace: str
    model: str
    tag: str

    def __str__(self) -> str:
        """The name as `ollama list` shows it."""
        where = "" if self.host == DEFAULT_HOST else f"{self.host}/"
        whose = "" if not where and self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/"
        return f"{where}{whose}{self.model}:{self.tag}"

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The path of its manifest below `manifests`."""
        return self.host, self.namespace, self.model, self.tag


def parse_name(reference: str) -> OllamaName | None:
    """The whole name that a reference means; None where it cannot be a name."""
    path, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:  # no tag: the colon belongs to the port of a host
        path, tag = reference, DEFAULT_TAG
    parts = path.split("/")
    if len(parts) > 3:
        return None
    host, namespace, model = ("", "", *parts)[-3:]
    return name_of(host or DEFAULT_HOST, namespace or DEFAULT_NAMESPACE, model, tag)


def may_be_part(text: str) -> bool:
    """Whether a file's name can be a part of a model's name at all; a host may hold most letters."""
    return _HOST.fullmatch(text) is not None


def name_of(host: str, namespace: str, model: str, tag: str) -> OllamaName | None:
    """A name of these parts; None where one of them is not valid."""
    parts = ((_HOST, host), (_NAMESPACE, namespace), (_PART, model), (_PART, tag))
    if not all(pattern.fullmatch(part) for pattern, part in parts):
        return None
    return OllamaName(host, namespace, model, tag)
