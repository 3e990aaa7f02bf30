"""Specs of training runs: what is refused, and which settings decide the result of a phase."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec
from tests.support.training import small_spec

LABELS = small_spec().phases
POLICY: dict[str, Any] = {"name": "III", "first": 20, "last": 22, "trains": "policy", "lr": 1e-3}


def tuned(**policy: Any) -> PhaseSpec:
    return PhaseSpec(**POLICY, policy=PolicySpec(**{"steps": 9} | policy))


@pytest.mark.parametrize("phases", [(tuned(),), (LABELS[0], tuned())])
def test_a_policy_phase_needs_a_trained_decoder(phases: tuple[PhaseSpec, ...]) -> None:
    """As the first phase, or after the encoder alone: refused, unless the run has a base."""
    with pytest.raises(ValidationError, match=r"phase III trains by policy gradient, but the decoder is"):
        small_spec(phases=phases)
    assert small_spec(phases=phases, base="small@1").phases == phases
    assert small_spec(phases=(*LABELS, tuned())).phases[-1].policy == PolicySpec(steps=9)


def test_policy_settings_belong_to_policy_phases() -> None:
    with pytest.raises(ValidationError, match=r"phase III trains policy and needs policy.steps"):
        PhaseSpec(**POLICY)
    with pytest.raises(ValidationError, match=r"phase III trains both and has a field policy"):
        PhaseSpec(**{**POLICY, "trains": "both"}, policy=PolicySpec(steps=9))


def test_later_fields_are_left_out_while_unused() -> None:
    spec = small_spec()
    assert not {name for name in spec.recipe("II") if name.startswith(("policy", "optimizer"))}
    assert "pointer" not in spec.network.model_dump()
    assert small_spec(optimizer="muon").recipe("II")["optimizer"] == "muon"
    recipe = small_spec(phases=(*LABELS, tuned(labels=0))).recipe("III")
    assert (recipe["policy.steps"], recipe["policy.labels"], recipe["trains"]) == (9, 0, "policy")
    assert TrainSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(("source", "passes"), [("fresh", 1), ("labels", 1), ("labels", 3)])
def test_a_policy_phase_has_its_number_of_steps(source: str, passes: int) -> None:
    """It makes as many passes over its labels as that needs, whatever `passes` says."""
    phase = tuned(steps=50, instances=7, source=source).model_copy(update={"passes": passes})
    spec = small_spec(phases=(*LABELS, phase))
    counts = (30, 30, 30)
    assert spec.steps("III", counts) == 50
    assert spec.samples("III", counts) == 350
    for curriculum, batch in (
        (spec.curriculum("III", counts), 12),
        (spec.curriculum("III", counts, paths=True), 7),
    ):
        assert curriculum.batch == batch
        assert 50 <= curriculum.steps < 50 + 90 / batch * 3
    assert spec.needs_labels("III")
    free = small_spec(phases=(*LABELS, tuned(labels=0, source=source)))
    assert free.needs_labels("III") == (source == "labels")


@pytest.mark.parametrize("counts", [(1, 1, 1), (0, 0, 1)])
def test_a_policy_phase_repeats_labels_that_do_not_fill_a_batch(counts: tuple[int, ...]) -> None:
    spec = small_spec(phases=(*LABELS, tuned(steps=50, instances=7, source="labels")))
    for paths, batch in ((False, 12), (True, 7)):
        curriculum = spec.curriculum("III", counts, paths=paths)
        assert curriculum.steps >= 50
        assert len(curriculum.global_batch(50).rows) == batch
        with pytest.raises(McvrpError, match="0 samples"):
            spec.curriculum("III", (0, 0, 0), paths=paths)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("phases", (), "at least 1 item"),
        ("phases", 2 * (PhaseSpec(name="I", first=20, last=20, lr=1),), "must be unique"),
        (
            "phases",
            (PhaseSpec(name="I", first=19, last=20, lr=1),),
            "starts at size 19, train.smallest is 20",
        ),
        ("batch", 0, "greater than or equal to 1"),
        ("zero", 3, "0, 1 or 2"),
        ("zero", 1, "muon needs whole matrices, which zero = 1 partitions"),
        ("color", "red", "Extra inputs"),
        *(("base", base, "base") for base in ("small", "small@champion", "small@0", "../x@1")),
    ],
)
def test_invalid_runs_are_refused(field: str, value: object, match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        small_spec(**{"base": "small@1", "optimizer": "muon", field: value})


def test_the_papers_first_phase_has_its_samples_and_steps() -> None:
    """Phase I of Table 2: 72.77 M samples, 284 K steps, a final learning rate of 1/sqrt(284 K)."""
    phase = PhaseSpec(
        name="I", first=20, last=400, trunc=1000, trains="encoder", schedule="t5", lr=0.01, warmup=10_000
    )
    spec = TrainSpec(dataset="paper", phases=(phase,))
    curriculum = spec.curriculum("I", (100_000,) * 381)
    assert (curriculum.samples, curriculum.steps) == (72_771_000, 284_261)
    assert phase.learning_rate()(curriculum.steps, curriculum.steps) == pytest.approx(284_261**-0.5)
    assert json.loads(json.dumps(spec.recipe("I"))) == spec.recipe("I")
