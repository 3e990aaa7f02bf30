"""A trainer that lost its lease makes no further change, and a damaged checkpoint costs its steps only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.storage import layout
from mcvrp.storage.store import lease
from mcvrp.storage.store.errors import LeaseLost
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import OPTIMIZER, checkpoints
from mcvrp.tasks.train import phases as stage
from tests.integration.tasks.train.conftest import Here
from tests.support.datasets import everything
from tests.support.training import CITY, StoppedHere, small_spec

SPEC = small_spec(run="run", checkpoint_every=5)


def train(store: Store, launch: stage.Launcher, **changes: object) -> stage.PhaseSummary:
    spec = SPEC.model_copy(update=changes)
    return stage.train_phase(store, CITY, spec, "I", Path(f"{store.uri}-cache"), launch)


def take_over(store: Store, launch: stage.Launcher, **changes: object) -> None:
    """Train while the lease of the owner looks stale."""
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(StoppedHere):
        patch.setattr(lease, "TTL_SECONDS", 0.0)
        train(store, launch, **changes)


@pytest.mark.parametrize(
    ("happens", "kept"),
    [
        (lambda store, here: take_over(store, here()), [10, 12]),
        # before the step that the other trainer has reached
        (lambda store, here: take_over(store, here(stop_at=4), checkpoint_every=3), [3]),
    ],
    ids=["finish", "stop early"],
)
def test_a_trainer_that_lost_its_lease_saves_nothing_more(
    store: Store,
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Store, Here], None],
    kept: list[int],
) -> None:
    """The files of its successor stay byte for byte; the trainer ends with an error."""
    confirm, left = Lease.confirm, dict[str, bytes]()

    def late(self: Lease) -> None:
        if not left:
            left["now"] = b""
            happens(store, here)
            left.update(everything(store, layout.run_dir(SPEC.run)))
        confirm(self)

    monkeypatch.setattr(Lease, "confirm", late)
    with pytest.raises(LeaseLost, match=r"belongs to .*: .* this one stops"):
        train(store, here())
    assert everything(store, layout.run_dir(SPEC.run)) | {"now": b""} == left
    assert [state.step for state in checkpoints(store, SPEC.run, "I")] == kept
    again = train(store, here())
    assert (again.began_at, again.steps) == (max(kept, default=0), 12)


@pytest.mark.parametrize("stop_at", [11, 7], ids=["one before", "the only one"])
def test_a_damaged_last_checkpoint_falls_back_to_the_one_before(
    stop_at: int, store: Store, here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a power failure: it is named and deleted, and the end is the same."""
    train(store, here(), run="whole")
    with contextlib.suppress(StoppedHere):
        train(store, here(stop_at=stop_at))
    *_, state = checkpoints(store, SPEC.run, "I")
    path = f"{state.folder}/{OPTIMIZER}"
    data = store.get(path)
    store.put(path, bytes(len(data)))
    train(store, here())
    assert [line for line in caplog.messages if f"{state.folder} is corrupt: it is deleted" in line]
    (one,), (two,) = (checkpoints(store, run, "I")[-1:] for run in ("whole", SPEC.run))
    assert one.files == two.files
