"""A night with real training: an undertrained champion is replaced by its fine-tuned challenger."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.tasks.retrain.nightly import run_night
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.train.phases import train
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, PolicySpec
from tests.support.labels import drive
from tests.support.origins import made_from
from tests.support.training import small_spec, write_dataset

pytestmark = pytest.mark.slow

CITY = City.uniform(60, seed=3)
TODAY = datetime.date(2026, 3, 31)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    write_dataset(store, CITY, range(20, 23), 200)
    phase = PhaseSpec(name="short", first=22, last=22, lr=0.003, trunc=32)
    network = NetworkSpec(dim=32, heads=2, encoder_layers=2, decoder_layers=2, ff=64, dropout=0.0)
    train(store, CITY, small_spec(network=network, phases=(phase,), ranks=1), tmp_path / "cache")
    return store


def test_a_better_challenger_becomes_champion(store: Store, tmp_path: Path) -> None:
    """After a policy-gradient phase on fresh and old days, with their labels, it is significantly better."""
    drive(store, CITY, 30)
    spec = NightlySpec(
        model="small",
        replay=600,
        passes=8,
        batch=16,
        lr=0.003,
        instances=20,
        samples=4,
        ranks=1,
        policy=PolicySpec(steps=60, instances=8, samples=4, labels=1.0),
    )
    city = StoredCity("small", CITY, Addresses.numbered(CITY.customers), "synthetic")
    summary = run_night(store, city, spec, tmp_path / "cache", today=TODAY)
    assert not summary.taken.refused
    assert summary.measured
    assert summary.record
    assert summary.record.promote, summary.record
    tuned = latest_checkpoint(store, summary.record.name, "tune")
    assert tuned is not None
    assert tuned.origin.recipe["policy.source"] == "labels"
    assert all(bucket.change < 0 for bucket in summary.measured.buckets)
    assert pointer(store, "small", "champion").version == 2
    night = summary.record.name
    origins = {"models/small/0001", "models/small/0002", "labels/tiny", "driven/small"}
    origins |= {f"labels/{night}", f"training/{night}/tune"}
    assert origins <= made_from(store, layout.night_dir("small", night))
