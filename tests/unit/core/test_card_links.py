"""How cards are linked as a group: the slowest link counts, and an unknown one makes all unknown."""

from __future__ import annotations

from dataclasses import replace

from llmops.core.card_links import exchange_bytes, kind_among, links_among, slowest_rate
from llmops.core.hardware import CardLink, Gpu, Hardware
from tests.unit.core.example_models import GIB, eight_billion_16_bit

GPUS = tuple(Gpu(index, None, "card", 24 * GIB, 24 * GIB) for index in range(3))
BRIDGE, BUS, OTHER = CardLink(0, 1, "nvlink", 300), CardLink(0, 2, "pcie", 20), CardLink(1, 2, "pcie", 25)
MACHINE = Hardware(gpus=GPUS, links=(BRIDGE, BUS, OTHER))


def test_the_slowest_link_is_that_of_the_group() -> None:
    assert (kind_among(MACHINE, GPUS), slowest_rate(MACHINE, GPUS)) == ("pcie", 20)
    assert (kind_among(MACHINE, GPUS[:2]), slowest_rate(MACHINE, GPUS[:2])) == ("nvlink", 300)


def test_a_pair_of_which_nothing_is_known_makes_the_group_unknown() -> None:
    for links in ((BRIDGE, BUS), (BRIDGE, BUS, replace(OTHER, kind=None))):
        machine = replace(MACHINE, links=links)
        assert links_among(machine, GPUS) == ()
        assert (kind_among(machine, GPUS), slowest_rate(machine, GPUS)) == (None, None)
        assert kind_among(machine, GPUS[:2]) == "nvlink"


def test_a_link_of_unknown_rate_makes_the_groups_rate_unknown() -> None:
    machine = replace(MACHINE, links=(BRIDGE, replace(BUS, bytes_per_second=None), OTHER))
    assert (kind_among(machine, GPUS), slowest_rate(machine, GPUS)) == ("pcie", None)


def test_one_card_is_linked_to_nothing() -> None:
    assert (kind_among(MACHINE, GPUS[:1]), slowest_rate(MACHINE, GPUS[:1])) == (None, None)


def test_bytes_of_an_exchange() -> None:
    model = eight_billion_16_bit()  # 36 layers of 4,096 values
    assert exchange_bytes(model, 2) == 2 * 36 * 4_096 * 2
    assert exchange_bytes(model, 8) == 2 * 36 * 4_096 * 2 * 2 * 7 // 8
