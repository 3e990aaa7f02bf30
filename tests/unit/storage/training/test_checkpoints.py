"""Checkpoints: what is stored, kept and pruned, and what an interruption leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    OPTIMIZER,
    STATE,
    WEIGHTS,
    CheckpointState,
    Moments,
    Origin,
    checkpoints,
    intact_checkpoint,
    latest_checkpoint,
    load_moments,
    load_weights,
    save_checkpoint,
)
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write

ORIGIN = Origin("city", "labels", {"dim": 8, "heads": 2}, {"lr": 0.1, "batch": 4}, "")
ARRAYS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T, "b": np.array(0.5, dtype=np.float32)}
MOMENTS = Moments({"a.weight": np.ones((3, 2), np.float32)}, {"a.weight": np.full((3, 2), 2.0, np.float32)})


def save(store: Store, step: int, gap: float | None = None, keep: int = 2) -> CheckpointState:
    state = CheckpointState("run", "I", step, 100, step, ORIGIN, {"loss": 1.5, "greedy_gap": gap})
    arrays = {name: array + np.float32(step) for name, array in ARRAYS.items()}
    return save_checkpoint(store, state, arrays, MOMENTS, keep)


def latest(store: Store) -> CheckpointState:
    state = latest_checkpoint(store, "run", "I")
    assert state is not None
    return state


def test_a_checkpoint_is_read_back(store: Store) -> None:
    """Arrays of any memory layout, counters and origin."""
    saved = save(store, 10)
    state = latest(store)
    assert state == saved
    assert not state.complete
    assert state.origin == ORIGIN
    for name, array in load_weights(store, state).items():
        np.testing.assert_array_equal(array, ARRAYS[name] + np.float32(10))
    moments = load_moments(store, state)
    assert [*moments.exp_avg] == [*moments.exp_avg_sq] == ["a.weight"]
    np.testing.assert_array_equal(moments.exp_avg_sq["a.weight"], MOMENTS.exp_avg_sq["a.weight"])


def test_the_last_two_are_kept_and_leftovers_are_deleted(store: Store) -> None:
    save(store, 5)
    store.put("training/run/I/step-00000007/weights.safetensors", b"leftover")
    store.put("training/run/I/metrics.parquet", b"not a checkpoint")
    for step in (10, 15):
        save(store, step)
    assert [state.step for state in checkpoints(store, "run", "I")] == [10, 15]
    folders = {path.split("/")[3] for path in store.list("training/run/I")}
    assert folders == {"step-00000010", "step-00000015", "metrics.parquet"}


@pytest.mark.parametrize(
    ("keep", "gaps", "kept"),
    [
        (1, [9.0, 4.0, 5.0, None], [2, 4]),  # the best is an old one
        (1, [9.0, 4.0, 4.0, 6.0], [3, 4]),  # of equals the newer
        (3, [None, 7.0, 5.0, 4.0], [2, 3, 4]),  # the best is among the last
        (2, [None, None, None, None], [3, 4]),  # nothing was measured
    ],
)
def test_the_best_is_kept_besides_the_last(
    store: Store, keep: int, gaps: list[float | None], kept: list[int]
) -> None:
    for step, gap in enumerate(gaps, 1):
        save(store, step, gap, keep)
    assert [state.step for state in checkpoints(store, "run", "I")] == kept


def test_a_run_may_be_named_like_a_checkpoint(store: Store) -> None:
    """Names like a step's folder do not affect pruning, in this phase or another."""
    for phase in ("I", "step-2"):
        for step in (1, 2, 3):
            state = CheckpointState("step-1", phase, step, 9, step, ORIGIN, {})
            save_checkpoint(store, state, ARRAYS, MOMENTS)
    for phase in ("I", "step-2"):
        assert [state.step for state in checkpoints(store, "step-1", phase)] == [2, 3]


def test_a_kill_at_any_moment_leaves_a_checkpoint(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed amid each write in turn: the old checkpoint or the new one is whole, and the next one tidies."""
    save(store, 5)
    folder = tmp_path_factory.mktemp("killed")
    for copy, done in killed_at_each_write(store, folder, partial(save, step=10, keep=1), at_least=4):
        state = latest(copy)
        assert state.step in ((10,) if done else (5, 10))
        for name, array in load_weights(copy, state).items():
            np.testing.assert_array_equal(array, ARRAYS[name] + np.float32(state.step))
        assert load_moments(copy, state).exp_avg
        save(copy, 15, keep=1)
        assert [state.step for state in checkpoints(copy, "run", "I")] == [15]
        assert {path.rsplit("/", 1)[1] for path in copy.list("")} == {WEIGHTS, OPTIMIZER, STATE}


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (STATE, lambda data: None),
        (STATE, lambda data: data[:-40]),
        (STATE, lambda data: b'{"step": 10}'),
        (WEIGHTS, lambda data: data[:-4]),
        (WEIGHTS, lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        (OPTIMIZER, lambda data: None),
    ],
)
def test_the_last_intact_checkpoint_counts(
    store: Store, name: str, left: Callable[[bytes], bytes | None]
) -> None:
    """A state that is missing or unreadable is none; a damaged file is named, and its checkpoint deleted."""
    save(store, 5)
    path = f"{save(store, 10).folder}/{name}"
    data = left(store.get(path))
    store.delete(path)
    if data is not None:
        store.put(path, data)
    if name != STATE:
        with pytest.raises(McvrpError, match=f"step-00000010/{name}"):
            load_weights(store, latest(store)), load_moments(store, latest(store))
    state = intact_checkpoint(store, "run", "I")
    assert state == latest(store)
    assert state.step == 5


def test_another_origin_is_an_error_with_field_and_both_values() -> None:
    """It names the first difference."""
    ORIGIN.require(replace(ORIGIN, city_id="other"), "it", "hint", "train", ())  # see `require_city`
    other = replace(ORIGIN, network={"dim": 16, "heads": 2}, recipe={"lr": 0.1})
    with pytest.raises(McvrpError, match=r"with train.network.dim = 8, now it is 16 \(and 1 more\): hint"):
        ORIGIN.require(other, "it", "hint", "train", ("network",))


def test_later_checkpoints_are_never_pruned(store: Store) -> None:
    """Another trainer's: an earlier step is not saved any more, and unfinished folders of later ones stay."""
    unfinished = "training/run/I/step-00000070/weights.safetensors"
    store.put(unfinished, b"being written")
    save(store, 50)
    assert store.exists(unfinished)
    save(store, 100)
    assert not store.exists(unfinished)
    before = everything(store)
    with pytest.raises(IncompleteError, match=r"step 100 .* step 90 is not saved: run again"):
        save(store, 90)
    assert everything(store) == before
