"""For which instruction sets llama-server is built."""

from __future__ import annotations

import platform

import pytest

from tools import get_llama_server, openmp

AVX512 = "avx512f avx512cd avx512vl avx512dq avx512bw avx512_vnni"
SAPPHIRE_RAPIDS = f"sse4_2 avx avx2 bmi2 fma f16c {AVX512} amx_tile amx_int8 amx_bf16"


def options(monkeypatch: pytest.MonkeyPatch, flags: str, machine: str = "x86_64") -> list[str]:
    monkeypatch.setattr(get_llama_server, "processor_flags", lambda: frozenset(flags.split()))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    return get_llama_server.build_options()


def test_amx_is_never_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(monkeypatch, SAPPHIRE_RAPIDS)
    assert "-DGGML_NATIVE=OFF" in chosen
    assert "-DGGML_AVX512=ON" in chosen
    assert "-DGGML_AVX512_VNNI=ON" in chosen
    assert not [option for option in chosen if "AMX" in option and not option.endswith("=OFF")]


def test_an_old_processor_gets_only_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(monkeypatch, "sse4_2 avx avx512_vnni")
    assert {"-DGGML_SSE42=ON", "-DGGML_AVX=ON", "-DGGML_AVX2=OFF", "-DGGML_FMA=OFF"} <= set(chosen)
    assert {"-DGGML_AVX512=OFF", "-DGGML_AVX512_VNNI=OFF"} <= set(chosen)


def test_other_processors_are_left_to_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [option for option in options(monkeypatch, "", "aarch64") if "AVX" in option or "SSE" in option]


def test_a_kept_build_of_another_processor_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    options(monkeypatch, SAPPHIRE_RAPIDS)
    kept = get_llama_server.stamp_text()
    options(monkeypatch, "sse4_2 avx")
    assert get_llama_server.stamp_text() != kept


def test_a_bundled_openmp_gets_its_usual_name_and_keeps_its_length() -> None:
    content = b"\x7fELF..libgomp-870cb1d0.so.1.0.0\0GOMP_1.0\0"
    renamed = openmp.renamed(content)
    assert len(renamed) == len(content)
    assert b"..libgomp.so.1\0" in renamed
    assert b"870cb1d0" not in renamed
