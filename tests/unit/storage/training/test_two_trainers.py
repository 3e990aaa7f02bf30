"""Checkpoints of one phase by two trainers, one of which has lost the lease."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    checkpoints,
    save_checkpoint,
)
from tests.support.leases import taken_over

ORIGIN = Origin("city", "labels", {"dim": 8}, {"lr": 0.1}, "")
LEASE = "training/run/.lease"
CHANGES = 5  # confirmations of the lease during one save


@dataclass
class Trainer:
    """Holder of the lease until the other takes it over; its weights identify it."""

    store: Store
    number: int
    lease: Lease = field(init=False)

    def take_over(self) -> None:
        """Take the lease, as `holding` does if it is stale."""
        self.lease = taken_over(self.store, LEASE)

    def save(self, step: int, keep: int = 2, confirm: Callable[[], None] | None = None) -> None:
        state = CheckpointState("run", "I", step, 1000, step, ORIGIN, {})
        weights = {"w": np.full(3, self.number + step, np.float32)}
        moments = Moments({"w": np.ones(3, np.float32)}, {"w": np.ones(3, np.float32)})
        save_checkpoint(self.store, state, weights, moments, keep, confirm or self.lease.confirm)


def files(store: Store) -> dict[str, bytes]:
    return {path: store.get(path) for path in store.list("training/run/I")}


def last(store: Store) -> int:
    return max((state.step for state in checkpoints(store, "run", "I")), default=0)


def test_later_checkpoints_are_never_pruned(tmp_path: Path) -> None:
    """Saving an earlier step is refused, and unfinished folders of later steps stay."""
    store, first = Store.open(tmp_path), Trainer(Store.open(tmp_path), 1)
    first.take_over()
    store.put("training/run/I/step-00000700/weights.safetensors", b"being written")
    first.save(500)
    assert "training/run/I/step-00000700/weights.safetensors" in files(store)
    first.save(1000)
    assert "training/run/I/step-00000700/weights.safetensors" not in files(store)
    before = files(store)
    with pytest.raises(IncompleteError, match=r"step 1,000 .* step 900 is not saved: run again"):
        first.save(900)
    assert files(store) == before


@settings(max_examples=100, deadline=None)
@given(
    own=st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True).map(sorted),
    late=st.integers(1, 12),
    theirs=st.lists(st.integers(1, 12), max_size=4, unique=True).map(sorted),
    moment=st.integers(0, CHANGES),
    stalled=st.booleans(),
    keep=st.integers(1, 3),
)
def test_checkpoints_of_the_lease_holder_stay(
    own: list[int], late: int, theirs: list[int], moment: int, stalled: bool, keep: int
) -> None:
    """Wherever in a save another takes over: its bytes stay, even if the first stalls before it writes."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)  # no power is cut here
        store = Store.open(folder)
        first, second = Trainer(store, 1), Trainer(store, 20)
        first.take_over()
        for step in own:
            first.save(step, keep)
        step = last(store) + late
        left: dict[str, bytes] = {}
        begun = confirmations = 0

        def confirm() -> None:
            nonlocal begun, confirmations
            if stalled:
                first.lease.confirm()
            if confirmations == moment:
                second.take_over()
                begun = last(store)
                for other in theirs:
                    if other > last(store):  # it resumes from the last
                        second.save(other, keep)
                left.update(files(store))
            confirmations += 1
            if not stalled:
                first.lease.confirm()

        if stalled:
            with contextlib.suppress(McvrpError):
                first.save(step, keep, confirm)
            saved = [f"/step-{other:08}/" for other in theirs if begun < other != step]
            stored = files(store)
            for path, data in left.items():
                if any(folder in path for folder in saved):
                    assert stored[path] == data
        elif moment < CHANGES:
            with pytest.raises(McvrpError, match="belongs to process 7 on far"):
                first.save(step, keep, confirm)
            assert files(store) == left
        else:
            first.save(step, keep, confirm)
            assert confirmations == CHANGES
            assert last(store) == step
