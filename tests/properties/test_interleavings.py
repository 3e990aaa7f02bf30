"""All interleavings of the requests of several processes: leases and aliases, in a model of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import Move, enrol, move_champion, pointer, roll_back
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import StoreUnavailable
from tests.support.model_store import Actor, Fault, Model, use

TTL, FOLDER = 30.0, layout.driver_lease("d")
FAULTS = st.sampled_from([*[""] * 12, "lost", "refused", "retried", "killed"])
ACTORS, STEPS = st.integers(0, 5), st.sampled_from([1, 2, 4, 7, 12])
PAUSES = st.sampled_from([0.0, 0.0, 1.0, 31.0])  # seconds


class Machine(RuleBasedStateMachine):
    """Actors on one store; a rule lets one of them make its next request."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.model, self.actors = pytest.MonkeyPatch(), Model(), list[Actor]()
        use(self.model, self.patch)
        self.store = self.model.store()

    def begin(self, work: Callable[[], object]) -> None:
        self.actors.append(Actor(work))

    @rule(schedule=st.lists(st.tuples(ACTORS, STEPS, FAULTS, PAUSES), min_size=1, max_size=8))
    def proceed(self, schedule: list[tuple[int, int, Fault | Literal["killed"], float]]) -> None:
        for which, steps, fault, pause in schedule:
            self.model.now += pause
            alive = [actor for actor in self.actors if not actor.done]
            if not alive:
                return
            actor = alive[which % len(alive)]
            if fault == "killed":
                actor.kill()
                continue
            actor.step(fault)
            for _ in range(steps - 1):
                actor.step()
            if not isinstance(actor.error, McvrpError | None):
                raise actor.error

    def teardown(self) -> None:
        for actor in self.actors:
            actor.kill()
        self.patch.undo()


class Leases(Machine):
    """Owners that acquire, confirm and end a lease, some of them killed or asleep for long."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[int, list[int]] = {}  # of each number
        self.ended = set[int]()
        self.next = 0

    @rule(confirms=st.integers(3, 9))
    def start(self, confirms: int) -> None:
        name = self.next = self.next + 1

        def work() -> None:
            lease = Lease.acquire(self.store, FOLDER, "it is done", TTL)
            assert lease.number not in self.owners
            self.owners.setdefault(lease.number, []).append(name)
            for _ in range(confirms):
                before = self.highest
                try:
                    lease.confirm()
                except StoreUnavailable:
                    continue
                assert before <= lease.number, "it has kept a lease that another had when it asked"
            lease.end()
            self.ended.add(lease.number)

        self.begin(work)

    @property
    def highest(self) -> int:
        return max(self.owners, default=0)

    @invariant()
    def a_number_has_one_owner(self) -> None:
        assert all(len(owners) == 1 for owners in self.owners.values())

    @invariant()
    def the_highest_number_is_never_lost(self) -> None:
        files = self.store.numbered(FOLDER)
        assert max(files, default=0) >= self.highest

    def teardown(self) -> None:
        """Once all have ended or been killed and some time has passed, a newcomer gets the lease."""
        for actor in self.actors:
            actor.kill()
        self.model.now += 2 * TTL
        assert Lease.acquire(self.store, FOLDER, "it is done", TTL).number > self.highest
        super().teardown()


class Aliases(Machine):
    """Processes that publish, promote and roll back versions of a model."""

    def __init__(self) -> None:
        super().__init__()
        for version in range(1, 7):
            self.store.put_json(layout.model_card("m", version), {})
        self.promised: list[tuple[int, int, str]] = []  # number, version and reason
        self.refused = set[str]()  # reasons
        self.before: tuple[Move, ...] = ()

    @rule(version=st.integers(1, 6))
    def enrol(self, version: int) -> None:
        def work() -> None:
            enrol(self.store, "m", version)
            assert self.history()

        self.begin(work)

    @rule(version=st.integers(1, 6))
    def promote(self, version: int) -> None:
        actor = len(self.actors)

        def work() -> None:
            seen = pointer(self.store, "m", "champion")
            why = f"promotion of actor {actor}"
            try:
                move_champion(self.store, "m", version, seen, why)
            except StoreUnavailable:  # whether it has moved is unknown
                return
            except McvrpError:
                self.refused.add(why)
                return
            self.promised.append((seen.number + 1, version, why))

        self.begin(work)

    @rule()
    def roll_back(self) -> None:
        self.begin(lambda: roll_back(self.store, "m"))

    def history(self) -> tuple[Move, ...]:
        return pointer(self.store, "m", "champion").history

    @invariant()
    def no_move_is_lost_or_changed(self) -> None:
        history = self.history()
        assert history[: len(self.before)] == self.before
        self.before = history

    @invariant()
    def each_promotion_is_the_move_after_the_one_it_has_seen(self) -> None:
        history = self.history()
        for number, version, why in self.promised:
            assert (history[number - 1].version, history[number - 1].why) == (version, why)

    @invariant()
    def a_refused_promotion_is_no_move(self) -> None:
        assert self.refused.isdisjoint(move.why for move in self.history())

    @invariant()
    def a_former_champion_is_no_challenger(self) -> None:
        challenger = pointer(self.store, "m", "challenger").version
        assert challenger is None or all(move.version != challenger for move in self.history())


SETTINGS = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestLeases, TestAliases = Leases.TestCase, Aliases.TestCase
TestLeases.settings = TestAliases.settings = SETTINGS
