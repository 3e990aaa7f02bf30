"""Policy-gradient phases with real DeepSpeed: resumed, on other ranks, without labels, guarded, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcvrp.storage import layout
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, latest_checkpoint, load_weights
from mcvrp.storage.training.metrics import StepMetrics, read_metrics
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import RankEvent, Warned
from mcvrp.tasks.train.phases import Launcher
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec
from tests.integration.tasks.train.conftest import Here
from tests.support.forked_ranks import forked
from tests.support.training import CITY, StoppedHere, metric_rows, small_spec


def spec_of(
    run: str, lr: float = 1e-3, changes: dict[str, object] | None = None, **policy: object
) -> TrainSpec:
    """Return a run that trains on labels and then by policy gradient, 7 steps."""
    tuned = PolicySpec(**{"steps": 7, "instances": 4, "samples": 3} | policy)  # type: ignore[arg-type]
    phases = (
        small_spec().phases[1],
        PhaseSpec(name="tune", first=20, last=22, trains="policy", lr=lr, policy=tuned, rotation=True),
    )
    network = small_spec().network.model_copy(update={"pointer": True, "landmarks": 2})
    return small_spec(**{"run": run, "phases": phases, "network": network, "ranks": 1} | (changes or {}))


def train(store: Store, spec: TrainSpec, launch: Launcher) -> None:
    for phase in spec.phases:
        stage.train_phase(store, CITY, spec, phase.name, Path(f"{store.uri}-cache"), launch)


def state_of(store: Store, run: str) -> CheckpointState:
    state = latest_checkpoint(store, run, "tune")
    assert state is not None
    assert state.complete
    return state


def columns(store: Store, run: str, *names: str) -> np.ndarray:
    return np.array([[getattr(row, name) for name in names] for row in read_metrics(store, run, "tune")])


@pytest.mark.slow
@pytest.mark.parametrize(("source", "optimizer"), [("fresh", "adamw"), ("labels", "muon")])
def test_a_resumed_phase_is_bit_for_bit_the_uninterrupted_one(
    store: Store, here: Here, source: str, optimizer: str
) -> None:
    """Stopped before the first checkpoint, and between two: same metrics, weights and moments."""
    watched = {"held_out": "apart", "held_out_every": 3, "held_out_samples": 2, "checkpoint_every": 2}
    watched |= {"optimizer": optimizer}
    train(store, spec_of("whole", changes=watched, source=source), here())
    broken = spec_of("broken", changes=watched, source=source)
    for stop in (1, 5):
        with pytest.raises(StoppedHere):
            train(store, broken, here(stop_at=stop))
    train(store, broken, here())
    rows = metric_rows(store, "broken", "tune")
    np.testing.assert_array_equal(rows, metric_rows(store, "whole", "tune"))
    assert state_of(store, "broken").files == state_of(store, "whole").files
    steps, greedy, best = columns(store, "whole", "step", "greedy_gap", "best_gap").T
    assert steps.tolist() == list(range(8))
    assert steps[~np.isnan(greedy)].tolist() == [0, 3, 6, 7]
    assert (np.isnan(greedy) == np.isnan(best)).all()


@pytest.mark.slow
def test_other_ranks_and_micro_batches_take_the_same_steps(store: Store, tmp_path: Path) -> None:
    """Two ranks, or one instance per micro-batch, equal one rank with all within rounding."""
    calm: dict[str, object] = {"network": spec_of("x").network.model_copy(update={"dropout": 0.0})}
    train(store, spec_of("one", changes=calm), forked())
    expected = columns(store, "one", "sampled_cost", "best_cost", "solution_loss")
    weights = load_weights(store, state_of(store, "one"))
    pieces = {"two": {"ranks": 2}, "pieces": {"micro_tokens": 200}}
    for run, changes in pieces.items():
        train(store, spec_of(run, changes=calm | changes), forked())
        actual = columns(store, run, "sampled_cost", "best_cost", "solution_loss")
        np.testing.assert_allclose(actual, expected, rtol=1e-3)
        again = load_weights(store, state_of(store, run))
        for name, array in weights.items():
            if name.endswith("key_value.bias"):  # the gradient of keys is rounding, which Adam scales up
                continue
            np.testing.assert_allclose(again[name], array, atol=2e-3, err_msg=name)


@pytest.mark.slow
def test_samples_become_cheaper(store: Store, here: Here) -> None:
    spec = spec_of("cheaper", lr=3e-3, steps=60, instances=16, samples=8, labels=0.0)
    train(store, spec, here())
    cost = columns(store, "cheaper", "sampled_cost")[1:, 0]
    assert cost[-15:].mean() < 0.97 * cost[:15].mean()
    assert np.isnan(columns(store, "cheaper", "solution_loss")).all()


def test_without_a_supervised_loss_no_label_is_read(store: Store, here: Here) -> None:
    """A model is fine-tuned after its labels were deleted; another seed draws other instances."""
    first = spec_of("first")
    train(store, first, here())
    stage.publish(store, first)
    store.delete(layout.label_dir("tiny"))
    tune = spec_of("again", steps=3, labels=0).phases[1:]
    spec = small_spec(run="again", base="small@1", phases=tune, network=first.network, ranks=1)
    train(store, spec, here())
    stage.publish(store, spec)
    assert model_card(store, "small").version == 2
    assert state_of(store, "again").origin.fingerprint == ""
    other = spec.model_copy(update={"run": "other", "seed": 9})
    train(store, other, here())
    assert (columns(store, "other", "sampled_cost")[1:] != columns(store, "again", "sampled_cost")[1:]).all()


def test_a_phase_that_makes_the_gap_worse_ends_as_its_best(store: Store, here: Here) -> None:
    """A ruinous learning rate: the last checkpoint has the best weights, and there is a warning."""
    changes: dict[str, object] = {"held_out": "apart", "held_out_every": 2, "checkpoint_every": 100}
    messages, weights = list[str](), dict[int, str]()

    def hear(event: RankEvent) -> None:
        if isinstance(event, Warned):
            messages.append(event.message)
        if isinstance(event, StepMetrics) and (saved := latest_checkpoint(store, "ruined", "tune")):
            weights[saved.step] = saved.weights_sha256

    train(store, spec_of("ruined", lr=0.5, changes=changes), here(hear=hear))
    state, all_rows = state_of(store, "ruined"), read_metrics(store, "ruined", "tune")
    assert all_rows[-1].greedy_gap > all_rows[0].greedy_gap
    kept = int(state.metrics["kept_step"])
    assert state.metrics["greedy_gap"] == min(row.greedy_gap for row in all_rows if row.greedy_gap > -100)
    assert state.weights_sha256 == weights[kept] != weights[6]
    (message,) = messages
    assert f"increased the held-out gap from {all_rows[0].greedy_gap:.2f} to" in message
    assert f"it ends with the weights of step {kept}" in message
