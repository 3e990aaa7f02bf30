"""Policy-gradient phases with real DeepSpeed: resumed, on other ranks, without labels, guarded, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import Batch
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, latest_checkpoint, load_weights
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.engine import Engine, Sums
from mcvrp.tasks.train.job import RankEvent, Saved, Warned
from mcvrp.tasks.train.phases import Launcher, PhaseSummary
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec
from tests.integration.tasks.train.conftest import Here
from tests.support.forked_ranks import Killer, forked
from tests.support.training import StoppedHere, metric_rows, small_spec, write_dataset

CITY = City.uniform(60, seed=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    write_dataset(store, CITY, range(20, 23), 30)
    write_dataset(store, CITY, range(20, 23), 2, "apart")
    store.put_json(layout.label_spec("apart"), {"split": "valid"})
    return store


def spec_of(
    run: str, lr: float = 1e-3, changes: dict[str, object] | None = None, **policy: object
) -> TrainSpec:
    """Return a run that trains on labels and then by policy gradient, 7 steps."""
    tuned = PolicySpec(**{"steps": 7, "instances": 4, "samples": 3} | policy)  # type: ignore[arg-type]
    phases = (
        small_spec().phases[1],
        PhaseSpec(name="tune", first=20, last=22, trains="policy", lr=lr, policy=tuned, rotation=True),
    )
    network = small_spec().network.model_copy(update={"pointer": True})
    return small_spec(**{"run": run, "phases": phases, "network": network, "ranks": 1} | (changes or {}))


def train(
    store: Store, spec: TrainSpec, launch: Launcher | None = None, city: City = CITY
) -> list[PhaseSummary]:
    cache = Path(f"{store.uri}-cache")
    return [stage.train_phase(store, city, spec, phase.name, cache, launch) for phase in spec.phases]


def state_of(store: Store, run: str) -> CheckpointState:
    state = latest_checkpoint(store, run, "tune")
    assert state is not None
    assert state.complete
    return state


def rows(store: Store, run: str) -> np.ndarray:
    """Return the metrics of the phase but for the rate."""
    return metric_rows(store, run, "tune")


def columns(store: Store, run: str, *names: str) -> np.ndarray:
    return np.array([[getattr(row, name) for name in names] for row in read_metrics(store, run, "tune")])


@pytest.mark.parametrize(("source", "optimizer"), [("fresh", "adamw"), ("labels", "muon")])
def test_a_resumed_phase_is_bit_for_bit_the_uninterrupted_one(
    store: Store, here: Here, source: str, optimizer: str
) -> None:
    """Stopped before the first checkpoint, and between two: same metrics, weights and moments."""
    watched = {"held_out": "apart", "held_out_every": 3, "held_out_samples": 2, "checkpoint_every": 2}
    watched["optimizer"] = optimizer
    train(store, spec_of("whole", changes=watched, source=source), here())
    broken = spec_of("broken", changes=watched, source=source)
    for stop in (1, 5):
        with pytest.raises(StoppedHere):
            train(store, broken, here(stop_at=stop))
    train(store, broken, here())
    np.testing.assert_array_equal(rows(store, "broken"), rows(store, "whole"))
    assert state_of(store, "broken").files == state_of(store, "whole").files
    steps, greedy, best = columns(store, "whole", "step", "greedy_gap", "best_gap").T
    assert steps.tolist() == list(range(8))
    assert steps[~np.isnan(greedy)].tolist() == [0, 3, 6, 7]
    assert (np.isnan(greedy) == np.isnan(best)).all()


def test_other_ranks_and_micro_batches_take_the_same_steps(store: Store, tmp_path: Path) -> None:
    """Two ranks, or one instance per micro-batch, equal one rank with all within rounding."""
    calm = {"network": spec_of("x").network.model_copy(update={"dropout": 0.0})}
    train(store, spec_of("one", changes=calm), forked())
    expected = columns(store, "one", "sampled_cost", "best_cost", "spread", "solution_loss")
    weights = load_weights(store, state_of(store, "one"))
    pieces = {"two": {"ranks": 2}, "pieces": {"micro_tokens": 200}, "paths": {"micro_batch": 3}}
    for run, changes in pieces.items():
        train(store, spec_of(run, changes=calm | changes), forked())
        actual = columns(store, run, "sampled_cost", "best_cost", "spread", "solution_loss")
        np.testing.assert_allclose(actual, expected, rtol=1e-3)
        again = load_weights(store, state_of(store, run))
        for name, array in weights.items():
            if name.endswith("key_value.bias"):  # the gradient of keys is rounding, which Adam scales up
                continue
            np.testing.assert_allclose(again[name], array, atol=2e-3, err_msg=name)


@pytest.mark.parametrize(
    ("changes", "instances"),
    [
        ({}, 4),
        ({"micro_batch": 12}, 4),
        ({"micro_batch": 11}, 3),
        ({"micro_batch": 6}, 2),
        ({"micro_batch": 1}, 1),  # an instance is never divided
        ({"micro_batch": 12, "micro_tokens": 1}, 1),
    ],
)
def test_micro_batch_limits_the_paths_of_a_policy_phase(
    store: Store, here: Here, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], instances: int
) -> None:
    """Four instances of three paths each: micro_batch counts paths, as it counts samples of labels."""
    original, taken = Engine.step, []

    def step(self: Engine, work: Any, totals: Any, lr: float) -> Sums:
        taken.append([len(part) for part in work if not isinstance(part, Batch)])
        return original(self, work, totals, lr)

    monkeypatch.setattr(Engine, "step", step)
    spec = spec_of("run", changes=changes, steps=1, labels=0)
    spec = spec.model_copy(update={"phases": spec.phases[1:]})
    train(store, spec, here())
    assert sum(taken[0]) == 4
    assert max(taken[0]) == instances


@pytest.mark.slow
def test_ranks_that_are_killed_train_the_uninterrupted_phase(store: Store) -> None:
    """SIGKILL of a rank, in steps and checkpoints, changes no bit of the weights."""
    changes: dict[str, object] = {"ranks": 2, "checkpoint_every": 2, "restarts": 99}
    train(store, spec_of("whole", changes=changes), forked())
    killer = Killer(2, seed=1)
    train(store, spec_of("killed", changes=changes), forked(killer))
    np.testing.assert_array_equal(rows(store, "killed"), rows(store, "whole"))
    assert state_of(store, "killed").files == state_of(store, "whole").files


def test_samples_become_cheaper(store: Store, here: Here) -> None:
    """Without a supervised loss, the mean cost of samples falls."""
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
    tune = first.phases[1].model_copy(
        update={"policy": PolicySpec(steps=3, instances=4, samples=3, labels=0)}
    )
    spec = small_spec(
        run="again", base="small@1", phases=(tune,), network=first.network, ranks=1, dataset="tiny"
    )
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
        if isinstance(event, Saved) and (saved := latest_checkpoint(store, "ruined", "tune")):
            weights[event.step] = saved.weights_sha256

    train(store, spec_of("ruined", lr=0.5, changes=changes), here(hear=hear))
    state, all_rows = state_of(store, "ruined"), read_metrics(store, "ruined", "tune")
    assert all_rows[-1].greedy_gap > all_rows[0].greedy_gap
    kept = int(state.metrics["kept_step"])
    assert state.metrics["greedy_gap"] == min(row.greedy_gap for row in all_rows if row.greedy_gap > -100)
    assert state.weights_sha256 == weights[kept] != weights[6]
    assert len(messages) == 1
    assert f"increased the held-out gap from {all_rows[0].greedy_gap:.2f} to" in messages[0]
    assert f"it ends with the weights of step {kept}" in messages[0]


def test_instances_have_the_ranges_of_the_labels(store: Store, here: Here) -> None:
    """Ranges that the phase leaves open are those of the dataset, and recorded in its checkpoints."""
    store.put_json(layout.label_spec("tiny"), {"demand": [2, 3], "capacity": [40, 50]})
    train(store, spec_of("ranges"), here())
    recipe = state_of(store, "ranges").origin.recipe
    assert (recipe["policy.demand"], recipe["policy.capacity"]) == ([2, 3], [40, 50])
    with pytest.raises(McvrpError, match=r"trained with recipe.policy.samples = 3, now it is 4"):
        train(store, spec_of("ranges", samples=4), here())


@pytest.mark.parametrize(
    ("policy", "changes", "named"),
    [
        (
            {"samples": 10**5},
            {"network": small_spec().network.model_copy(update={"dim": 1024, "ff": 4096})},
            r"policy.samples = 100,000 paths of 22 customers need .* would fit",
        ),
        (
            {"instances": 5},
            {"ranks": 2},
            r"policy.instances of phase tune = 5 cannot be divided among 2 ranks",
        ),
    ],
)
def test_impossible_phases_are_refused_before_training(
    store: Store, policy: dict[str, object], changes: dict[str, object], named: str
) -> None:
    """By the check that commands make before they start."""
    with pytest.raises(McvrpError, match=named):
        stage.check_training(store, CITY, spec_of("asked", changes=changes, **policy))


def test_a_supervised_loss_without_labels_is_refused(store: Store, here: Here) -> None:
    """The error has both remedies: label, or train without."""
    first = spec_of("first")
    train(store, first, here())
    stage.publish(store, first)
    spec = small_spec(
        run="next", base="small@1", phases=first.phases[1:], network=first.network, dataset="no"
    )
    with pytest.raises(
        McvrpError, match=r"'no' has no labels of 20-22 .* or set policy.labels = 0 for the phase"
    ):
        train(store, spec, here())


def test_another_network_than_the_base_is_refused(store: Store, here: Here) -> None:
    """The weights of a pointer network do not fit one without, nor the other way round."""
    first = spec_of("first")
    train(store, first, here())
    stage.publish(store, first)
    plain = small_spec(run="plain", base="small@1", phases=(first.phases[1],), ranks=1)
    with pytest.raises(McvrpError, match=r"has network.pointer = True, the run has False"):
        train(store, plain, here())
    same = small_spec(run="first", phases=first.phases, ranks=1)
    with pytest.raises(McvrpError, match=r"trained with network.pointer = True, now it is not set"):
        train(store, same, here())
