"""Why a vLLM ended before it served, told from its exit code and its log: our word first, then the engine's."""

from __future__ import annotations

import re

from llmops.engines.failures import KILLED, SHOWN_CHARACTERS, Cause, advice, how_it_ended

# `(EngineCore pid=7) ERROR 11-29 23:21:18 [core.py:1510] ValueError: ...`, or the same without what stands before it.
_EXCEPTION = re.compile(
    r"^(?:\([^)]*\) )?(?:ERROR \S+ \S+ \[[^\]]*\] )?((?:[\w.]*(?:Error|Exception)|vllm: error): ?.*)$", re.MULTILINE
)
# What pydantic says of a setting stands in the line after its exception.
_REFUSED_VALUE = re.compile(r"^(?:\([^)]*\) )?(?:ERROR \S+ \S+ \[[^\]]*\] )?\s*(Value error, .*)$", re.MULTILINE)
# What pydantic adds: the whole input, which tells nobody anything.
_PYDANTIC = re.compile(r" ?\[type=\w+, input_value=.*$")
# The last exception of every failed start; the cause stands above it.
_NO_CAUSE = "Engine core initialization failed"


_CAUSES = (
    Cause(re.compile(r"address already in use", re.IGNORECASE), "another program has the port"),
    Cause(
        re.compile(
            r"max seq len \((\d+)\).{0,400}?KV cache is needed.{0,400}?estimated maximum model length is (\d+)",
            re.DOTALL,
        ),
        "the cache cannot hold one request of {0} tokens: the longest that fits has {1}; give it more memory"
        " (--kv-memory, --gpu-memory-utilization) or plan with --context {1}",
    ),
    Cause(
        re.compile(r"No available memory for the cache blocks|KV cache is needed, which is larger"),
        "no memory is left for the cache: give it more (--kv-memory, --gpu-memory-utilization), or serve a smaller"
        " model",
    ),
    Cause(
        re.compile(
            r"Free memory on device.{0,20}? \(([\d.]+)/([\d.]+) GiB\) on startup is less than|"
            r"Available memory on node \d+ \(([\d.]+)/([\d.]+) GiB\) on startup is less than"
        ),
        "another process holds the memory (free and total, GiB: {0} of {1}): stop it (nvidia-smi shows it on a card),"
        " or plan again, which takes what is free",
    ),
    Cause(
        re.compile(r"Model architectures \[(.{1,100}?)\] (?:are not supported|failed to be inspected)"),
        "this vLLM cannot serve the architecture {0}: install a newer one, or serve another model",
    ),
    Cause(
        re.compile(r"model type `([^`]{1,100})` but Transformers does not recognize"),
        "this vLLM's transformers package does not know models of type {0}: install newer ones of both",
    ),
    Cause(
        re.compile(
            r"LocalEntryNotFoundError|OfflineModeIsEnabled|is not a valid model identifier"
            r"|outgoing traffic has been disabled"
        ),
        "the model is not on this disk, and nothing is downloaded (HF_HUB_OFFLINE=1): fetch it first, or give --model"
        " its directory",
    ),
    Cause(
        re.compile(r"Unknown quantization method: ([\w-]{1,60})"),
        "this vLLM does not know the quantisation {0}: install a newer one, or serve the model in another form",
    ),
    Cause(
        re.compile(r"Cannot find any of \[(.{1,100}?)\] in the model's quantization config"),
        "quantization_config of config.json lacks {0}: the file is damaged, or of a tool that this vLLM does not read;"
        " download it again, or serve the model in another form",
    ),
    Cause(
        re.compile(r"Should have a `model_type` key"),
        "config.json does not say which model it is (model_type): download it again",
    ),
    Cause(
        re.compile(r"Following weights were not initialized from checkpoint"),
        "weights are missing that config.json promises: config.json and weights belong to different models, or the"
        " download is not complete",
    ),
    Cause(
        re.compile(
            r"The size of tensor a \(\d+\) must match|Attempted to load weight|size mismatch for"
            r"|mat1 and mat2 shapes cannot be multiplied"
        ),
        "the weights have other shapes than config.json says: they belong to different models; download both again",
    ),
    Cause(
        re.compile(r"SafetensorError|Error while deserializing header"),
        "a file of the weights is damaged or not complete: download it again",
    ),
    Cause(
        re.compile(r"JSONDecodeError"),
        "a JSON file of the model is damaged (config, tokenizer or generation settings): download it again",
    ),
    Cause(
        re.compile(r"Can't load tokenizer for|Couldn't instantiate the backend tokenizer|OSError: .{0,80}tokenizer"),
        "the model's tokenizer is missing or damaged: download its tokenizer files too",
    ),
    Cause(
        re.compile(r"PermissionError: \[Errno 13\] Permission denied: '(.{1,300}?)'"),
        "its account may not read or write {0}: see to its mode and owner, and those of the directories above it",
    ),
    Cause(
        re.compile(r"`trust_remote_code=True` in LLM|contains custom code which must be executed"),
        "the model brings code of its own, which vLLM runs only with --trust-remote-code: read that code first, then"
        " put the flag into ExecStart= of a unit of your own",
    ),
    Cause(
        re.compile(r"No space left on device"),
        "a disk is full: df tells which, also of /dev/shm",
    ),
    Cause(
        re.compile(r"Bfloat16 is only supported on GPUs"),
        "this card cannot compute in bfloat16: plan with --cache-type f16",
    ),
    Cause(
        re.compile(r"unrecognized arguments: (\S+)"),
        "this vLLM does not know {0}: say which version it is with --engine-version",
    ),
    Cause(
        re.compile(r"out of memory|DefaultCPUAllocator: can't allocate", re.IGNORECASE),
        "memory was too short: plan with less of it, such as a lower --gpu-memory-utilization or --kv-memory",
    ),
    Cause(
        re.compile(r"No package metadata was found for vllm"),
        "the package of this vLLM has another name, so that its script cannot start; python -m"
        " vllm.entrypoints.openai.api_server can",
    ),
    Cause(
        re.compile(r"Failed to infer device type"),
        "this build finds no device that it can use: a driver is missing, or it is a build for cards on a machine"
        " without",
    ),
    Cause(
        re.compile(r"Worker proc \S+ died unexpectedly \(exit code: (-?\d+)\)"),
        "a worker was killed or crashed ({0}): -9 is mostly the kernel out of memory (dmesg tells), -4 an instruction"
        " that this processor does not have",
    ),
)


def last_words(exit_code: int, output: str) -> str:
    """One line: what to do where the cause is known, how it ended, and the exception that says why."""
    return "; ".join(part for part in (advice(_CAUSES, output), _how(exit_code), _exception(output)) if part)


def _how(exit_code: int) -> str:
    how = how_it_ended(exit_code)
    if exit_code == KILLED:
        return f"{how}, most likely because the kernel ran out of memory: dmesg tells"
    return f"{how}, which it also does when a worker was killed" if exit_code == 0 else how


def _exception(output: str) -> str:
    """The first exception that names a cause, in the engine's words; else its last line."""
    said = [" ".join(match.split()) for match in (*_REFUSED_VALUE.findall(output), *_EXCEPTION.findall(output))]
    telling = [line for line in said if _NO_CAUSE not in line]
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    telling = [_PYDANTIC.sub("", line) for line in telling]
    found = (telling or [line for line in lines if _NO_CAUSE not in line][-1:])[:1]
    return f"it said: {found[0][:SHOWN_CHARACTERS]}" if found else ""
