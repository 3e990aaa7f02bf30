"""The reading of a night does not grow with the nights before it."""

from __future__ import annotations

import datetime
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.driven import checksum, driven_days, write_day
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store import lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, write_record
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.decide import COLUMNS
from mcvrp.tasks.retrain.nightly import NightSummary, run_night
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.train.phases import train
from mcvrp.tasks.train.spec import NetworkSpec
from tests.support.killed import Request, serve_all
from tests.support.labels import label_of, put_routes, sweep
from tests.support.training import nudge, small_spec, write_dataset

CITY = City.uniform(300, seed=3)
TOWN = StoredCity("town", CITY, Addresses(("depot", *(str(node) for node in range(1, 301)))), "imported")
SPEC = NightlySpec(model="small", replay=300, instances=2, batch=12, sizes=(20,), quiet_seconds=0, beam=0)
NETWORK = NetworkSpec(dim=128, heads=4, encoder_layers=2, decoder_layers=2, ff=512, dropout=0.1)
FIRST, CUSTOMERS = datetime.date(2020, 2, 1), 80  # the last days of each history are not held out
PAIRS = pd.DataFrame([("drawn", 20, f"i={i}", 5.0, 5.0 - i / 9) for i in range(3)], columns=list(COLUMNS))


@dataclass
class Reading:
    """Requests that read, one per page of a listing, and their bytes."""

    requests: int = 0
    bytes: int = 0

    def serve(self, verb: str, path: str, request: Request) -> Any:
        answer = request()
        if verb not in ("write", "delete"):
            self.requests += max(1, len(answer)) if isinstance(answer, list) else 1
            self.bytes += len(answer) if isinstance(answer, bytes) else 0
        return answer


def drive(store: Store, k: int) -> str:
    """Put the routes of day ``k`` into the incoming folder; return the name of the stored day."""
    date, path = (FIRST + datetime.timedelta(k)).isoformat(), f"incoming/{k:05}.csv"
    instance = InstanceStream(CITY, 7, "train")(CUSTOMERS, k)
    put_routes(store, path, [(date, instance, sweep(CITY, instance))])
    return f"{date} {checksum(store.get(path))}"


def past_night(store: Store, k: int, names: list[str]) -> None:
    """Leave in the store what night ``k`` leaves: day, labels, version, rejected challenger."""
    date, sha256 = drive(store, k).split()
    instance = InstanceStream(CITY, 7, "train")(CUSTOMERS, k)
    day = (instance, sweep(CITY, instance))
    write_day(store, "town", CITY, datetime.date.fromisoformat(date), day, sha256)
    names.append(f"{date} {sha256}")
    night, version = f"night-{k:012x}", k + 2
    labels = [replace(label_of(CITY, *pair, solution=day[1]), index=0) for pair in [(instance, 0)]]
    write_labels(store, layout.label_file(night, CUSTOMERS, 0, 1), CITY, "nightly", labels)
    store.put_json(layout.run_spec(night), {})
    first = model_card(store, "small", 1)
    card = replace(first, version=version, run=night, weights_sha256=checksum(night.encode()))
    store.put(layout.model_config("small", version), b"{}")
    store.put(f"{card.folder}/README.md", b"")
    store.put_json(layout.model_card("small", version), asdict(card))
    for path in (layout.trial_readme, layout.trial_metrics, layout.trial_spec, layout.trial_picture):
        store.put(path("small", night), b"{}")
    reasons = ("no significant improvement (drawn: p = 0.500)",)
    record = TrialRecord(night, k + 1, 1, version, "tiny", False, reasons, tuple(names))
    write_record(store, "small", record)


def night(store: Store, k: int) -> NightSummary:
    drive(store, k)
    today = FIRST + datetime.timedelta(k)
    return run_night(store, TOWN, SPEC, Path("/nowhere"), today=today, launch=nudge)


def reading_of_night(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return what the night of that ``number`` reads; the one before finds no pack, as after a loss."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)  # no power failure here
        store, names = Store.open(folder / "store"), list[str]()
        write_dataset(store, CITY, range(20, 23), 200)
        train(store, CITY, small_spec(network=NETWORK), folder, nudge)
        for k in range(number - 2):
            past_night(store, k, names)
        assert night(store, number - 2).new
        reading = Reading()
        serve_all(patch, reading.serve)
        done = night(Store.open(store.uri), number - 1)
    assert done.new
    assert done.record
    assert done.record.number == number
    assert len(driven_days(store, "town")) == number
    assert (len(done.taken.files), done.taken.known) == (1, number - 1)
    return reading


def test_the_fortieth_night_reads_as_much_as_the_tenth(
    tmp_path: Path, decided: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 1.2 times the requests and the bytes of files, a page of a listing being one request."""
    decided += [False] * 4
    monkeypatch.setattr(trial, "compared", lambda *_: PAIRS)
    monkeypatch.setattr(lease, "TTL_SECONDS", 3600.0)  # it is renewed by the clock, not by the night
    tenth = reading_of_night(tmp_path / "10", 10, monkeypatch)
    late = reading_of_night(tmp_path / "40", 40, monkeypatch)
    assert late.requests <= 1.2 * tenth.requests
    assert late.bytes <= 1.2 * tenth.bytes
