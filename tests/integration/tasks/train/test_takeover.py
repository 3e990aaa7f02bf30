"""A trainer that lost its lease during an outage of the store makes no further change."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.lease import Holder
from mcvrp.storage.store.store import Store, StoreUnavailable
from mcvrp.storage.training.checkpoints import checkpoints
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import RankEvent, Warned
from tests.integration.tasks.train.conftest import Here
from tests.support.training import CITY, StoppedHere, small_spec

SPEC = small_spec(run="run", checkpoint_every=5)
LEASE = layout.trainer_lease(SPEC.run)


def train(store: Store, launch: stage.Launcher, **changes: object) -> stage.PhaseSummary:
    spec = SPEC.model_copy(update=changes)
    return stage.train_phase(store, CITY, spec, "I", Path(f"{store.uri}-cache"), launch)


def files_but_lease(store: Store) -> dict[str, bytes]:
    return {path: store.get(path) for path in store.list(layout.run_dir(SPEC.run)) if path != LEASE}


def take_over(store: Store, launch: stage.Launcher, **changes: object) -> None:
    """Train while the holder of the lease looks dead, like one without heartbeats."""
    holder = Holder.decode(store.get(LEASE))
    store.put(LEASE, replace(holder, started="before").encode())
    with contextlib.suppress(StoppedHere):
        train(store, launch, **changes)


@pytest.mark.parametrize(
    ("happens", "kept"),
    [
        (lambda store, here: take_over(store, here()), [10, 12]),
        # before the step that the other trainer has reached
        (lambda store, here: take_over(store, here(stop_at=4), checkpoint_every=3), [3]),
        (lambda store, here: store.delete(LEASE), []),  # as a user does
    ],
    ids=["finish", "stop early", "remove"],
)
def test_a_trainer_that_lost_its_lease_saves_nothing_more(
    store: Store,
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Store, Here], None],
    kept: list[int],
) -> None:
    """The files of its successor stay byte for byte; the trainer ends with an error."""
    put, silent, left = Store.put, [True], dict[str, bytes]()

    def no_answer(self: Store, path: str, data: bytes) -> None:
        if silent and "/step-" in path:
            raise StoreUnavailable("no answer")
        put(self, path, data)

    def hear(event: RankEvent) -> None:
        if isinstance(event, Warned) and silent:
            silent.clear()
            happens(store, here)
            left.update(files_but_lease(store))

    monkeypatch.setattr(Store, "put", no_answer)
    monkeypatch.setattr("mcvrp.storage.store.retry._FIRST_WAIT", 0.01)
    # a heartbeat may see the successor, or that it has ended and removed the lease
    with pytest.raises(McvrpError, match=r"(now names .*|has been removed): .* this one stops"):
        train(store, here(hear=hear))
    assert files_but_lease(store) == left
    assert [state.step for state in checkpoints(store, SPEC.run, "I")] == kept
    again = train(store, here())
    assert (again.began_at, again.step) == (max(kept, default=0), 12)
