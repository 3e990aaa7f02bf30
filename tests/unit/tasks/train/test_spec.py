"""Specs of training runs: what is refused, and what decides a phase's result."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec
from tests.support.training import small_spec

LABELS = small_spec().phases
POLICY: dict[str, Any] = {"name": "III", "first": 20, "last": 22, "trains": "policy", "lr": 1e-3}


def tuned(**policy: Any) -> PhaseSpec:
    return PhaseSpec(**POLICY, policy=PolicySpec(**{"steps": 9} | policy))


@pytest.mark.parametrize("phases", [(tuned(),), (LABELS[0], tuned())])
def test_a_phase_by_policy_needs_a_network_that_answers(phases: tuple[PhaseSpec, ...]) -> None:
    """First of all, or after the encoder alone: refused, unless there is a base to start from."""
    with pytest.raises(ValidationError, match=r"phase III trains by policy, but no network has learnt"):
        small_spec(phases=phases)
    assert small_spec(phases=phases, base="small@1").phases == phases
    assert small_spec(phases=(*LABELS, tuned())).phases[-1].policy == PolicySpec(steps=9)


def test_a_policy_is_said_where_there_is_one_and_nowhere_else() -> None:
    """Trains by policy, and what it draws: one without the other is refused."""
    with pytest.raises(ValidationError, match=r"phase III trains policy and needs policy.steps"):
        PhaseSpec(**POLICY)
    with pytest.raises(ValidationError, match=r"phase III trains both and has a field policy"):
        PhaseSpec(**{**POLICY, "trains": "both"}, policy=PolicySpec(steps=9))


def test_muon_takes_whole_matrices() -> None:
    """ZeRO cuts them: refused in a sentence."""
    assert small_spec(optimizer="muon").optimizer == "muon"
    with pytest.raises(ValidationError, match=r"muon works on whole matrices, which zero = 1 cuts"):
        small_spec(optimizer="muon", zero=1)


def test_later_fields_are_unsaid_where_they_are_not_used() -> None:
    """So that checkpoints and cards of before stay those of the same phase and network."""
    spec = small_spec()
    assert not {name for name in spec.recipe("II") if name.startswith(("policy", "optimizer"))}
    assert "pointer" not in spec.network.model_dump()
    assert small_spec(optimizer="muon").recipe("II")["optimizer"] == "muon"
    recipe = small_spec(phases=(*LABELS, tuned(labels=0))).recipe("III")
    assert (recipe["policy.steps"], recipe["policy.labels"], recipe["trains"]) == (9, 0, "policy")
    assert TrainSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(("source", "passes"), [("fresh", 1), ("labels", 1), ("labels", 3)])
def test_a_phase_by_policy_is_as_long_as_it_says(source: str, passes: int) -> None:
    """Its labels are gone through as often as that takes, whatever else is said of passes."""
    phase = tuned(steps=50, instances=7, source=source).model_copy(update={"passes": passes})
    spec = small_spec(phases=(*LABELS, phase))
    counts = (30, 30, 30)
    assert spec.steps("III", counts) == 50
    assert spec.samples("III", counts) == 350
    for curriculum, batch in (
        (spec.curriculum("III", counts), 12),
        (spec.policy_instances("III", counts, ""), 7),
    ):
        assert curriculum.batch == batch
        assert 50 <= curriculum.steps < 50 + 90 / batch * 3
    assert spec.needs_labels("III")
    free = small_spec(phases=(*LABELS, tuned(labels=0, source=source)))
    assert free.needs_labels("III") == (source == "labels")
