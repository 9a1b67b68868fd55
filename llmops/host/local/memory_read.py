"""Times reading main memory from every thread at once, with nothing but libc called through ctypes."""

from __future__ import annotations

import ctypes
import mmap
import threading
import time
from collections.abc import Callable

# A measurement may be tried twice within three seconds: once in vain for a buffer that takes too long to write.
WRITING_SECONDS = 1.2
NO_PASS_STARTS_AFTER_SECONDS = 1.8
_CHUNK_BYTES = 16 * 1024 * 1024
_WRITTEN_BYTE = 1
_ABSENT_BYTE = 0


def memory_read_seconds(buffer_bytes: int, threads: int, passes: int) -> tuple[float, ...]:
    """Read `buffer_bytes`, split over the threads, up to `passes` times; wall seconds of each pass, at least one.

    Each thread owns a private buffer and writes it first: pages never written all map to one cached page of zeros.
    Fewer passes come back when time runs out. Raise TimeoutError when writing alone takes more than 1.2 seconds,
    OSError when memory or threads are refused.
    """
    share_bytes = max(mmap.PAGESIZE, buffer_bytes // threads)
    buffers: list[mmap.mmap] = []
    try:
        for _ in range(threads):
            buffers.append(mmap.mmap(-1, share_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        return _Measurement(buffers, share_bytes, passes).run()
    finally:
        for buffer in buffers:
            buffer.close()


def _scanner() -> Callable[[int, int, int], int | None]:
    """The memchr of libc: vectorised, and ctypes releases the interpreter lock while it runs."""
    memchr = ctypes.CDLL(None).memchr
    memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    memchr.restype = ctypes.c_void_p
    return memchr


class _Measurement:
    """One thread per buffer; a barrier before each pass makes all of them read at the same time."""

    def __init__(self, buffers: list[mmap.mmap], share_bytes: int, passes: int) -> None:
        self._buffers = buffers
        self._share_bytes = share_bytes
        self._passes = passes
        self._memchr = _scanner()
        self._begun = time.monotonic()
        self._written_bytes = [0] * len(buffers)
        self._barrier = threading.Barrier(len(buffers), action=self._begin_pass)
        self._go_on = True
        self._times: list[list[tuple[float, float]]] = []

    def run(self) -> tuple[float, ...]:
        workers = [
            threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(len(self._buffers))
        ]
        started: list[threading.Thread] = []
        try:
            for worker in workers:
                worker.start()
                started.append(worker)
        except RuntimeError as error:
            # A limit on processes also limits threads; those already waiting for the others must be let go.
            self._barrier.abort()
            raise OSError(f"cannot start {len(workers)} threads: {error}") from error
        finally:
            for worker in started:
                worker.join()
        if not self._times:
            written, wanted = sum(self._written_bytes), self._share_bytes * len(self._buffers)
            raise TimeoutError(f"only {written} of {wanted} bytes could be written in {WRITING_SECONDS} s")
        return tuple(max(end for _, end in spans) - min(start for start, _ in spans) for spans in self._times)

    def _begin_pass(self) -> None:
        """Runs in one thread while all the others wait: decide once for all whether there is another pass."""
        done = len(self._times)
        in_time = time.monotonic() < self._begun + NO_PASS_STARTS_AFTER_SECONDS
        first = done == 0 and min(self._written_bytes) == self._share_bytes
        self._go_on = first or (0 < done < self._passes and in_time)
        if self._go_on:
            self._times.append([])

    def _work(self, number: int) -> None:
        view = ctypes.c_char.from_buffer(self._buffers[number])
        try:
            self._write(number, ctypes.addressof(view))
            self._read_passes(ctypes.addressof(view))
        except threading.BrokenBarrierError:
            return
        finally:
            # An exported view forbids closing the buffer.
            del view

    def _write(self, number: int, address: int) -> None:
        while (done := self._written_bytes[number]) < self._share_bytes:
            if time.monotonic() > self._begun + WRITING_SECONDS:
                return
            chunk = min(_CHUNK_BYTES, self._share_bytes - done)
            ctypes.memset(address + done, _WRITTEN_BYTE, chunk)
            self._written_bytes[number] = done + chunk

    def _read_passes(self, address: int) -> None:
        self._barrier.wait()
        while self._go_on:
            spans = self._times[-1]
            start = time.perf_counter()
            self._memchr(address, _ABSENT_BYTE, self._share_bytes)
            spans.append((start, time.perf_counter()))
            self._barrier.wait()
