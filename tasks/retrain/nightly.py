"""A night: fresh routes are taken, the champion is tuned on them, and its successor promoted, or not and why.

A night is named by what goes in, and without new days there is none.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcvrp.model.problem import City
from mcvrp.storage.driven import StoredDay, read_day
from mcvrp.storage.layout import NIGHT
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.retrain.drift import drift
from mcvrp.tasks.retrain.labels import drawn, repeats, write_mix
from mcvrp.tasks.retrain.measured import Measured
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.retrain.trial import Trial, run_trial, trial_context
from mcvrp.tasks.train.phases import Launcher


@dataclass(frozen=True)
class NightSummary:
    """Outcome of a night.

    Parameters
    ----------
    taken
        The route files that were new.
    record
        What was decided, of the last night where this one had nothing to do; None before the first.
    measured
        Its figures; None where there were no new days to learn from.
    """

    taken: Taken
    record: TrialRecord | None
    measured: Measured | None = None

    @property
    def new(self) -> bool:
        """True where there were new days to learn from."""
        return self.measured is not None


def run_night(
    store: Store,
    name: str,
    city: City,
    nodes: Mapping[str, int],
    spec: NightlySpec,
    cache: Path,
    *,
    today: datetime.date,
    launch: Launcher | None = None,
) -> NightSummary:
    """Take fresh routes; where they bring days to learn from, tune, compare, and promote or say why not.

    Run again, it changes nothing; stopped anywhere, it goes on from there.

    Parameters
    ----------
    name
        Of the city in the store.
    nodes
        The city's node of each customer's name.
    cache
        A folder of this machine for labels as training reads them.
    today
        Later days are not believed.
    launch
        As in `tasks.train.phases.train`.

    Raises
    ------
    McvrpError
        If there is no champion or it is another city's, days are, the model is being retrained by
        somebody else, or the champion was moved meanwhile.
    IncompleteError
        If training was cut off; running again goes on.
    """
    with trial_context(store, city, spec) as context:
        last = context.nights[-1] if context.nights else None
        taken = take_routes(
            store, name, city, nodes, today=today, incoming=spec.incoming, quiet_seconds=spec.quiet_seconds
        )
        learn, compare = _apart(taken.stored, spec.held_out_every)
        sums = tuple(day.name for day in learn)
        if not learn or (last and set(sums) <= set(last.days)):  # the last night has learned from all of them
            return NightSummary(taken, last)
        night = context.name(
            store, NIGHT, [*sums, spec.model_dump_json(exclude={"incoming", "quiet_seconds", "ranks"})]
        )
        old = list(drawn(store, context.old, spec.replay, (night,), context.known(store)))
        days = [read_day(store, name, day.date) for day in learn]
        fresh = [(day.date.isoformat(), read_day(store, name, day.date)) for day in compare]
        times = repeats(len(days), len(old), spec.fresh_share, spec.most_repeats)
        driven = [label.instance for label in [*days, *(label for _, label in fresh)]]
        trial = Trial(
            name=night,
            number=last.number + 1 if last else 1,
            mix=write_mix(store, city, night, old, days, times),
            days=sums,
            fresh=fresh,
            drift=drift(city, [label.instance for label in old], driven),
        )
        return NightSummary(taken, *run_trial(store, city, spec, context, trial, cache, launch))


def _apart(days: Sequence[StoredDay], every: int) -> tuple[list[StoredDay], list[StoredDay]]:
    """Return the days to learn from and those to compare on: one in ``every``, by a hash of its date."""
    learn, compare = list[StoredDay](), list[StoredDay]()
    for day in days:
        digest = hashlib.sha256(day.date.isoformat().encode()).digest()
        # of the date alone: a day stays on its side however many more there are
        (learn if int.from_bytes(digest[:8], "big") % every else compare).append(day)
    return learn, compare
