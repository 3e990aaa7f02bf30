"""Requests of each kind of work on a store, counted."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.models.models import export_model
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Moments, Origin, save_checkpoint
from mcvrp.tasks.benchmark.run import run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.gc import RetentionSpec, clean
from mcvrp.tasks.label import LabelSpec, label_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.retrain.nightly import run_night
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.train.phases import Launcher, train
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec
from tests.support.labels import put_routes, sweep
from tests.support.stand_in import INSTANT
from tests.support.training import small_spec

CITY = City.uniform(60, seed=3)
TOWN = StoredCity("town", CITY, Addresses.numbered(CITY.customers), "synthetic")
LAST = datetime.date(2026, 12, 31)
SHARD = 480  # rows: with 5 s per label five files, as the preset `paper` has 119 rows per file


@dataclass(frozen=True)
class StoreRequests:
    """Requests on ``store`` as ``counted``; workers find it through their environment.

    ``launch`` replaces the ranks of training.
    """

    store: Store
    counted: Callable[[], AbstractContextManager[Counter[str]]]
    cache: Path
    launch: Launcher | None = None

    def all(self, *, shards: int = 3, nights: int = 2) -> Iterator[tuple[str, Counter[str]]]:
        """Yield names of works and their requests, of further shards those of each."""
        save_city(self.store, "town", CITY)
        yield from self._labels(shards)
        yield from self._blocks()
        yield from self.without_ray(nights)

    def without_ray(self, nights: int = 2) -> Iterator[tuple[str, Counter[str]]]:
        """Yield those of works that this process does alone, given ``launch``, with datasets one and many."""
        yield from self._checkpoints()
        yield from self._nights(nights)
        for path in ("", "labels/many", "cities/town", "models/small"):
            with self.counted() as counts:
                inspect(self.store, path)
            yield f"inspect {path}".strip(), counts
        with self.counted() as counts:
            clean(self.store, RetentionSpec(), delete=False)
        yield "gc", counts

    def _labels(self, shards: int) -> Iterator[tuple[str, Counter[str]]]:
        of_labels, of_verify = list[Counter[str]](), list[Counter[str]]()
        for name, count in (("one", 1), ("many", shards)):
            spec = LabelSpec(
                dataset=name,
                smallest=20,
                largest=20,
                count=SHARD * count,
                shard_rows=SHARD,
                solver=INSTANT,
                time_limit=5,
                workers=2,
            )
            with self.counted() as counts:
                assert label_missing(self.store, CITY, spec).new == SHARD * count
            of_labels.append(counts)
            with self.counted() as counts:
                assert not verify_dataset(self.store, name, workers=2).faults
            of_verify.append(counts)
        for work, (one, many) in (("label", of_labels), ("verify", of_verify)):
            yield f"{work}, one shard", one
            yield f"{work}, each more", _each(many - one, shards - 1)

    def _checkpoints(self) -> Iterator[tuple[str, Counter[str]]]:
        weights = {"w": np.zeros((10, 10), np.float32)}
        network = NetworkConfig(CITY.classes, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=16)
        origin = Origin(CITY.city_id, "f", asdict(network), {}, "")
        for step in (1, 2, 3, 4):  # the last removes one
            state = CheckpointState("by-hand", "I", step, 4, step, origin, {})
            with self.counted() as counts:
                state = save_checkpoint(self.store, state, weights, Moments(weights, weights))
        yield "checkpoint", counts
        with self.counted() as counts:
            export_model(self.store, "by-hand", state, dataset="many", rotation_trained=False)
        yield "publication", counts

    def _blocks(self) -> Iterator[tuple[str, Counter[str]]]:
        parts = list[Counter[str]]()
        for count in (12, 36):  # 12 instances of 5 s per part
            spec = BenchmarkSpec(
                run=f"of-{count}",
                sizes=(20,),
                instances=(count,),
                methods=("hgs",),
                hgs_iterations=5,
                workers=2,
            )
            with self.counted() as counts:
                run_benchmark(self.store, CITY, spec)
            parts.append(counts)
        yield "benchmark, one method and size", parts[0]
        yield "benchmark, 24 more instances", parts[1] - parts[0]

    def _nights(self, nights: int) -> Iterator[tuple[str, Counter[str]]]:
        network = NetworkSpec(dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.0)
        phase = PhaseSpec(name="short", first=20, last=20, lr=0.003, trunc=32)
        spec = small_spec(dataset="one", network=network, phases=(phase,), ranks=1, batch=16)
        with self.counted() as counts:
            train(self.store, CITY, spec, self.cache, self.launch)
        yield "training, 2 steps", counts
        nightly = NightlySpec(
            model="small",
            replay=30,
            instances=2,
            samples=2,
            batch=12,
            sizes=(20,),
            held_out_every=3,
            quiet_seconds=0,
            ranks=1,
        )
        for night in range(1, nights + 1):
            put_days(self.store, night)
            with self.counted() as counts:
                summary = run_night(self.store, TOWN, nightly, self.cache, today=LAST, launch=self.launch)
            assert summary.record
            assert summary.record.number == night
            yield f"night {night}", counts


def put_days(store: Store, night: int, days: int = 8) -> None:
    """Put a file with the routes of as many days as preceded the night into the incoming folder."""
    stream, first = InstanceStream(CITY, 7, "train"), datetime.date(2026, 1, 1)
    driven = []
    for day in range(days * (night - 1), days * night):
        instance = stream(20, day)
        driven.append(((first + datetime.timedelta(day)).isoformat(), instance, sweep(CITY, instance)))
    put_routes(store, f"incoming/night-{night:04}.csv", driven)


def _each(counts: Counter[str], number: int) -> Counter[str]:
    return Counter({kind: -(-count // number) for kind, count in counts.items()})
