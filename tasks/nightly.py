"""A night: fresh routes are taken, the champion is tuned on them, and its successor promoted, or not and why.

Every step finds what an earlier try of the same night has done: labels, checkpoints, the
published version, the comparison. A night is named by what goes in, and without new days there is none.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from model.errors import McvrpError
from model.instances import InstanceStream, Rules
from model.problem import City, Instance
from storage.driven import driven_days, read_day
from storage.labels import sizes
from storage.layout import label_spec, night_lease
from storage.lease import holding
from storage.manifest import fingerprint
from storage.models import ModelCard, load_model, model_card
from storage.nights import (
    NightRecord,
    last_night,
    mark_applied,
    read_pairs,
    write_pairs,
    write_record,
)
from storage.registry import pointer, promote
from storage.schemas import Label
from storage.store import Store
from tasks.drift import Drift, drift
from tasks.driven import Taken, take_routes
from tasks.label_source import stored_spec
from tasks.night_compare import COLUMNS, FRESH, FROZEN, Decision, decide
from tasks.night_mix import Mix, drawn, repeats, write_mix
from tasks.nightly_spec import NightlySpec
from tasks.progress import Progress
from tasks.terminal import say
from tasks.train import Launcher, train
from tasks.train_spec import NetworkSpec, PhaseSpec, TrainSpec

_NIGHT = "night-"  # begins the names of nights, of their datasets and of their training runs
_FROZEN_SIZES = 3  # where the spec names none


@dataclass(frozen=True)
class NightSummary:
    """What a night has done.

    Parameters
    ----------
    taken
        The route files that were new.
    record
        What was decided, of the last night where this one had nothing to do; None before the first.
    new
        Whether there were new days to learn from.
    mix, drift, decision
        Of this night; None and () where there were no new days.
    """

    taken: Taken
    record: NightRecord | None
    new: bool
    mix: Mix | None = None
    drift: tuple[Drift, ...] = ()
    decision: Decision | None = None


@dataclass(frozen=True)
class _Days:
    """The days known so far, apart: to learn from, and to compare on; ``sums`` are the former's checksums."""

    learn: list[Label]
    compare: list[tuple[str, Label]]
    sums: tuple[str, ...]


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
        As in `tasks.train.train`.

    Raises
    ------
    McvrpError
        If there is no champion or it is another city's, another night of this model is at work, or
        somebody else has moved an alias meanwhile.
    IncompleteError
        If training was cut off; running again goes on.
    """
    what = f"model {spec.model!r} is being retrained"
    with holding(store, night_lease(spec.model), what, say=say):
        taken = take_routes(store, name, city, nodes, today=today, incoming=spec.incoming)
        last = _finished(store, spec.model)
        days = _days(store, name, city, spec.held_out_every)
        if not days.learn or (last and set(days.sums) <= set(last.days)):
            return NightSummary(taken, last, new=False)
        champion = _champion(store, city, spec.model)
        dataset = _old_dataset(spec, champion, last)
        night = _night(store, champion, dataset, days, spec)
        old = list(drawn(store, dataset, spec.replay, (night,)))
        times = repeats(len(days.learn), len(old), spec.fresh_share, spec.most_repeats)
        mix = write_mix(store, city, night, days.learn, old, times)
        challenger = train(store, city, _tuning(spec, champion, mix, night), cache, launch).model
        pairs = read_pairs(store, spec.model, night)
        if pairs is None:
            pairs = _pairs(store, city, spec, dataset, (champion, challenger), days.compare)
            write_pairs(store, spec.model, night, pairs)
        decision = decide(pairs, alpha=spec.alpha, worst=spec.worst)
        record = NightRecord(
            night,
            last.number + 1 if last else 1,
            champion.version,
            challenger.version,
            days.sums,
            dataset,
            decision.promote,
            decision.reasons,
        )
        write_record(store, spec.model, record)
        record = _applied(store, spec.model, record)
        fresh = [label.instance for label in [*days.learn, *(label for _, label in days.compare)]]
        moved = drift(city, [label.instance for label in old], fresh)
        return NightSummary(taken, record, True, mix, moved, decision)


def check_night(store: Store, city: City, spec: NightlySpec) -> None:
    """Check what can be checked before any work: the champion, and the sizes that it is measured on.

    Raises
    ------
    McvrpError
        If there is no champion, it is another city's, or a size is beyond the city.
    """
    _champion(store, city, spec.model)
    if spec.sizes and spec.sizes[-1] > city.customers:
        raise McvrpError(
            f"nightly.sizes has {spec.sizes[-1]}, the city has {city.customers} customers: ask for no more"
        )


def _finished(store: Store, model: str) -> NightRecord | None:
    """Return the last night's record, its decision carried out where that was cut off."""
    last = last_night(store, model)
    return _applied(store, model, last) if last else None


def _applied(store: Store, model: str, record: NightRecord) -> NightRecord:
    """Move the alias as ``record`` says, once; where somebody else has moved one since, leave them alone."""
    if not record.promote or record.applied:
        return record
    champion, challenger = pointer(store, model, "champion"), pointer(store, model, "challenger")
    if champion.version != record.challenger:  # else it was moved, and only the mark is missing
        if (champion.version, challenger.version) != (record.champion, record.challenger):
            moved = "somebody else has moved an alias since: it is left where it is"
            return write_record(
                store, model, replace(record, promote=False, reasons=(*record.reasons, moved))
            )
        promote(store, model, champion, challenger, f"{record.night}: {'; '.join(record.reasons)}")
    return mark_applied(store, model, record)


def _days(store: Store, name: str, city: City, every: int) -> _Days:
    """Read all days; one in ``every``, by a hash of its date, is for comparing."""
    learn, compare, sums = [], [], []
    for date, source in driven_days(store, name):
        label = read_day(store, name, date)
        label = replace(label, instance=replace(label.instance, city_id=city.city_id))
        digest = hashlib.sha256(date.isoformat().encode()).digest()
        if int.from_bytes(digest[:8], "big") % every == 0:
            compare.append((date.isoformat(), label))
        else:
            learn.append(label)
            sums.append(f"{date.isoformat()} {source}")
    return _Days(learn, compare, tuple(sums))


def _champion(store: Store, city: City, model: str) -> ModelCard:
    card = model_card(store, model, "champion")
    card.require_city(city)
    return card


def _old_dataset(spec: NightlySpec, champion: ModelCard, last: NightRecord | None) -> str:
    """Return where old labels are drawn from: a champion of the night has learned from few of them itself."""
    of_night = last is not None and champion.run.startswith(_NIGHT)
    return spec.old or (last.old if last and of_night else champion.dataset)


def _night(store: Store, champion: ModelCard, dataset: str, days: _Days, spec: NightlySpec) -> str:
    parts = [
        champion.weights_sha256,
        fingerprint(store, dataset),
        *days.sums,
        spec.model_dump_json(exclude={"incoming", "ranks"}),
    ]
    return f"{_NIGHT}{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"


def _tuning(spec: NightlySpec, champion: ModelCard, mix: Mix, night: str) -> TrainSpec:
    network = {name: value for name, value in champion.network.items() if name != "classes"}
    phase = PhaseSpec(
        name="tune",
        first=max(mix.rows),
        last=max(mix.rows),
        passes=spec.passes,
        schedule="cosine",
        lr=spec.lr,
        warmup=spec.warmup,
        rotation=champion.rotation_trained,
        gaps=True,
    )
    return TrainSpec(
        run=night,
        dataset=mix.dataset,
        model=spec.model,
        base=f"{champion.name}@{champion.version}",
        network=NetworkSpec(**network),
        phases=(phase,),
        smallest=min(mix.rows),
        seed=spec.seed,
        batch=min(spec.batch, spec.passes * sum(mix.rows.values())),
        ranks=spec.ranks,
        log_every=1,
    )


# Comparing ------------------------------------------------------------------------------------


def _pairs(
    store: Store,
    city: City,
    spec: NightlySpec,
    dataset: str,
    cards: tuple[ModelCard, ModelCard],
    fresh: Sequence[tuple[str, Label]],
) -> pd.DataFrame:
    """Return the costs of champion and challenger on the frozen instances and on the days kept for this."""
    stream = InstanceStream(city, spec.seed, "test", _rules(store, city, dataset))
    rows = [
        (FROZEN, stream(n, i), f"(n={n}, i={i})")
        for n in spec.sizes or _frozen_sizes(store, dataset)
        for i in range(spec.instances)
    ]
    rows += [(FRESH, label.instance, date) for date, label in fresh]
    instances = [instance for _, instance, _ in rows]
    costs = [list(_costs(store, city, spec, card, instances)) for card in cards]
    named = [(part, instance.n, name) for part, instance, name in rows]
    return pd.DataFrame(named, columns=list(COLUMNS[:3])).assign(champion=costs[0], challenger=costs[1])


def _rules(store: Store, city: City, dataset: str) -> Rules:
    """Return how the orders of the old labels were drawn; where nothing says so, as the city has them."""
    if not store.exists(label_spec(dataset)):
        return Rules.of(city, None, None)
    return stored_spec(store, dataset)[0].in_city(city).rules


def _frozen_sizes(store: Store, dataset: str) -> list[int]:
    """Return the smallest, a middle and the largest size of the old labels, which stay the same for years."""
    there = sizes(store, dataset)
    return sorted({there[(len(there) - 1) * k // (_FROZEN_SIZES - 1)] for k in range(_FROZEN_SIZES)})


def _costs(
    store: Store, city: City, spec: NightlySpec, card: ModelCard, instances: Sequence[Instance]
) -> Iterator[float]:
    """Yield the best cost of the samples on each instance; infinite where none is feasible."""
    from model.strategies import Nucleus
    from tasks.solvers.fm_mcvrp import FmMcvrpSolver

    network, _ = load_model(store, card.name, card.version)
    rotations = spec.samples if card.rotation_trained else 1
    solver = FmMcvrpSolver(network, Nucleus(spec.p), rotations=rotations)
    with Progress(f"compare, version {card.version}", len(instances), "instances") as progress:
        for answer in solver.solve(city, instances, samples=spec.samples, seed=spec.seed):
            progress.advance()
            yield float(np.min(answer.costs)) if answer.solution is not None else float("inf")
