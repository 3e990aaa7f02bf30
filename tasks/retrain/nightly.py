"""A night: take driven routes, fine-tune the champion on them, promote or reject the challenger."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.driven import StoredDay
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import SOLVED, Label
from mcvrp.storage.nights import NightRecord
from mcvrp.storage.provenance import Parent
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.retrain.beam import by_beam, gains
from mcvrp.tasks.retrain.card import NightMetrics, read_metrics
from mcvrp.tasks.retrain.compare import first_instance, rules_of
from mcvrp.tasks.retrain.labels import best_known, drawn, key_of, repeats, write_mix
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.retrain.trial import UNNAMED, Trial, TrialContext, run_trial, trial_context
from mcvrp.tasks.train.phases import Launcher

_NOBODY = "nobody"  # solver of instances without routes
_COMPARISON = {*UNNAMED, "sizes", "instances", "samples", "p", "alpha", "worst"}  # fields, none of training


@dataclass(frozen=True)
class NightSummary:
    """Summary of a night: files that it took, the ``champion``'s version after it, its decision and metrics.

    Without new days it has neither decision nor metrics.
    """

    city: str
    taken: Taken
    champion: int
    record: NightRecord | None = None
    measured: NightMetrics | None = None


def run_night(
    store: Store,
    city: StoredCity,
    spec: NightlySpec,
    cache: Path,
    *,
    today: datetime.date,
    launch: Launcher | None = None,
) -> NightSummary:
    """Take driven routes; if they bring new days, run a trial on them, otherwise see `_again`.

    A repeated call changes nothing, an interrupted night is resumed. Days after ``today`` are rejected;
    ``cache`` and ``launch`` are those of `tasks.train.phases.train`. Raises as `trial_context`, `take_routes`
    and `run_trial`.
    """
    with trial_context(store, city, spec) as context:
        last = context.nights[-1] if context.nights else None
        taken, days = take_routes(store, city, today=today, incoming=spec.incoming)
        learned, held_out = _split(days, spec.held_out_every)
        trial = None
        if last and {day.name for day in learned} <= set(last.days):
            trial = _again(context, last)
        elif learned:
            trial = _trial(context, last.number + 1 if last else 1, learned)
        if trial is None:
            return NightSummary(city.name, taken, context.champion.version)
        fresh = [(day.date.isoformat(), day.label) for day in held_out]
        record, measured = run_trial(context, trial, fresh, cache, launch)
        return NightSummary(city.name, taken, record.now, record, measured)


def _unserved(context: TrialContext, night: str, count: int) -> list[Label]:
    """Return ``count`` instances like those of the old labels, each customer on a route of its own."""
    store, city = context.store, context.city
    stream = InstanceStream(city, context.spec.seed, "train", rules_of(store, city, context.old))
    sizes, first = Dataset.listed(store, context.old).sizes(), first_instance(night)
    if not sizes:
        return []
    instances = (stream(sizes[k % len(sizes)], first + k // len(sizes)) for k in range(count))
    routes = ((each, Solution.of([[node] for node in each.ids.tolist()])) for each in instances)
    return [
        Label(0, each, solution, cost(city, solution), SOLVED, _NOBODY, "", 0, "", 0.0, "")
        for each, solution in routes
    ]


def _split(days: Sequence[StoredDay], every: int) -> tuple[list[StoredDay], list[StoredDay]]:
    """Return the days to learn from and the held-out ones: one in ``every``, by a hash of its date."""
    # by the date alone, so that a day stays on its side however many days are added
    learned, held_out = list[StoredDay](), list[StoredDay]()
    for day in days:
        digest = hashlib.sha256(day.date.isoformat().encode()).digest()
        (learned if int.from_bytes(digest[:8], "big") % every else held_out).append(day)
    return learned, held_out


def _again(context: TrialContext, last: NightRecord) -> Trial | None:
    """Return a trial of the challenger of the ``last`` night on new instances, of another number.

    None if it was tested: a second test would promote too often by chance.
    """
    store, spec = context.store, context.spec
    metrics = read_metrics(store, spec.model, last.name)
    before, now = store.get_json(layout.night_spec(spec.model, last.name)), spec.model_dump(mode="json")
    changed = {field for field in before | now if before.get(field) != now.get(field)}
    tested = metrics.p_values or len(last.reasons) > 1 or context.champion.version != last.champion
    if tested or not {"instances"} <= changed <= _COMPARISON:
        return None
    return Trial(context.night_of(last.days), last.number + 1, metrics.mix, last.days)


def _trial(context: TrialContext, number: int, learned: Sequence[StoredDay]) -> Trial:
    store, spec, names = context.store, context.spec, tuple(day.name for day in learned)
    night = context.night_of(names)
    known = best_known(store, spec.model, context.nights_of_old)
    old = list(drawn(store, context.old, spec.replay, night, known))
    days = [day.label for day in learned]
    gained = None
    if spec.beam:
        best = [*(known.get(key_of(day.instance), day) for day in days), *old]
        better = by_beam(context, night, [*best, *_unserved(context, night, spec.replay - len(old))])
        gained = gains([*days, *old], better[: len(best)])
        days, old = better[: len(days)], better[len(days) :]
        old = [label for label in old if label.solver != _NOBODY]
    parents = context.old_labels, Parent(layout.driven_dir(context.stored_city.name))
    times = repeats(len(days), len(old), spec.fresh_share, spec.most_repeats)
    mix = write_mix(store, context.city, night, parents, old, days, times)
    return Trial(night, number, mix, names, gained)
