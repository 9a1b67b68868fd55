"""Hostile model stores of Ollama: manifests that lie, digests that climb, links that leave, files that are none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from random import Random

from hypothesis import strategies as st

from tests.doubles import gguf_files as made
from tests.fuzz.trees import Entry, File, Folder, Link, Pipe

Case = tuple[str, Mapping[str, Entry]]

MEDIA = "application/vnd.ollama.image."
MANIFEST = "store/manifests/registry.ollama.ai/library/m/latest"
_TENSORS = made.model_tensors(layers=1)
MODEL = File(made.header(made.model_metadata(layers=1), _TENSORS), made.data_bytes(_TENSORS))


def digest_of(name: str) -> str:
    """A digest that stands for a blob; the reader compares no sums."""
    return hashlib.sha256(name.encode()).hexdigest()


def blob(name: str) -> str:
    """The path of a blob in the tree."""
    return f"store/blobs/sha256-{digest_of(name)}"


def layer(kind: str, name: str, **changed: object) -> dict[str, object]:
    """One entry of a manifest."""
    return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest_of(name)}", "size": 1000, **changed}


def manifest(*layers: object, **more: object) -> bytes:
    """A whole manifest."""
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    return json.dumps({"schemaVersion": 2, "mediaType": kind, "layers": list(layers), **more}).encode()


WHOLE = (layer("model", "model"), layer("params", "params"), layer("projector", "projector"), layer("template", "none"))
SEEDS = (
    manifest(*WHOLE),
    manifest(*WHOLE, config=layer("config", "config")),
    manifest(layer("tensor", "t0"), layer("json", "j0")),
    b'{"layers": []}',
)


def tree_of(text: bytes, parameters: bytes = b'{"num_ctx": 8192, "stop": ["x"]}') -> dict[str, Entry]:
    """A store with one model whose manifest is this text."""
    return {
        MANIFEST: File(text),
        blob("model"): MODEL,
        blob("params"): File(parameters),
        blob("projector"): File(b"GGUF", 4096),
        "outside/secret": File(b'{"layers": [], "num_ctx": 1}'),
    }


DIGESTS = (
    "sha256:../../outside/secret", "sha256:" + "0" * 64, "sha256:" + "A" * 64, "sha256-" + digest_of("model"),
    "sha256:" + digest_of("model") + "\n", "../" * 30 + "etc/passwd", "\0", "\ud800", "sha512:" + "a" * 128, "x" * 5000,
)  # fmt: skip
KINDS = ("model", "params", "projector", "adapter", "draft", "template", "system", "messages", "license", "tensor")
SCALARS: tuple[object, ...] = (
    None, True, -1, 0, 0.5, float("nan"), 8192, 2**63, 10**30, 10**4000, "", "model", MEDIA + "model", "\ud800",
    "\x1b[2J", *DIGESTS,
)  # fmt: skip


def _value(chance: Random) -> object:
    kind = chance.choice(("scalar", "scalar", "list", "object"))
    if kind == "list":
        return chance.choices(SCALARS, k=chance.randint(0, 3))
    if kind == "object":
        keys = ("digest", "mediaType", "num_ctx", "\x1b")
        return {chance.choice(keys): chance.choice(SCALARS) for _ in range(chance.randint(0, 2))}
    return chance.choice(SCALARS)


def _manifest(chance: Random) -> bytes:
    """The text of a manifest: layers changed, left out, doubled by thousands, of other types, or bytes changed."""
    layers: list[object] = []
    layers += WHOLE[chance.choice((0, 0, 0, 1)) : chance.randint(1, 4)]
    for _ in range(chance.choice((0, 0, 1, 1, 3))):
        one = dict(chance.choice(WHOLE))
        one[chance.choice(("mediaType", "digest", "size", "from"))] = _value(chance)
        layers.insert(chance.randint(0, len(layers)), one if chance.random() < 0.7 else _value(chance))
    if chance.random() < 0.05:
        many = chance.choice((2, 1000, 5000))
        layers += [layer(chance.choice(KINDS), chance.choice(("model", "params", "none")))] * many
    whole: dict[str, object] = {"layers": layers}
    if chance.random() < 0.1:
        whole[chance.choice(("layers", "config", "schemaVersion"))] = _value(chance)
    return _damaged(chance, json.dumps(whole, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))


def _damaged(chance: Random, text: bytes) -> bytes:
    kind = chance.choice(("whole",) * 20 + ("cut", "byte", "byte", "byte", "deep", "wide", "number", "mark", "bytes"))
    if kind == "cut":
        return text[: chance.randint(0, len(text))]
    if kind == "byte":
        at = chance.randrange(len(text))
        return text[:at] + chance.randbytes(chance.randint(0, 3)) + text[at + 1 :]
    if kind == "deep":
        opening = chance.choice((b"[", b'{"a":', b'{"layers":[', b'{"layers":[{"mediaType":"m","digest":'))
        return opening * chance.choice((10, 300, 900, 5000, 60_000))
    if kind == "wide":
        return json.dumps({"layers": [_value(chance)] * chance.choice((10, 1000, 20_000))}).encode()
    if kind == "number":
        return b'{"layers": ' + b"9" * chance.choice((4000, 5000, 400_000)) + b"}"
    if kind == "mark":
        return chance.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\xff\xfe\0\0")) + text
    return text if kind == "whole" else chance.randbytes(chance.randint(0, 64))


def _parameters(chance: Random) -> bytes:
    kind = chance.choice(("good", "good", "good", "value", "value", "bytes", "deep"))
    if kind == "value":
        return json.dumps({chance.choice(("num_ctx", "stop", "num_gpu")): _value(chance)}).encode()
    if kind == "deep":
        return b"[" * 60_000
    return b'{"num_ctx": 4096, "stop": ["x"]}' if kind == "good" else chance.randbytes(16)


NAMES = (MANIFEST, blob("model"), blob("params"), blob("projector"), "store/blobs", "store/manifests", "store",
         "store/manifests/registry.ollama.ai", "store/manifests/registry.ollama.ai/library/m")  # fmt: skip
STRAYS = ("store/manifests/\x1b[2J/a/b/c", "store/manifests/registry.ollama.ai/library/m/\udcff",
          "store/manifests/a/b/c/d", "store/manifests/a/b/..c/d", "store/manifests/l/l")  # fmt: skip
LINKS = ("/", "/dev/zero", "/proc/self/mem", ".", "..", "latest", "nowhere", "../../outside/secret",
         "../../../../\x1b[2J", "/dev/stdin", "a" * 300, "../" * 40 + "proc/self/environ")  # fmt: skip
ENTRIES: tuple[Entry, ...] = (
    *map(Link, LINKS), Pipe(), Folder(), File(b""), File(b"", 1 << 40), File(b"[", 1 << 19), File(b" ", 1 << 20),
)  # fmt: skip


def _store(number: int) -> Case:
    chance = Random(number)
    tree = tree_of(_manifest(chance), _parameters(chance))
    if chance.random() < 0.3:
        changed = {chance.choice(NAMES): chance.choice(ENTRIES) for _ in range(chance.randint(1, 2))}
        tree = {**changed, **{name: entry for name, entry in tree.items() if name not in changed}}
    if chance.random() < 0.2:
        tree[chance.choice(STRAYS)] = chance.choice(ENTRIES)
    return "store", tree


# One number for each store: drawn piece by piece, most of them were cut short and never reached the model.
cases: st.SearchStrategy[Case] = st.integers(0, 2**64 - 1).map(_store)


def from_bytes(data: bytes) -> Case:
    """A manifest as it is, or (first byte odd) the parameters of a whole manifest."""
    if data and data[0] & 1:
        return "store", tree_of(SEEDS[0], data[1:])
    return "store", tree_of(data[1:])
