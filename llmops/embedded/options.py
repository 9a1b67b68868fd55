"""The flags of llama-server that the embedded server takes: their spellings, and what each one sets."""

from __future__ import annotations

from dataclasses import dataclass

from llmops.embedded import values
from llmops.embedded.values import Convert


@dataclass(frozen=True)
class Option:
    """One setting: `attribute` is its dotted name in xllamacpp's CommonParams or, with a `@`, in this package.

    A switch has no `value_name`; its `off` spellings set False.
    """

    attribute: str
    names: tuple[str, ...]
    description: str
    value_name: str | None = None
    convert: Convert = values.text
    off: tuple[str, ...] = ()


CACHE_TYPES_TEXT = f"allowed values: {', '.join(values.CACHE_TYPES)}"
DEFAULT_PORT = 8080

OPTIONS: tuple[Option, ...] = (
    Option("@help", ("-h", "--help", "--usage"), "print this text and end"),
    Option("@version", ("--version",), "print the version and end"),
    Option("@list_devices", ("--list-devices",), "print the devices that can be used and end"),
    Option("model.path", ("-m", "--model"), "GGUF file to serve", "FNAME"),
    Option(
        "@alias",
        ("-a", "--alias"),
        "names of the model in the API, separated by commas",
        "STRING",
        values.comma_separated,
    ),
    Option("@host", ("--host",), "addresses to listen on (default: 127.0.0.1)", "HOST", values.comma_separated),
    Option("port", ("--port",), f"port to listen on (default: {DEFAULT_PORT})", "PORT", values.whole_number(0, 65535)),
    Option(
        "n_parallel",
        ("-np", "--parallel"),
        "number of slots (default: -1, -1 = 4 slots that share one cache)",
        "N",
        values.slot_count,
    ),
    Option(
        "n_ctx",
        ("-c", "--ctx-size"),
        "context in tokens, divided among the slots (default: 0, 0 = what the model was trained for)",
        "N",
        values.whole_number(0),
    ),
    Option(
        "kv_unified",
        ("-kvu", "--kv-unified"),
        "one cache that all slots share (default: only where the number of slots is automatic)",
        off=("-no-kvu", "--no-kv-unified"),
    ),
    Option(
        "cache_type_k",
        ("-ctk", "--cache-type-k"),
        f"type of cached keys (default: f16), {CACHE_TYPES_TEXT}",
        "TYPE",
        values.cache_type,
    ),
    Option(
        "cache_type_v",
        ("-ctv", "--cache-type-v"),
        f"type of cached values (default: f16), {CACHE_TYPES_TEXT}",
        "TYPE",
        values.cache_type,
    ),
    Option(
        "n_batch",
        ("-b", "--batch-size"),
        "most tokens of prompts in one step (default: 2048)",
        "N",
        values.whole_number(1),
    ),
    Option(
        "n_ubatch",
        ("-ub", "--ubatch-size"),
        "most tokens computed at once (default: 512)",
        "N",
        values.whole_number(1),
    ),
    Option(
        "cpuparams.n_threads",
        ("-t", "--threads"),
        "threads for generation (default: -1, -1 = physical cores)",
        "N",
        values.whole_number(-1),
    ),
    Option(
        "cpuparams_batch.n_threads",
        ("-tb", "--threads-batch"),
        "threads for prompts (default: as --threads)",
        "N",
        values.whole_number(-1),
    ),
    Option(
        "n_gpu_layers",
        ("-ngl", "--gpu-layers", "--n-gpu-layers"),
        "most layers to keep on the graphics card: a number, 'auto' or 'all' (default: auto)",
        "N",
        values.gpu_layers,
    ),
    Option(
        "flash_attn_type",
        ("-fa", "--flash-attn"),
        "Flash Attention (default: auto)",
        "[on|off|auto]",
        values.flash_attention,
    ),
    Option(
        "cache_ram_mib",
        ("-cram", "--cache-ram"),
        "most memory for cached prompts in MiB (default: 8192, -1 = no limit, 0 = none)",
        "N",
        values.whole_number(-1),
    ),
    Option(
        "n_ctx_checkpoints",
        ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"),
        "most context checkpoints of one slot (default: 32)",
        "N",
        values.whole_number(0),
    ),
    Option("swa_full", ("--swa-full",), "keep sliding-window layers at full size (default: off)"),
    Option(
        "cont_batching",
        ("-cb", "--cont-batching"),
        "serve new requests while others generate (default: on)",
        off=("-nocb", "--no-cont-batching"),
    ),
    Option(
        "load_mode",
        ("-lm", "--load-mode"),
        "how the model is read: auto, none, mmap, mlock, mmap+mlock or dio (default: auto)",
        "MODE",
        values.load_mode,
    ),
    Option("@repack", ("--repack",), "repack weights for this processor (default: on)", off=("-nr", "--no-repack")),
    Option(
        "fit_params",
        ("-fit", "--fit"),
        "adjust what is not given to the device memory (default: on)",
        "[on|off]",
        values.on_or_off,
    ),
    Option("warmup", ("--warmup",), "run once empty before serving (default: on)", off=("--no-warmup",)),
    Option("endpoint_metrics", ("--metrics",), "serve /metrics (default: off)"),
    Option("endpoint_slots", ("--slots",), "serve /slots (default: on)", off=("--no-slots",)),
    Option("use_jinja", ("--jinja",), "apply chat templates with Jinja (default: on)", off=("--no-jinja",)),
    Option(
        "api_keys",
        ("--api-key-file",),
        "file of API keys, one per line, # for comments (default: none)",
        "FNAME",
        values.keys_in_file,
    ),
    Option(
        "sleep_idle_seconds",
        ("--sleep-idle-seconds",),
        "unload the model after this many idle seconds (default: -1, -1 = never)",
        "SECONDS",
        values.whole_number(-1),
    ),
    Option(
        "verbosity",
        ("-lv", "--verbosity", "--log-verbosity"),
        "log up to this level: 1 errors, 2 warnings, 3 information, 4 trace, 5 debug (default: 3)",
        "N",
        values.whole_number(0),
    ),
    Option(
        "@log_jsonl",
        ("--log-jsonl",),
        "log one JSON object per line to stdout (default: off, text to stderr)",
        off=("--no-log-jsonl",),
    ),
)
