"""Holds memory of a card through the driver alone: prints how much, and gives it back when its input ends."""

from __future__ import annotations

import ctypes
import sys


class DriverError(Exception):
    """The driver refused a call."""


def call(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    """One function of the CUDA driver; 0 is success."""
    code = getattr(library, name)(*arguments)
    if code:
        raise DriverError(f"{name}: error {code}")


def hold(size_bytes: int, device: int) -> None:
    """A context on the device with one allocation in it."""
    library = ctypes.CDLL("libcuda.so.1")
    call(library, "cuInit", 0)
    handle, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call(library, "cuDeviceGet", ctypes.byref(handle), device)
    call(library, "cuCtxCreate_v2", ctypes.byref(context), 0, handle)
    call(library, "cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
    print(size_bytes, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    try:
        hold(int(sys.argv[1]), int(sys.argv[2]))
    except (OSError, DriverError) as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
