"""Training that is killed repeatedly ends with the bytes of an undisturbed run."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from mcvrp.model.errors import IncompleteError
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    latest_checkpoint,
    load_moments,
    load_weights,
    save_checkpoint,
)
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import Saved
from mcvrp.tasks.train.phases import Launcher
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.driven_training import DrivenRun, Part
from tests.support.forked_ranks import Fate, Killer, forked
from tests.support.training import metric_rows, small_spec, write_dataset

CITY = City.uniform(60, seed=3)
PHASE = small_spec().phases[1].model_copy(update={"name": "only", "passes": 6})  # 45 steps


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(str(tmp_path / "store"))


def filled(uri: str) -> Store:
    store = Store.open(uri)
    write_dataset(store, CITY, range(20, 23), 30)
    return store


def spec_of(run: str, ranks: int, **changes: object) -> TrainSpec:
    values = {"run": run, "phases": (PHASE,), "ranks": ranks, "checkpoint_every": 3, "restarts": 99}
    return small_spec(**values | changes)


def train(store: Store, spec: TrainSpec, cache: Path, launch: Launcher | None = None) -> CheckpointState:
    """Train the phase to its end and return its last checkpoint."""
    job = stage.train_phase(store, CITY, spec, "only", cache, launch)
    assert job.complete
    state = latest_checkpoint(store, spec.run, "only")
    assert state is not None
    return state


def rows(store: Store, run: str) -> np.ndarray:
    """Return the metrics of a run but for the rate."""
    return metric_rows(store, run, "only")


def assert_same(store: Store, run: str, other: str) -> None:
    """Check that two runs have the same metrics and the same weights and moments, bit for bit."""
    np.testing.assert_array_equal(rows(store, run), rows(store, other))
    one, two = (latest_checkpoint(store, name, "only") for name in (run, other))
    assert one is not None
    assert two is not None
    assert one.files == two.files


@pytest.mark.parametrize(
    ("ranks", "zero", "kills"),
    [
        (1, 0, 3),
        pytest.param(2, 1, 3, marks=pytest.mark.slow),
        *(pytest.param(ranks, 0, 25, marks=pytest.mark.slow) for ranks in (1, 2)),
    ],
)
def test_ranks_that_are_killed_train_the_uninterrupted_run(
    store: Store, tmp_path: Path, ranks: int, zero: int, kills: int
) -> None:
    """SIGKILL of a rank or of all, in steps and checkpoints, changes no metric and no bit of the weights."""
    changes = {"phases": (PHASE.model_copy(update={"passes": 1 + kills}),), "zero": zero}
    train(store, spec_of("whole", ranks, **changes), tmp_path / "cache", forked())
    killer = Killer(kills, seed=ranks)
    train(store, spec_of("killed", ranks, **changes), tmp_path / "cache", forked(killer))
    assert killer.left == 0
    assert_same(store, "killed", "whole")


@pytest.mark.parametrize(
    ("ranks", "parts"),
    [
        pytest.param(2, ("rank", "driver"), marks=pytest.mark.slow),
        *(
            pytest.param(ranks, ("rank", "driver", "everything") * 3, marks=pytest.mark.slow)
            for ranks in (1, 2)
        ),
    ],
)
def test_a_run_whose_parts_are_killed_is_the_uninterrupted_one(
    store: Store, tmp_path: Path, ranks: int, parts: tuple[Part, ...]
) -> None:
    """Any part of a real run is killed: no process of it survives, and the same command resumes exactly."""
    changes = {"phases": (PHASE.model_copy(update={"passes": 6 + 3 * len(parts)}),)}
    train(store, spec_of("whole", ranks, **changes), tmp_path / "cache", forked())
    run = DrivenRun(store, tmp_path / "cache", spec_of("killed", ranks, **changes), random.Random(ranks))
    try:
        for part in parts:
            assert run.kill(part), run.said
        assert run.finish() == 0, run.said
    finally:
        run.close()
    restarts = [line for line in run.said if "restarted from step" in line]
    assert len(restarts) == parts.count("rank")
    assert all("SIGKILL" in line for line in restarts)
    assert_same(store, "killed", "whole")


def test_training_to_object_storage_survives_kills(s3_uri: str, tmp_path: Path) -> None:
    """Labels, checkpoints and metrics in S3: the killed run is the uninterrupted one there too."""
    store = filled(s3_uri)
    train(store, spec_of("whole", 1), tmp_path / "cache", forked())
    killer = Killer(2, seed=0)
    train(store, spec_of("killed", 1), tmp_path / "cache", forked(killer))
    assert killer.left == 0
    assert_same(store, "killed", "whole")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["paper", "bucketed"])
def test_a_run_resumes_on_another_number_of_ranks(store: Store, tmp_path: Path, order: str) -> None:
    """Started by one rank, resumed by two and then three: the batches and losses of one."""
    network = small_spec().network.model_copy(update={"dropout": 0.0})
    phases = (PHASE.model_copy(update={"passes": 3}),)  # 22 steps
    changes = {"network": network, "phases": phases, "order": order, "micro_tokens": 300}
    whole, moved = spec_of("whole", 1, **changes), spec_of("moved", 1, **changes)
    last = train(store, whole, tmp_path / "cache", forked())
    for ranks, zero, stop in ((1, 0, 6), (2, 1, 12), (3, 2, None)):
        spec = moved.model_copy(update={"ranks": ranks, "zero": zero, "restarts": 0})
        if stop is None:
            state = train(store, spec, tmp_path / "cache", forked())
        else:
            with pytest.raises(IncompleteError):
                train(store, spec, tmp_path / "cache", forked(ending(stop)))
    assert state.step == last.step >= 20
    one, several = (read_metrics(store, run, "only") for run in ("whole", "moved"))
    for a, b in zip(one, several, strict=True):
        assert (a.step, a.samples, a.lr) == (b.step, b.samples, b.lr)
        losses = [(a.problem_loss, b.problem_loss), (a.solution_loss, b.solution_loss)]
        np.testing.assert_allclose(*zip(*losses, strict=True), rtol=0, atol=1e-5)


def ending(step: int) -> Fate:
    """Return a fate that kills all ranks once the checkpoint after ``step`` is saved."""
    return lambda event, ranks: list(range(ranks)) if event == Saved(step) else []


def test_jobs_with_a_time_limit_train_the_uninterrupted_run(store: Store, tmp_path: Path) -> None:
    """A job whose time is over at its start trains one row; a sequence of such jobs changes nothing."""
    phases = (PHASE.model_copy(update={"passes": 1}),)  # 7 steps
    whole, limited = (spec_of(run, 2, phases=phases, log_every=4) for run in ("whole", "limited"))
    train(store, whole, tmp_path / "cache", forked())
    ends = []
    while not (ends and ends[-1].complete):
        spec = limited.model_copy(update={"max_hours": 1e-9})
        ends.append(stage.train_phase(store, CITY, spec, "only", tmp_path / "cache", forked()))
    assert [(end.began_at, end.step) for end in ends] == [(0, 3), (3, 4), (4, 6), (6, 7)]
    assert_same(store, "limited", "whole")


@dataclass(frozen=True)
class Dying(Store):
    """A store whose writer dies before its ``left``-th write or deletion."""

    left: list[int] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> None:
        self._count()
        super().put(path, data)

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)

    def _count(self) -> None:
        self.left[0] -= 1
        if not self.left[0]:
            raise KeyboardInterrupt


def test_a_checkpoint_in_object_storage_is_whole_or_absent(s3_uri: str) -> None:
    """Any request may be the last: there is a checkpoint to resume from, and the next one cleans up."""
    origin = Origin("c", "f", {}, {}, "")

    def save(store: Store, step: int) -> None:
        state = CheckpointState("r", "I", step, 9, step, origin, {"greedy_gap": None})
        arrays = {"a": np.full(5, step, np.float32)}
        save_checkpoint(store, state, arrays, Moments(arrays, arrays), keep=1)

    for moment in range(1, 99):
        store = Store.open(f"{s3_uri}/{moment}")
        save(store, 1)
        survived = True
        try:
            save(Dying(store.uri, left=[moment]), 2)
        except KeyboardInterrupt:
            survived = False
        state = latest_checkpoint(store, "r", "I")
        assert state is not None
        assert state.step in ((2,) if survived else (1, 2))
        assert load_weights(store, state)["a"][0] == load_moments(store, state).exp_avg["a"][0] == state.step
        save(store, 3)
        assert {path.split("/")[3] for path in store.list("training")} == {"step-00000003"}
        if survived:
            break
    assert moment == 6  # three files, and the two deletions of the checkpoint before
