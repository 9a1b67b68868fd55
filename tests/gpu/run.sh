#!/usr/bin/env bash
# Checks probe, plan and memory on a machine with an NVIDIA GPU, in under 8 minutes, without root and without systemd.
# Says what was checked, one line each; the last line begins with PASS or FAIL. Exit code 0 passed, 1 failed, 7 no GPU.
#   LLMOPS_GPU_LLAMA_SERVER  a llama-server built with CUDA (else the one on PATH, else .cache/llama.cpp-cuda/bin)
#   LLMOPS_GPU_MODEL         a GGUF model to serve (else the first in .cache/models)
#   OUT                      where the recording of the machine goes (else .cache/gpu-check)
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
readonly MOST_SECONDS=470
out=${OUT:-.cache/gpu-check}
mkdir -p "$out"

no_gpu() {
    echo "FAIL nothing was checked: $1"
    exit 7
}

command -v nvidia-smi >/dev/null || no_gpu "there is no nvidia-smi: no NVIDIA driver on this machine"
cards=$(nvidia-smi -L 2>&1) || no_gpu "nvidia-smi sees no card: ${cards%%$'\n'*}"
[[ $cards == *GPU* ]] || no_gpu "nvidia-smi lists no card"
echo "$cards"

usable() { # PYTHON: has everything that llmops needs
    [[ -x $1 ]] && "$1" -c 'import click, jinja2, psutil, pynvml, requests, ruamel.yaml, tabulate' 2>/dev/null
}
python=.venv/bin/python
if ! usable "$python"; then
    python=$out/venv/bin/python
    if ! usable "$python"; then
        echo "making an environment in $out/venv"
        python3 -m venv "$out/venv" >"$out/pip.log" 2>&1 &&
            "$python" -m pip install -q --disable-pip-version-check . >>"$out/pip.log" 2>&1 || {
            echo "FAIL the environment cannot be made, see $out/pip.log"
            exit 1
        }
    fi
fi

status=0
timeout --kill-after=5 "$((MOST_SECONDS - SECONDS))" "$python" -m tests.gpu.check "$out" || status=$?
if ((status == 124 || status == 137)); then
    echo "FAIL not done after $MOST_SECONDS s"
fi
exit "$status"
