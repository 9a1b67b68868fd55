"""Which architectures a vLLM serves: by its own registry, by the table of its release, and what is only in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmops.core.errors import Unsupported
from llmops.core.model import ModelSpec, StateLayer
from llmops.core.version import Version
from llmops.engines.found import InForce
from llmops.engines.vllm.architectures import ADDED, DROPPED, RELEASES
from llmops.engines.vllm.registry import read_registry
from llmops.engines.vllm.releases import NEWEST, Span, is_known, next_known, release, served_at, spans
from llmops.engines.vllm.supported import check_served, why_no_release
from tests.unit.core.example_models import eight_billion_16_bit
from tests.unit.engines.vllm_host import VllmHost, installed

PACKAGES = "/opt/vllm/lib/python3.12/site-packages"
REGISTRY = f"{PACKAGES}/vllm/model_executor/models/registry.py"
CLASSES = f"{PACKAGES}/transformers/models/auto/modeling_auto.py"
OWN = """
import torch
_TEXT: dict[str, tuple[str, str]] = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "OtherForCausalLM": (
        "other",
        "OtherForCausalLM",
    ),
}
_GENERIC = {"TransformersForCausalLM": ("transformers", "TransformersForCausalLM")}
_VLLM_MODELS = {**_TEXT, **_GENERIC, **_ELSEWHERE}
_PREVIOUSLY_SUPPORTED_MODELS = {"GoneForCausalLM": "0.9.2"}
_OOT_SUPPORTED_MODELS = {"PluggedForCausalLM": "https://example.org/plugin"}
"""


def model(name: str | None, **changes: object) -> ModelSpec:
    """A checkpoint of this architecture: text, full attention, no experts."""
    found = replace(eight_billion_16_bit(), format="safetensors", classes=(name,) if name else ())
    return replace(found, **changes)  # type: ignore[arg-type]


def said(name: str | None, version: str | None, **changes: object) -> tuple[str, ...]:
    """What is said of a model for a release that is not installed here."""
    return check_served(VllmHost(), model(name, **changes), installed(version), InForce())


def refusal(name: str, version: str, **changes: object) -> str:
    with pytest.raises(Unsupported) as refused:
        said(name, version, **changes)
    return f"{refused.value.message} | {refused.value.hint}"


def test_the_table_is_one_history() -> None:
    assert [release(text) for text in RELEASES] == sorted(release(text) for text in RELEASES)
    served: set[str] = set()
    for text in RELEASES:
        added, dropped = set(ADDED.get(text, "").split()), set(DROPPED.get(text, "").split())
        assert not added & served, f"{text} adds what is there"
        assert dropped <= served, f"{text} drops what is not there"
        served = (served | added) - dropped
        assert served_at(release(text)) == served
    assert {*ADDED, *DROPPED} <= set(RELEASES)


def test_when_an_architecture_was_served() -> None:
    assert spans("LlamaForCausalLM") == (Span("0.8.5"),)
    assert spans("Qwen3NextForCausalLM") == (Span("0.10.2"),)
    assert spans("BambaForCausalLM") == (Span("0.8.5", "0.23.0"),)
    assert spans("ExaoneMoEForCausalLM") == (Span("0.14.0", "0.26.0"), Span("0.32.0")), "renamed, and back as an alias"
    assert spans("NobodysForCausalLM") == ()
    assert [str(span) for span in (Span("0.9.0"), Span("0.9.0", "0.9.2"), Span("0.9.0", "0.9.0"))] == [
        "since 0.9.0",
        "from 0.9.0 to 0.9.2",
        "in 0.9.0",
    ]


def test_versions_between_the_known_ones() -> None:
    assert is_known(Version((0, 33)))
    assert not is_known(Version((0, 20, 7)))
    assert next_known(Version((0, 20, 7))) == release("0.21.0")
    assert next_known(Version((9,))) == NEWEST
    assert served_at(Version((0, 20, 7))) == served_at(release("0.20.2"))


def test_what_a_release_serves_needs_no_word() -> None:
    assert said("LlamaForCausalLM", "0.33.0") == ()
    assert said("Qwen3NextForCausalLM", "0.10.2", state_layers=(StateLayer("gated_delta", 1, 1),)) == ()


def test_a_release_too_old_is_refused_with_the_first_that_can() -> None:
    found = refusal("Qwen3NextForCausalLM", "0.10.0", state_layers=(StateLayer("gated_delta", 1, 1),))
    assert "vllm 0.10.0 cannot serve" in found
    assert "vllm has the architecture Qwen3NextForCausalLM since 0.10.2" in found
    assert "install vllm 0.10.2 or newer" in found
    assert "--engine llama-server" in found


def test_a_release_that_dropped_it_is_refused_with_the_last_that_could() -> None:
    found = refusal("BambaForCausalLM", "0.33.0", state_layers=(StateLayer("mamba2", 1, 1),))
    assert "from 0.8.5 to 0.23.0" in found
    assert "--engine-version 0.23.0" in found


def test_experts_and_pictures_need_a_release_that_wraps_them() -> None:
    assert "since 0.10.1" in refusal("GptOssForCausalLM", "0.10.0", experts=32)
    assert "no release up to" in refusal("NobodysForCausalLM", "0.11.0", experts=8)
    assert "through the class in Transformers" in said("NobodysForCausalLM", "0.11.1", experts=8)[0]
    assert "no release" in refusal("NobodysForConditionalGeneration", "0.9.2", encoder_weights_bytes=1)
    for version in ("0.10.0", "0.33.0"):
        assert said("NobodysForConditionalGeneration", version, encoder_weights_bytes=1)


def test_plain_attention_may_go_through_transformers() -> None:
    (line,) = said("Olmo3ForCausalLM", "0.10.0")
    assert (
        "vllm 0.10.0 has no Olmo3ForCausalLM of its own (vllm has the architecture Olmo3ForCausalLM since 0.11.0)"
        in line
    )
    assert "--trust-remote-code" in said("NobodysForCausalLM", "0.33.0", has_own_code=True)[0]


def test_what_is_in_doubt_is_not_refused() -> None:
    states = {"state_layers": (StateLayer("mamba2", 1, 1),)}
    assert "newer than 0.33.0" in said("BambaForCausalLM", "0.99.0", **states)[0]
    assert "which version of vllm it will be is not known" in said("BambaForCausalLM", None, **states)[0]
    assert said("LlamaForCausalLM", None) == ()
    assert "names no architecture" in said(None, "0.33.0")[0]
    assert "0.9.0 serves" in said("FalconH1ForCausalLM", "0.8.6", **states)[0]
    assert "with a plugin only: https://github.com" in said("BartForConditionalGeneration", "0.33.0", **states)[0]


def test_the_version_that_a_running_server_tells_counts_where_no_package_is_seen() -> None:
    states = (StateLayer("mamba2", 1, 1),)
    with pytest.raises(Unsupported, match=r"vllm 0\.33\.0 cannot serve"):
        check_served(
            VllmHost(), model("BambaForCausalLM", state_layers=states), installed(None), InForce(build="0.33.0")
        )


def here(
    name: str,
    registry: str = OWN,
    classes: str | None = "",
    *,
    beside: tuple[str, ...] = (),
    files: dict[str, str] | None = None,
    experts: int = 0,
) -> tuple[str, ...]:
    """What is said of a model where vLLM 0.99 is installed with this registry and this list of Transformers."""
    host = VllmHost()
    host.environment_of("/opt/vllm", "vllm-0.99.0.dist-info", *beside)
    host.files[REGISTRY] = registry
    if classes is not None:
        host.files[CLASSES] = classes
    host.files |= files or {}
    return check_served(host, model(name, experts=experts), installed("0.99.0"), InForce())


def test_an_installed_one_is_asked_itself() -> None:
    assert here("OtherForCausalLM") == ()
    with pytest.raises(
        Unsupported, match=r"vllm 0\.99\.0 cannot serve .* no release up to 0\.33\.0 has the architecture"
    ):
        here("NobodysForCausalLM")
    assert "newer than 0.33.0" in here("OtherForCausalLM", registry="def broken(")[0], "then the table counts"


def test_an_installed_one_may_have_the_class_in_transformers_or_a_plugin() -> None:
    assert "through the class in Transformers" in here("NobodysForCausalLM", classes='("x", "NobodysForCausalLM")')[0]
    assert "through the class in Transformers" in here("NobodysForCausalLM", classes=None)[0], "it could not be read"
    own = {f"{PACKAGES}/transformers/models/qwen3/modeling_qwen3.py": "class NobodysForCausalLM(Model):"}
    assert "through the class in Transformers" in here("NobodysForCausalLM", files=own)[0]
    with pytest.raises(Unsupported, match="cannot serve"):
        here("NobodysForCausalLM", classes='"NobodysForCausalLM"', experts=8)
    points = "[vllm.general_plugins]\nregister = some_plugin:register\n"
    beside = {f"{PACKAGES}/some_plugin-1.0.dist-info/entry_points.txt": points}
    (line,) = here("NobodysForCausalLM", beside=("some_plugin-1.0.dist-info",), files=beside)
    assert "whether its plugins have (some_plugin) was not checked" in line
    vllms = {f"{PACKAGES}/vllm-0.99.0.dist-info/entry_points.txt": points}
    with pytest.raises(Unsupported):
        here("NobodysForCausalLM", files=vllms)


def test_a_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(Unsupported) as refused:
        here("PluggedForCausalLM")
    assert "install its plugin (https://example.org/plugin)" in str(refused.value.hint)


@pytest.mark.parametrize(
    "source", ["", "x = 1", "_VLLM_MODELS = {**_X}", "_VLLM_MODELS = other()", "def broken(", "\0"]
)
def test_another_form_of_registry_is_not_read(source: str) -> None:
    assert read_registry(source) is None


def test_a_recommendation_knows_what_the_newest_serves() -> None:
    assert why_no_release(model("LlamaForCausalLM")) is None
    assert why_no_release(model(None)) is None
    assert "from 0.8.5 to 0.23.0" in str(
        why_no_release(model("BambaForCausalLM", state_layers=(StateLayer("mamba2", 1, 1),)))
    )
