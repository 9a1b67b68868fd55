"""Hostile model stores of Ollama: manifests that lie, digests that climb, links that leave, files that are none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

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
VALUES: st.SearchStrategy[object] = st.one_of(
    st.sampled_from(SCALARS),
    st.sampled_from(SCALARS),
    st.lists(st.sampled_from(SCALARS), max_size=3),
    st.dictionaries(st.sampled_from(("digest", "mediaType", "num_ctx", "\x1b")), st.sampled_from(SCALARS), max_size=2),
)


@st.composite
def manifests(draw: st.DrawFn) -> bytes:
    """The text of a manifest: layers changed, left out, doubled by thousands, of other types, or bytes changed."""
    layers: list[object] = []
    layers += WHOLE[draw(st.integers(0, 1)) : draw(st.integers(1, 4))]
    for _ in range(draw(st.integers(0, 3))):
        one = dict(draw(st.sampled_from(WHOLE)))
        one[draw(st.sampled_from(("mediaType", "digest", "size", "from")))] = draw(VALUES)
        layers.insert(draw(st.integers(0, len(layers))), draw(st.one_of(st.just(one), VALUES)))
    if draw(st.integers(0, 15)) == 0:
        many = draw(st.sampled_from((2, 1000, 5000)))
        layers += [layer(draw(st.sampled_from(KINDS)), draw(st.sampled_from(("model", "params", "none"))))] * many
    whole: dict[str, object] = {"layers": layers}
    if draw(st.integers(0, 7)) == 0:
        whole[draw(st.sampled_from(("layers", "config", "schemaVersion")))] = draw(VALUES)
    return _damaged(draw, json.dumps(whole, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass"))


def _damaged(draw: st.DrawFn, text: bytes) -> bytes:
    kind = draw(st.sampled_from(("whole",) * 8 + ("cut", "byte", "deep", "wide", "number", "mark", "text")))
    if kind == "cut":
        return text[: draw(st.integers(0, len(text)))]
    if kind == "byte":
        at = draw(st.integers(0, len(text) - 1))
        return text[:at] + draw(st.binary(max_size=3)) + text[at + 1 :]
    if kind == "deep":
        opening = draw(st.sampled_from((b"[", b'{"a":', b'{"layers":[', b'{"layers":[{"mediaType":"m","digest":')))
        return opening * draw(st.sampled_from((10, 300, 900, 5000, 60_000)))
    if kind == "wide":
        return json.dumps({"layers": [draw(VALUES)] * draw(st.sampled_from((10, 1000, 20_000)))}).encode()
    if kind == "number":
        return b'{"layers": ' + b"9" * draw(st.sampled_from((4000, 5000, 400_000))) + b"}"
    if kind == "mark":
        return draw(st.sampled_from((b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\xff\xfe\0\0"))) + text
    return draw(st.binary(max_size=64))


PARAMETERS = st.one_of(
    st.dictionaries(st.sampled_from(("num_ctx", "stop", "num_gpu")), VALUES, max_size=3).map(
        lambda values: json.dumps(values).encode()
    ),
    st.binary(max_size=16),
    st.just(b"[" * 60_000),
)
NAMES = (MANIFEST, blob("model"), blob("params"), blob("projector"), "store/blobs", "store/manifests", "store",
         "store/manifests/registry.ollama.ai", "store/manifests/registry.ollama.ai/library/m")  # fmt: skip
TARGETS = ("/", "/dev/zero", "/proc/self/mem", ".", "..", "latest", "nowhere", "../../outside/secret", "../../\x1b[2J",
           "/dev/stdin", "a" * 300, "../" * 40 + "proc/self/environ")  # fmt: skip
ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    st.sampled_from(TARGETS).map(Link),
    st.sampled_from((Pipe(), Folder(), File(b""), File(b"", 1 << 40), File(b"[", 1 << 19), File(b" ", 1 << 20))),
)
STRAYS = st.dictionaries(
    st.sampled_from(("store/manifests/\x1b[2J/a/b/c", "store/manifests/registry.ollama.ai/library/m/\udcff",
                     "store/manifests/a/b/c/d", "store/manifests/a/b/..c/d", "store/manifests/l/l")),
    ENTRIES, max_size=2,
)  # fmt: skip


@st.composite
def _stores(draw: st.DrawFn) -> Case:
    tree = tree_of(draw(manifests()), draw(PARAMETERS))
    if draw(st.integers(0, 2)) == 0:
        changed = draw(st.dictionaries(st.sampled_from(NAMES), ENTRIES, max_size=2))
        tree = {**changed, **{name: entry for name, entry in tree.items() if name not in changed}}
    if draw(st.integers(0, 3)) == 0:
        tree.update(draw(STRAYS))
    return "store", tree


cases: st.SearchStrategy[Case] = _stores()


def from_bytes(data: bytes) -> Case:
    """A manifest as it is, or (first byte odd) the parameters of a whole manifest."""
    if data and data[0] & 1:
        return "store", tree_of(SEEDS[0], data[1:])
    return "store", tree_of(data[1:])
