from dataclasses import replace

import numpy as np
import pytest

from model.errors import McvrpError
from storage.checkpoints import (
    OPTIMIZER,
    STATE,
    WEIGHTS,
    CheckpointState,
    Moments,
    Origin,
    checkpoints,
    latest_checkpoint,
    load_moments,
    load_weights,
    save_checkpoint,
)
from storage.store import Store

ORIGIN = Origin("city", "labels", {"dim": 8, "heads": 2}, {"lr": 0.1, "batch": 4}, "")
ARRAYS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T, "b": np.array(0.5, dtype=np.float32)}
MOMENTS = Moments({"a.weight": np.ones((3, 2), np.float32)}, {"a.weight": np.full((3, 2), 2.0, np.float32)})


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path)


def save(store, step):
    state = CheckpointState("run", "I", step, 100, step, ORIGIN, {"loss": 1.5, "solution_loss": None})
    return save_checkpoint(store, state, ARRAYS, MOMENTS)


def test_what_was_saved_comes_back(store):
    """Arrays, whatever their memory layout, counters and origin survive the way through the store."""
    saved = save(store, 10)
    state = latest_checkpoint(store, "run", "I")
    assert state == saved
    assert not state.complete
    assert state.origin.differences(ORIGIN) == []
    for name, array in load_weights(store, state).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    moments = load_moments(store, state)
    assert [*moments.exp_avg] == [*moments.exp_avg_sq] == ["a.weight"]
    np.testing.assert_array_equal(moments.exp_avg_sq["a.weight"], MOMENTS.exp_avg_sq["a.weight"])


def test_the_last_two_are_kept_and_remains_are_cleared(store):
    """A phase keeps two checkpoints; what a killed run left behind goes with the next one."""
    save(store, 5)
    store.put("training/run/I/step-00000007/weights.safetensors", b"left by a kill")
    store.put("training/run/I/metrics.parquet", b"not a checkpoint")
    for step in (10, 15):
        save(store, step)
    assert [state.step for state in checkpoints(store, "run", "I")] == [10, 15]
    folders = {path.split("/")[3] for path in store.list("training/run/I")}
    assert folders == {"step-00000010", "step-00000015", "metrics.parquet"}


@pytest.mark.parametrize(
    "damage", ["no state", "half a state", "other JSON", "half the weights", "no moments"]
)
def test_half_a_checkpoint_is_none(store, damage):
    """A folder whose state is missing, unreadable or names files that are not there is passed over."""
    save(store, 5)
    folder = save(store, 10).folder
    if damage == "no state":
        store.delete(f"{folder}/{STATE}")
    elif damage == "half a state":
        store.put(f"{folder}/{STATE}", store.get(f"{folder}/{STATE}")[:-40])
    elif damage == "other JSON":
        store.put_json(f"{folder}/{STATE}", {"step": 10})
    elif damage == "half the weights":
        store.put(f"{folder}/{WEIGHTS}", store.get(f"{folder}/{WEIGHTS}")[:-4])
    else:
        store.delete(f"{folder}/{OPTIMIZER}")
    assert latest_checkpoint(store, "run", "I").step == 5


def test_changed_bytes_are_never_loaded(store):
    """One flipped bit in a file of the right size is an error that names the file."""
    state = save(store, 10)
    data = bytearray(store.get(f"{state.folder}/{WEIGHTS}"))
    data[-1] ^= 1
    store.put(f"{state.folder}/{WEIGHTS}", bytes(data))
    with pytest.raises(McvrpError, match=r"step-00000010/weights.safetensors is damaged"):
        load_weights(store, state)


def test_differences_name_the_field_and_both_values():
    """Whatever differs between two origins is named with its group."""
    assert ORIGIN.differences(replace(ORIGIN, city_id="other")) == [("city", "city", "other")]
    other = replace(ORIGIN, network={"dim": 16, "heads": 2}, recipe={"lr": 0.1})
    assert ORIGIN.differences(other) == [("network.dim", 8, 16), ("recipe.batch", 4, None)]
