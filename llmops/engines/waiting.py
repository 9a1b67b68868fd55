"""How the threads of a ggml server wait for each other: variables of OpenMP that every such engine passes on."""

from __future__ import annotations

from llmops.engines.found import InForce

# OpenMP 5.2, 21.7; GOMP_SPINCOUNT says the same to GNU's library alone. Builds without OpenMP ignore both.
WAIT_POLICY, SPIN_COUNT = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"


def waits_as_told(in_force: InForce | None) -> bool:
    """Whether a person decided himself how threads wait."""
    said = dict(in_force.configured_environment or in_force.environment or ()) if in_force is not None else {}
    return SPIN_COUNT in said or said.get(WAIT_POLICY, "passive").lower() != "passive"
