"""Portfolio that routes a day: searches and a model side by side, on all cores, until the time limit.

Each member is a program of its own, so that it can be ended at any moment. The cheapest routes win, whichever
member finds them; the savings routes are there at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solve.limits import limits_text
from mcvrp.tasks.solve.member import Found, Member
from mcvrp.tasks.solvers.solver import Limits, SolverFailed
from mcvrp.tasks.support.processes import Child, receive, send
from mcvrp.tasks.support.progress import Progress, duration
from mcvrp.tasks.support.text import length_text

SAVINGS = "a quick first plan"
_LEAST_SHARE = 0.5  # of the time limit for the search, however long the start-up took
_WAITED = 30.0  # seconds beyond the time limit for the first routes, which a busy machine may need
_MARGIN = 0.1  # seconds before the end at which members finish their last slice
_LOOK_SECONDS = 0.2  # between two looks at the clock
_PATIENCE, _PATIENCE_A_CUSTOMER = 3.0, 0.04  # see `Portfolio._settled`


@dataclass(frozen=True)
class Finding:
    """The best routes of one member, and when they were found."""

    by: str
    cost: float  # in the city's unit
    routes: int
    seconds: float  # since the search began
    samples: int = 0  # of a model
    best_sample: float | None = None  # cost of the best of them, before local search


@dataclass(frozen=True)
class Searched:
    """What a search has done: the best of each member, the cheapest first, and what went wrong."""

    findings: tuple[Finding, ...]
    start_up: float  # wall-clock seconds before the search
    seconds: float  # of the search
    notes: tuple[str, ...] = ()  # interruption, and members without routes, one sentence each
    failures: tuple[str, ...] = ()  # members that failed, with the reasons


@dataclass
class Portfolio:
    """Search for the cheapest routes of a day within its limits.

    ``time_limit`` is wall-clock time from ``began``, by `time.monotonic`. The search ends before if all
    members were heard and nothing has improved for long, unless it is ``patient``.
    """

    city: City
    instance: Instance
    limits: Limits
    time_limit: float
    began: float
    patient: bool = False
    solution: Solution | None = None  # the cheapest within the limits
    findings: dict[str, Finding] = field(default_factory=dict)  # by member
    failures: dict[str, str] = field(default_factory=dict)  # reasons, by member
    silent: list[str] = field(default_factory=list)  # members that have found nothing
    interrupted: bool = False
    seconds: float = 0.0  # of the search
    _start: float = field(default_factory=time.monotonic)
    _least: float = float("inf")
    _heard: dict[str, float] = field(default_factory=dict)  # seconds of the search, by member
    _improved: float = 0.0  # seconds of the search at the last improvement

    @property
    def start_up(self) -> float:
        """Seconds before the search began."""
        return self._start - self.began

    @property
    def span(self) -> float:
        """Seconds for the search."""
        return max(self.time_limit - self.start_up, self.time_limit * _LEAST_SHARE)

    def take(self, found: Found) -> None:
        """Take what a member has found; routes that break a limit or are infeasible are left out."""
        solution = found.solution
        if solution is None or infeasibility(self.instance, solution):
            return
        if self.limits.broken(self.city, solution):
            return
        price, now, best = cost(self.city, solution), self._elapsed(), self.findings.get(found.by)
        if best is None or price < best.cost:
            best = Finding(found.by, price, len(solution.routes), now)
        self.findings[found.by] = replace(best, samples=found.samples, best_sample=found.sampled)
        if price < self._least:
            self.solution, self._least, self._improved = canonical(self.city, solution), price, now

    def search(self, members: Sequence[Member], label: str) -> Solution:
        """Return the cheapest routes; SolverFailed if none within the limits are found in time.

        A member that ends with an error, or sends nothing in time, is one of the ``failures``. Ctrl-C ends
        the search and leaves the best so far; without any it is raised.
        """
        span = self.span
        until = time.monotonic() + span
        with contextlib.ExitStack() as stack:
            running: dict[Connection, tuple[Child, Member]] = {}
            progress = stack.enter_context(Progress(label, max(1, round(span)), "s"))
            try:
                for member in members:
                    child = Child("mcvrp.tasks.solve.member")
                    stack.callback(child.stop, grace=0.0)
                    running[child.connection] = child, member
                # The model, the first, has the whole city: sending a large matrix would delay the others.
                for connection, (_, member) in reversed(running.items()):
                    with contextlib.suppress(OSError):  # its end is seen below
                        send(connection, (member, until - min(_MARGIN, span / 4)))
                while running and not self._settled(until, members):
                    self._receive(running, until)
                    progress.update(min(int(self._elapsed()), progress.total), self._note())
                progress.total = min(progress.total, max(1, round(self._elapsed())))  # it may end early
                progress.update(progress.total)
            except KeyboardInterrupt:
                if self.solution is None:
                    raise
                self.interrupted = True
        self.seconds = self._elapsed()
        if self.solution is None:
            raise SolverFailed(self._no_routes())
        for each in members:
            if each.label not in self._heard and not self.interrupted:
                self.failures[each.label] = self._late()
            elif each.label not in {*self.findings, *self.failures, *self.silent}:
                self.silent.append(each.label)
        return self.solution

    def searched(self, kept_cost: float = 0.0, kept_routes: int = 0) -> Searched:
        """Return what was done until now; costs and routes of findings include those that are kept."""
        took = duration(self.seconds)
        notes = [f"{label} has found no cheaper routes in {took}" for label in self.silent]
        if self.interrupted:
            notes.insert(0, f"interrupted after {took}: these are the best routes so far")
        findings = (
            replace(found, cost=found.cost + kept_cost, routes=found.routes + kept_routes)
            for found in sorted(self.findings.values(), key=lambda each: (each.cost, each.seconds))
        )
        failures = (f"{label}: {reason}" for label, reason in self.failures.items())
        return Searched(tuple(findings), self.start_up, self.seconds, tuple(notes), tuple(failures))

    def _receive(self, running: dict[Connection, tuple[Child, Member]], until: float) -> None:
        """Take what the ``running`` members send in the next moment; those that have ended are removed."""
        for connection in wait(list(running), min(_LOOK_SECONDS, abs(until - time.monotonic()))):
            assert isinstance(connection, Connection)
            child, member = running[connection]
            try:
                message = receive(connection)
            except (EOFError, OSError):
                message = SolverFailed(f"its process {child.death()}")
            self._heard.setdefault(member.label, self._elapsed())
            if isinstance(message, Found):
                self.take(message)
                continue
            del running[connection]
            if message is not None:
                self.failures[member.label] = str(message)

    def _settled(self, until: float, members: Sequence[Member]) -> bool:
        """Return whether the time is up, or all ``members`` were heard and nothing has improved for long.

        That is, for 0.04 s per customer, and three times as long as from the first message of a member to the
        last improvement.
        """
        late = time.monotonic() - until
        if late >= 0:
            return self.solution is not None or late >= _WAITED
        heard = self._heard
        if self.patient or self.solution is None or not all(each.label in heard for each in members):
            return False
        searched = max(0.0, self._improved - min(heard.values()))
        patience = max(_PATIENCE * searched, _PATIENCE_A_CUSTOMER * self.instance.n)
        return self._elapsed() > max(self._improved, *heard.values()) + patience

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _note(self) -> str:
        if self.solution is None:
            return "no routes within the limits yet"
        return f"best {length_text(self._least, self.city.unit)}"

    def _late(self) -> str:
        return (
            f"still starting after {duration(self.seconds)}, at the time limit of {self.time_limit:g} s: "
            "increase it"
        )

    def _no_routes(self) -> str:
        if self.limits.given:
            limits = limits_text(self.limits, self.city.unit)
            return (
                f"no routes within {limits} were found in {self.time_limit:g} s: increase the time limit or "
                "the limit, or leave customers out (--drop)"
            )
        waited = f"no routes were found in {self.time_limit:g} s: increase the time limit"
        return "; ".join(f"{label}: {why}" for label, why in self.failures.items()) or waited
