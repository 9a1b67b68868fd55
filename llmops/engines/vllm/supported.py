"""Whether a vLLM serves the architecture of a model: by its own registry, else by what its release is known to serve.

A server that does not know one ends with "Model architectures [...] are not supported"; this is said before it starts.
Where Transformers or a plugin may serve the model all the same, it is a warning.
"""

from __future__ import annotations

from llmops.core.errors import Unsupported
from llmops.core.model import ModelSpec
from llmops.core.version import Version
from llmops.engines.found import InForce, Installation
from llmops.engines.vllm.architectures import BY_PLUGINS
from llmops.engines.vllm.package import package_of
from llmops.engines.vllm.registry import Registry, registry_in
from llmops.engines.vllm.releases import NEWEST, OLDEST, is_known, next_known, release, served_at, spans
from llmops.engines.vllm.through_transformers import fallback_class, plugins_beside, transformers_has
from llmops.engines.vllm.words import NAME
from llmops.host import Host


def check_served(host: Host, model: ModelSpec, installation: Installation, in_force: InForce) -> tuple[str, ...]:
    """What must be said of the model; raise Unsupported where this vLLM cannot serve it whatever the machine."""
    if not model.classes:
        return (f"config.json of {model.reference} names no architecture: whether vLLM serves it was not checked",)
    directory = package_of(host, installation.command).directory
    own = registry_in(host, directory) if directory is not None else None
    if directory is not None and own is not None:
        return _by_its_own(host, model, directory, own, f"{NAME} {installation.version_text or 'here'}")
    version = installation.version or Version.parse(in_force.build or "")
    return _of_any_release(model) if version is None else _by_release(model, version)


def why_no_release(model: ModelSpec) -> str | None:
    """Why the newest known release cannot serve a checkpoint; None where it can or may, and for other files."""
    if not model.classes:
        return None
    try:
        _by_release(model, NEWEST)
    except Unsupported as refusal:
        return refusal.message
    return None


def _by_its_own(host: Host, model: ModelSpec, directory: str, own: Registry, said: str) -> tuple[str, ...]:
    if own.served.intersection(model.classes):
        return ()
    name = model.classes[0]
    plugins = plugins_beside(host, directory)
    if plugins:
        return (f"{said} has no {name} of its own; whether its plugins have ({', '.join(plugins)}) was not checked",)
    if fallback_class(model, own.served) is not None and transformers_has(host, directory, model) is not False:
        return (_through_transformers(said, model),)
    raise _refusal(said, model, own.plugins.get(name))


def _by_release(model: ModelSpec, version: Version) -> tuple[str, ...]:
    name, said = model.classes[0], f"{NAME} {version}"
    if version > NEWEST:
        return (
            f"{said} is newer than {NEWEST}, the last whose list is known: whether it serves {name} was not checked",
        )
    if served_at(version).intersection(model.classes):
        return ()
    later = served_at(next_known(version))
    if not is_known(version) and later.intersection(model.classes):
        return (f"{next_known(version)} serves {name}; whether {said} does already was not checked",)
    if name in BY_PLUGINS:
        return (f"{said} serves {name} with a plugin only: {BY_PLUGINS[name]}",)
    if fallback_class(model, later) is not None:
        return (_through_transformers(said, model),)
    raise _refusal(said, model)


def _of_any_release(model: ModelSpec) -> tuple[str, ...]:
    """Of a version that is not known nothing is refused."""
    name = model.classes[0]
    if any(span.last is None and release(span.first) == OLDEST for span in spans(name)):
        return ()
    return (f"which version of vllm it will be is not known: {_when(name)}",)


def _through_transformers(said: str, model: ModelSpec) -> str:
    code = " (--trust-remote-code: the model brings code of its own)" if model.has_own_code else ""
    return (
        f"{said} has no {model.classes[0]} of its own ({_when(model.classes[0])}): it serves the model through the"
        f" class in Transformers{code} where that allows it, and ends at its start where it does not"
    )


def _refusal(said: str, model: ModelSpec, plugin: str | None = None) -> Unsupported:
    name = model.classes[0]
    known = spans(name)
    if plugin is not None:
        step = f"install its plugin ({plugin})"
    elif not known:
        step = "serve another model"
    else:
        last = known[-1]
        wanted = f"{last.first} or newer" if last.last is None else last.last
        step = f"install vllm {wanted} (to plan for it: --engine-version {last.last or last.first})"
    return Unsupported(
        f"{said} cannot serve {model.reference}: {_when(name)}",
        hint=f"{step}; or convert the model to GGUF, and plan with --engine llama-server",
    )


def _when(name: str) -> str:
    """Which releases have an architecture."""
    known = spans(name)
    if not known:
        return f"no release up to {NEWEST} has the architecture {name}"
    return f"vllm has the architecture {name} {' and '.join(str(span) for span in known)}"
