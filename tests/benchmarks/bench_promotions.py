"""Promotions by nights and rounds with policy-gradient tuning (bench_promotions STORE FOLDER).

Four cases, each on a copy of the demo's store, with the commands of users:

- better: one night after 600 days of HGS routes; the champion is trained on the routes of a sweep instead of
  driven ones.
- moved: one night after 600 days of HGS routes with all customers on one side of the town; the champion is
  trained on the whole town.
- same: one night after 600 days from the champion's training distribution.
- sweep: five rounds of improvement from the champion of "better", and the gap of each champion to HGS on 300
  held-out instances.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Greedy, Nucleus, decode
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance
from mcvrp.storage.cities import load_city
from mcvrp.storage.layout import NIGHT, ROUND
from mcvrp.storage.models.models import load_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records
from mcvrp.tasks.retrain.card import read_metrics
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from tests.benchmarks.common import Gap, arguments, hgs_costs, instances_of, row, timed_command
from tests.support.labels import put_routes, sweep
from tests.support.training import write_dataset

CITY, SWEPT, DAYS, SIZES = "laptop", "swept", 600, range(20, 25)
POLICY = ("policy.instances=32", "policy.samples=8", "policy.labels=0.4")
NIGHT_STEPS, ROUND_STEPS = 300, 150
PHASES = (
    "{name='I', first=20, last=24, trunc=1000, trains='encoder', lr=0.003}",
    "{name='II', first=24, last=24, passes=8, lr=0.002, schedule='knee', tail=0.5}",
)
INSTANCES = 100  # held out, of the sizes 20, 22 and 24 each


def days(city: City, side: bool) -> list[Instance]:
    """Return the orders of each day; with ``side``, of the western half of the town only."""
    whole = InstanceStream(city, 4711, "train")
    west = [int(node) for node in range(1, city.customers + 1) if city.xy[node, 0] < np.median(city.xy[:, 0])]
    instances = []
    for day in range(DAYS):
        instance = whole(SIZES[day % len(SIZES)], day)
        if side:
            ids = np.random.default_rng(day).choice(west, instance.n, replace=False)
            instance = Instance(
                city.city_id, np.sort(ids).astype(np.uint32), instance.demands, instance.capacity
            )
        instances.append(instance)
    return instances


def drive(store: Store, city: City, side: bool) -> None:
    driven = []
    for day, instance in enumerate(days(city, side)):
        hgs = HGS(**budget_for("thrifty", instance.n).options())
        date = str(np.datetime64("2026-03-01") + day)
        driven.append((date, instance, canonical(city, hgs.search(city, instance, 1))))
    put_routes(store, "incoming/days.csv", driven)


def gaps(store: Store, city: City, version: int, model: str) -> list[Gap]:
    """Return greedy and best-of-16 gap of a version to HGS, held-out instances, with standard errors."""
    network, _ = load_model(store, model, version)
    instances = [each for n in (20, 22, 24) for each in instances_of(city, n, INSTANCES, seed=99)]
    base = hgs_costs(city, instances)
    measured = []
    for strategy, samples in ((Greedy(), 1), (Nucleus(), 16)):
        decoded = decode(network, city, instances, strategy=strategy, samples=samples)
        measured.append(Gap.of([each.costs.min() for each in decoded], base))
    return measured


def print_decisions(store: Store, model: str, records: Sequence[TrialRecord]) -> None:
    for record in records:
        measured = read_metrics(store, model, record.name)
        change = "; ".join(f"{b.part} {b.sizes} {b.change:+.2f} %" for b in measured.buckets)
        p = ", ".join(f"{part} p = {value:.2g}" for part, value in measured.p_values.items())
        verb = "promoted" if record.applied else "not promoted"
        print(f"  version {record.challenger} {verb} ({p}): {change}; {measured.seconds:.0f} s", flush=True)


def learn_sweep(store: Store, folder: Path, city: City) -> None:
    """Publish SWEPT, a model that has learned from a sweep's routes alone."""
    write_dataset(store, city, SIZES, 2000, SWEPT, sweep)
    names = [f"train.{field}={SWEPT}" for field in ("run", "model", "dataset")]
    phases = f"train.phases=[{', '.join(PHASES)}]"
    options = (*names, f"label.dataset={SWEPT}", "train.held_out=", "label.held_out=0", phases)
    timed_command("train", CITY, folder, *options)


def night(folder: Path, case: str) -> None:
    """Drive, run a night, and print its decision and the gaps before and after."""
    store = Store.open(folder)
    city = load_city(store, CITY)
    model = CITY
    if case == "better":
        learn_sweep(store, folder, city)
        model = SWEPT
    drive(store, city, side=case == "moved")
    own = (f"model={model}", f"policy.steps={NIGHT_STEPS}", "quiet_seconds=0")
    seconds = timed_command("nightly", CITY, folder, *(f"nightly.{change}" for change in (*POLICY, *own)))
    print(f"{case}: a night, {seconds:.0f} s")
    print_decisions(store, model, list(trial_records(store, model, NIGHT)))
    print("version | greedy (%) | best of 16 (%)")
    for version in (1, 2):
        row(version, *gaps(store, city, version, model))


def rounds(folder: Path, case: str) -> None:
    """Train on a sweep's routes, then improve for five rounds; print each decision and champion."""
    store = Store.open(folder)
    city = load_city(store, CITY)
    learn_sweep(store, folder, city)
    print(f"{case}: champion | greedy (%) | best of 16 (%)")
    for number in range(6):
        champion = pointer(store, SWEPT, "champion").version
        assert champion is not None
        row(number, f"version {champion}", *gaps(store, city, champion, SWEPT))
        if number < 5:
            own = (f"policy.steps={ROUND_STEPS}", f"rounds={number + 1}", f"model={SWEPT}", "count=2000")
            changes = (*POLICY, *own, "instances=100")
            timed_command("improve", CITY, folder, *(f"improve.{change}" for change in changes))
            print_decisions(store, SWEPT, list(trial_records(store, SWEPT, ROUND))[-1:])


def main() -> None:
    cases: dict[str, Callable[[Path, str], None]] = dict.fromkeys(("better", "moved", "same"), night)
    cases["sweep"] = rounds
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path, help="a store in which the demo has run")
    parser.add_argument("folder", type=Path, help="where the copies go")
    parser.add_argument("--case", choices=list(cases), action="append", help="only this one (repeatable)")
    args = parser.parse_args()
    for case in args.case or cases:
        copy = args.folder / case
        shutil.copytree(args.store, copy, dirs_exist_ok=True)
        cases[case](copy, case)


if __name__ == "__main__":
    main()
