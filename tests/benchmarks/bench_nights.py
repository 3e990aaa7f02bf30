"""Models that improve without a solver, by their own beams or by drivers (bench_nights FOLDER).

Uses the models of `bench_imperfect FOLDER`. Each case has a store of its own beside FOLDER, and is resumed by
the same command.

- rounds SOURCE: the champion was trained on 30,000 days of SOURCE; `mcvrp improve` replaces labels by its own
  beam of 16, and fine-tunes it on them, round by round.
- nights: the champion was trained on 1,000 driven days that are 10 % longer than HGS's; every night brings 40
  driven days, each 5 or 10 % longer than HGS's. The night learns them as they were driven (--beam 0), or the
  champion's beam of that width in place of those, and of the 1,000, that cost more, and its beams on 3,000
  drawn days.

Gaps to HGS in percent on the days of `bench_imperfect`, which nothing was chosen on, with standard errors.
Processor seconds are those of everything that was started.
"""

from __future__ import annotations

import datetime
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcvrp.model.decoding import Beam, Greedy, Nucleus, Strategy, decode
from mcvrp.storage import layout
from mcvrp.storage.cities import stored_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Label, table_labels
from mcvrp.storage.models.models import load_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.card import TrialMetrics
from mcvrp.tasks.retrain.improve import run_round
from mcvrp.tasks.retrain.nightly import run_night
from mcvrp.tasks.retrain.spec import ImproveSpec, NightlySpec
from tests.benchmarks.bench_imperfect import (
    ALL_DAYS,
    RECIPES,
    Results,
    Run,
    Setting,
    chosen,
    dataset_of,
    measured_days,
)
from tests.benchmarks.common import Gap, append_row, arguments, heading, hgs_costs, read_rows, row
from tests.benchmarks.label_sources import labels_of, write_dataset
from tests.support.labels import put_routes

DRIVERS, OLD = "driven, 10% longer", "first-days"
FIRST_DAYS, NIGHT_DAYS, NIGHTS = 1_000, 40, 10
ROUNDS = 4
FIRST_DRIVEN = 100_000  # number of the first driven day: those before are the champion's
SHOWN_LABELS = 60  # per size, whose gap to HGS is measured
MEASURED: dict[str, tuple[Strategy, int]] = {
    "greedy": (Greedy(), 1),
    "best of 16": (Nucleus(1.0), 16),
    "best of 100": (Nucleus(1.0), 100),
    "beam of 16": (Beam(16), 16),
}


def processor_seconds() -> float:
    """Return the processor seconds of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Case:
    """Gaps of the champions of one model, version by version, kept in a file of its store."""

    def __init__(self, setting: Setting, name: str, first: Run) -> None:
        folder = setting.folder
        self.store_folder = folder.with_name(f"{folder.name}-{name}")
        if not self.store_folder.exists():
            copying = self.store_folder.with_name(f"{self.store_folder.name}.part")
            shutil.rmtree(copying, ignore_errors=True)
            kept = (f"labels/{dataset_of(first.source)}", f"models/{first.name}", "cities")
            for part in kept:
                shutil.copytree(folder / part, copying / part)
            copying.rename(self.store_folder)
        self.store, self.model = Store.open(self.store_folder), first.name
        self.city = stored_city(self.store, setting.city)
        self.sizes, self.instances = setting.sizes, measured_days(setting)
        self.base = Results(setting).costs("controls", "")["HGS"]
        self.path = self.store_folder / "versions.jsonl"

    def gaps(self) -> list[Gap]:
        """Return the gaps of the present champion by `MEASURED`."""
        version = pointer(self.store, self.model, "champion").version
        for stored in read_rows(self.path):
            if stored["version"] == version:
                return [Gap(*gap) for gap in stored["gaps"]]
        network, _ = load_model(self.store, self.model, version)
        gaps = []
        for strategy, samples in MEASURED.values():
            decoded = decode(network, self.city.city, self.instances, strategy=strategy, samples=samples)
            gaps.append(Gap.of([each.costs.min() for each in decoded], self.base))
        append_row(self.path, {"version": version, "gaps": gaps})
        return gaps

    def label_gap(self, dataset: str) -> Gap:
        """Return the gap of the first labels of each size of ``dataset``."""
        labels = list[Label]()
        for n in self.sizes:
            tables = Dataset.open(self.store, dataset).read_rows(n)
            rows = next(iter(tables)).slice(0, SHOWN_LABELS)
            labels += table_labels(rows, self.city.city.city_id)
        base = hgs_costs(self.city.city, [label.instance for label in labels])
        return Gap.of([label.cost for label in labels], base)

    def show(self, name: object, seconds: float, promoted: str, measured: TrialMetrics | None) -> None:
        labels = self.label_gap(measured.mix.dataset) if measured else "–"
        row(name, promoted, labels, *self.gaps(), f"{seconds:.0f}")


def head(first: str) -> None:
    heading(first, "promoted", "labels (%)", *(f"{name} (%)" for name in MEASURED), "processor s", texts=2)


def rounds(setting: Setting, source: str, number: int) -> None:
    """Print the table of ``number`` rounds from the champion that has learned from ``source``."""
    case = Case(setting, f"rounds-{dataset_of(source)}", Run(source, ALL_DAYS, *RECIPES[0], 1))
    spec = ImproveSpec(
        model=case.model,
        by="beam",
        tries=16,
        count=ALL_DAYS,
        rounds=number,
        passes=2,
        lr=1e-3,
        warmup=50,
        p=1.0,
        sizes=(20, 22, 24),
    )
    print(f"\n{source}")
    head("round")
    case.show(0, 0.0, "", None)
    for k in range(1, number + 1):
        began = processor_seconds()
        done = run_round(case.store, case.city, spec, k, case.store_folder / "cache")
        seconds = processor_seconds() - began
        case.show(k, seconds, "yes" if done.record.applied else "no", done.measured)
        if not done.record.promote:
            break


def driven_days(setting: Setting, night: int) -> Iterator[tuple[str, Label]]:
    """Yield the date and the driven routes of each new day of ``night``, from 0 up."""
    for k in range(NIGHT_DAYS):
        day = night * NIGHT_DAYS + k
        date = str(datetime.date(2025, 1, 1) + datetime.timedelta(day))
        source = "driven, 5% longer" if day % 2 else DRIVERS
        n = setting.sizes[day % len(setting.sizes)]
        (label,) = labels_of(source, setting.town, n, 1, first=FIRST_DRIVEN + day)
        yield date, label


def nights(setting: Setting, number: int, beam: int, trial: int) -> None:
    """Print the table of ``number`` nights from a champion that has learned from drivers."""
    case = Case(setting, f"nights-{beam}-{trial}", chosen(Results(setting), DRIVERS, FIRST_DAYS, 1))
    if not case.store.exists(layout.manifest(OLD)):
        share = FIRST_DAYS // len(setting.sizes)
        days = [label for n in setting.sizes for label in labels_of(DRIVERS, setting.town, n, share)]
        write_dataset(case.store, setting.town, OLD, days)
    recipe: dict[str, Any] = {"optimizer": "muon", "lr": 2e-3, "passes": 3, "dropout": 0.0} if beam else {}
    spec = NightlySpec(
        model=case.model,
        old=OLD,
        p=1.0,
        sizes=(20, 22, 24),
        instances=trial,
        beam=beam,
        **recipe,
    )
    print(f"\n{'beam of ' + str(beam) if beam else 'as driven'}")
    head("night")
    case.show(0, 0.0, "", None)
    for night in range(number):
        driven = [(date, label.instance, label.solution) for date, label in driven_days(setting, night)]
        put_routes(case.store, f"incoming/night-{night:02d}.csv", driven)
        began = processor_seconds()
        today = datetime.date(2026, 12, 31)
        done = run_night(case.store, case.city, spec, case.store_folder / "cache", today=today)
        seconds = processor_seconds() - began
        promoted = "yes" if done.record and done.record.applied else "no"
        case.show(night + 1, seconds, promoted, done.measured)


def main() -> None:
    """Compute what is missing and print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="that of bench_imperfect")
    parser.add_argument("--rounds", action="append", default=[], metavar="SOURCE", help="(repeatable)")
    parser.add_argument("--nights", type=int, default=0, help=f"number of nights, such as {NIGHTS}")
    parser.add_argument("--beam", type=int, nargs="+", default=[0, 16], help="widths, of the nights")
    parser.add_argument("--trial", type=int, default=100, help="trial instances per size, of the nights")
    args = parser.parse_args()
    setting = Setting(args.folder)
    for source in args.rounds:
        rounds(setting, source, ROUNDS)
    for beam in args.beam if args.nights else ():
        nights(setting, args.nights, beam, args.trial)


if __name__ == "__main__":
    main()
