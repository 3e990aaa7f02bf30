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

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.decoding import Greedy, Nucleus, decode
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.cities import load_city
from mcvrp.storage.layout import NIGHT, ROUND
from mcvrp.storage.models.models import load_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records
from mcvrp.tasks.retrain.card import read_metrics
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from tests.support.sweep import sweep
from tests.support.training import write_dataset

CITY, SWEPT, DAYS, SIZES = "laptop", "swept", 600, range(20, 25)
POLICY = ("policy.instances=32", "policy.samples=8", "policy.labels=0.4")
NIGHT_STEPS, ROUND_STEPS = 300, 150
PHASES = (
    "{name='I', first=20, last=24, trunc=1000, trains='encoder', lr=0.003}",
    "{name='II', first=24, last=24, passes=8, lr=0.002, schedule='knee', tail=0.5}",
)
INSTANCES = 100  # held out, of the sizes 20, 22 and 24 each


def solved(city: City, instance: Instance) -> Solution:
    return canonical(city, HGS(**budget_for("thrifty", instance.n).options()).search(city, instance, 1))


def days(city: City, side: bool) -> list[Instance]:
    """Return the orders of each day; with ``side``, of the western half of the town only."""
    whole = InstanceStream(city, 4711, "train")
    west = [int(node) for node in range(1, city.customers + 1) if city.xy[node, 0] < np.median(city.xy[:, 0])]
    found = []
    for day in range(DAYS):
        instance = whole(SIZES[day % len(SIZES)], day)
        if side:
            ids = np.random.default_rng(day).choice(west, instance.n, replace=False)
            instance = Instance(
                city.city_id, np.sort(ids).astype(np.uint32), instance.demands, instance.capacity
            )
        found.append(instance)
    return found


def drive(store: Store, city: City, side: bool) -> None:
    """Put the routes of all days into the incoming folder."""
    lines = ["date,route,stop,customer,demand,capacity"]
    for day, instance in enumerate(days(city, side)):
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        date = np.datetime64("2026-03-01") + day
        for k, route in enumerate(solved(city, instance).routes):
            lines += [
                f"{date},{k},{stop},{node},{demand[node]},{instance.capacity}"
                for stop, node in enumerate(route, 1)
            ]
    store.put("incoming/days.csv", ("\n".join(lines) + "\n").encode())


def run(store: Path, command: str, *changes: str) -> float:
    """Run a command of users on ``store``; return its wall-clock seconds."""
    began = time.monotonic()
    options = [part for change in changes for part in ("--set", change)]
    program = [str(Path(sys.executable).with_name("mcvrp")), command, "--preset", CITY, "--store", str(store)]
    subprocess.run([*program, *options], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def gaps(store: Store, city: City, version: int, model: str) -> str:
    """Return greedy and best-of-16 gap of a version to HGS, held-out instances, with standard errors."""
    network, _ = load_model(store, model, version)
    stream = InstanceStream(city, 99, "test")
    instances = [stream(n, i) for n in (20, 22, 24) for i in range(INSTANCES)]
    solver = HGS(**budget_for("converged", 24).options())
    costs = np.array([cost(city, solver.search(city, instance, 1)) for instance in instances])
    shown = []
    for strategy, samples in ((Greedy(), 1), (Nucleus(), 16)):
        found = decode(network, city, instances, strategy=strategy, samples=samples)
        gap = 100 * (np.array([each.costs.min() for each in found]) / costs - 1)
        shown.append(f"{gap.mean():.2f} ± {gap.std() / len(gap) ** 0.5:.2f}")
    return " | ".join(shown)


def told(store: Store, model: str, records: Sequence[TrialRecord]) -> None:
    """Print what each trial has decided."""
    for record in records:
        measured = read_metrics(store, model, record.name)
        change = "; ".join(f"{b.part} {b.sizes} {b.change:+.2f} %" for b in measured.buckets)
        p = ", ".join(f"{part} p = {value:.2g}" for part, value in measured.p_values.items())
        verb = "promoted" if record.applied else "not promoted"
        print(f"  version {record.challenger} {verb} ({p}): {change}; {measured.seconds:.0f} s", flush=True)


def learn_sweep(there: Store, store: Path, city: City) -> None:
    """Publish SWEPT, a model that has learned from a sweep's routes alone."""
    write_dataset(there, city, SIZES, 2000, SWEPT, sweep)
    fields = ("run", "model", "dataset")
    named = [f"train.{field}={SWEPT}" for field in fields] + [f"label.dataset={SWEPT}"]
    run(store, "train", *named, "train.held_out=", "label.held_out=0", f"train.phases=[{', '.join(PHASES)}]")


def night(store: Path, case: str) -> None:
    """Drive, run a night, and print its decision and the gaps before and after."""
    there = Store.open(store)
    city = load_city(there, CITY)
    model = CITY
    if case == "better":
        learn_sweep(there, store, city)
        model = SWEPT
    drive(there, city, side=case == "moved")
    own = (f"model={model}", f"policy.steps={NIGHT_STEPS}", "quiet_seconds=0")
    seconds = run(store, "nightly", *(f"nightly.{change}" for change in (*POLICY, *own)))
    print(f"{case}: a night, {seconds:.0f} s")
    told(there, model, list(trial_records(there, model, NIGHT)))
    print("version | greedy (%) | best of 16 (%)")
    for version in (1, 2):
        print(f"| {version} | {gaps(there, city, version, model)} |", flush=True)


def rounds(store: Path) -> None:
    """Train on a sweep's routes, then improve for five rounds; print each decision and champion."""
    there = Store.open(store)
    city = load_city(there, CITY)
    learn_sweep(there, store, city)
    print("sweep: champion | greedy (%) | best of 16 (%)")
    for number in range(6):
        champion = pointer(there, SWEPT, "champion").version
        assert champion is not None
        print(f"| {number} | version {champion} | {gaps(there, city, champion, SWEPT)} |", flush=True)
        if number < 5:
            own = (f"policy.steps={ROUND_STEPS}", f"rounds={number + 1}", f"model={SWEPT}", "count=2000")
            changes = (*POLICY, *own, "instances=100")
            run(store, "improve", *(f"improve.{change}" for change in changes))
            told(there, SWEPT, list(trial_records(there, SWEPT, ROUND))[-1:])


def main() -> None:
    """Run the selected cases."""
    cases: dict[str, Callable[[Path], None]] = {
        "better": lambda store: night(store, "better"),
        "moved": lambda store: night(store, "moved"),
        "same": lambda store: night(store, "same"),
        "sweep": rounds,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path, help="a store in which the demo has run")
    parser.add_argument("folder", type=Path, help="where the copies go")
    parser.add_argument("--case", choices=list(cases), action="append", help="only this one (repeatable)")
    args = parser.parse_args()
    for case in args.case or cases:
        copy = args.folder / case
        shutil.copytree(args.store, copy, dirs_exist_ok=True)
        cases[case](copy)


if __name__ == "__main__":
    main()
