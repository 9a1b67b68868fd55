"""The architectures that a vLLM serves, read from its own source without importing it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from llmops.host import Host

# Where the package maps architectures to modules; the name and the form are the same in 0.8.5 to 0.33.0.
REGISTRY_FILE = "vllm/model_executor/models/registry.py"
_SERVED, _BY_PLUGINS = "_VLLM_MODELS", "_OOT_SUPPORTED_MODELS"


@dataclass(frozen=True)
class Registry:
    """The architectures that are served, and of those that a plugin must bring, where the plugin is found."""

    served: frozenset[str]
    plugins: Mapping[str, str]


def registry_in(host: Host, directory: str) -> Registry | None:
    """The registry of the package in this site-packages directory; None where it cannot be read."""
    try:
        return read_registry(host.read_text(f"{directory}/{REGISTRY_FILE}"))
    except (OSError, UnicodeDecodeError):
        return None


def read_registry(source: str) -> Registry | None:
    """What the source says; None for one of another form, such as that of a much newer version."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    tables = dict(_tables(module))
    served = _keys(_SERVED, tables)
    if not served:
        return None
    return Registry(frozenset(served), dict(_texts(tables.get(_BY_PLUGINS))))


def _tables(module: ast.Module) -> list[tuple[str, ast.Dict]]:
    """Every dictionary that the module names at its top."""
    found = []
    for statement in module.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Dict):
            found += [(target.id, value) for target in targets if isinstance(target, ast.Name)]
    return found


def _keys(name: str, tables: Mapping[str, ast.Dict], depth: int = 0) -> set[str]:
    """The keys of a table, with those of the tables that it is made of."""
    table = tables.get(name)
    if table is None or depth > 2:
        return set()
    keys: set[str] = set()
    for key, value in zip(table.keys, table.values, strict=True):
        if key is None and isinstance(value, ast.Name):
            keys |= _keys(value.id, tables, depth + 1)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            keys.add(key.value)
    return keys


def _texts(table: ast.Dict | None) -> list[tuple[str, str]]:
    if table is None:
        return []
    return [
        (key.value, value.value)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        if isinstance(key.value, str) and isinstance(value.value, str)
    ]
