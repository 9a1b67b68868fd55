"""Small Hugging Face directories and caches on a disk, for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tests.doubles import safetensors_files as made
from tests.unit.models.disk import Disk

Shape = tuple[str, tuple[int, ...]]
COMMIT, OTHER = "a" * 40, "b" * 40
LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


class HubDisk(Disk):
    """A disk with directories and links, and an environment."""

    def __init__(self, **environment: str) -> None:
        super().__init__()
        self._environment = environment

    def list_directory(self, path: PurePosixPath | str) -> tuple[str, ...]:
        return tuple(sorted(entry.name for entry in Path(path).iterdir()))

    def resolve(self, path: PurePosixPath | str) -> str:
        return str(Path(path).resolve())

    def environment(self) -> Mapping[str, str]:
        return self._environment


def llama_tensors(layers: int = 2, *, tied: bool = False, data_type: str = "BF16") -> dict[str, Shape]:
    """The tensors of `LLAMA`."""
    found: dict[str, Shape] = {"model.embed_tokens.weight": (data_type, (100, 64))}
    for layer in range(layers):
        for name, shape in (
            ("self_attn.q_proj", (64, 64)),
            ("self_attn.k_proj", (32, 64)),
            ("self_attn.v_proj", (32, 64)),
            ("self_attn.o_proj", (64, 64)),
            ("mlp.gate_proj", (128, 64)),
            ("mlp.up_proj", (128, 64)),
            ("mlp.down_proj", (64, 128)),
        ):
            found[f"model.layers.{layer}.{name}.weight"] = (data_type, shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{layer}.{name}.weight"] = (data_type, (64,))
    found["model.norm.weight"] = (data_type, (64,))
    return found if tied else {**found, "lm_head.weight": (data_type, (100, 64))}


def write_model(directory: Path, tensors: made.Shapes | None = None, files: int = 1, **changed: object) -> Path:
    """A directory with config.json (LLAMA with these changes) and its tensors."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in (LLAMA | changed).items() if value is not ...}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shapes = llama_tensors() if tensors is None else tensors
    if files > 1:
        made.write_split(directory, shapes, files)
    elif shapes:
        made.write(directory / "model.safetensors", shapes)
    return directory


def put_in_cache(
    cache: Path, model: Path, repository: str = "org/name", commit: str = COMMIT, ref: str = "main"
) -> Path:
    """The files of a directory as the hub's own downloader lays them out; the path of the snapshot."""
    place = cache / f"models--{repository.replace('/', '--')}"
    snapshot = place / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (place / "blobs").mkdir(exist_ok=True)
    for number, file in enumerate(sorted(model.iterdir())):
        blob = f"{commit[:8]}{number:032x}"
        (place / "blobs" / blob).write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob)
    if ref:
        (place / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (place / "refs" / ref).write_text(commit, encoding="ascii")
    return snapshot
