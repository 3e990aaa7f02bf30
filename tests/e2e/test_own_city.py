"""The first recipe of docs/city.md as it is printed, from a table of addresses to a day's routes."""

from __future__ import annotations

import random
import shlex
import tomllib
from pathlib import Path

import pytest

from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.unit.docs.pages import DOCS, commands

CUSTOMERS = [f"C{k}" for k in range(60)]
SMALL = [  # counts of the recipe's run in a test; everything else is as the page prints it
    *("label.count=30", "label.held_out=2", "label.budget=", "label.iterations=5", "train.batch=16"),
    *(
        "train.ranks=1",
        "train.network={dim = 16, heads = 2, encoder_layers = 1, decoder_layers = 1, ff = 32}",
    ),
    *("train.phases.4.policy.steps=2", "train.phases.4.policy.instances=4", "benchmark.instances=2"),
    *(
        "benchmark.methods=['hgs', 'fm-gs', 'fm-ns']",
        "benchmark.samples=[1, 2]",
    ),
]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A workplace with the user's files: addresses, three weeks of orders, a day to route."""
    place, rng = Workplace.new(tmp_path), random.Random(1)
    rows = [f"{name},{rng.uniform(45.7, 45.8)},{rng.uniform(4.8, 4.9)},0" for name in CUSTOMERS]
    addresses = ["id,lat,lon,depot", "DEPOT,45.75,4.85,1", *rows]
    days = {f"2026-03-{day:02d}": rng.sample(CUSTOMERS, 20 + day % 5) for day in range(1, 22)}
    orders = [f"{date},{name},{rng.randint(1, 12)}" for date, names in days.items() for name in names]
    for file, lines in (
        ("addresses.csv", addresses),
        ("orders.csv", ["date,customer,demand", *orders]),
        ("monday.csv", ["customer,demand", *(f"{name},3" for name in CUSTOMERS[:21])]),
    ):
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    return place


@pytest.mark.slow
def test_the_recipe_runs_as_it_is_printed(place: Workplace) -> None:
    imported, made, ran, solved = (
        shlex.split(line, comments=True)[1:] for line in commands(DOCS / "city.md")[:4]
    )
    for command in (imported, made):
        done = place.mcvrp(*command)
        assert done.returncode == 0, done.stderr
    preset = tomllib.loads((place.folder / "lyon.toml").read_text())
    assert (preset["label"]["smallest"], preset["label"]["largest"]) == (20, 24)
    done = place.mcvrp(*ran, "--no-prefect", *(word for change in SMALL for word in ("--set", change)))
    assert done.returncode == 0, done.stderr
    done = place.mcvrp(*solved, "--time-limit", "120")
    assert done.returncode == 0, done.stderr
    store = Store.open(place.store)
    assert model_card(store, "lyon").version == 1
    assert len(load_labels(store, "lyon", 24).costs) == 30
    assert len(list(place.folder.glob("routes/monday-*/routes.csv"))) == 1
    planned = place.mcvrp("plan", MCVRP_PRESET="lyon.toml").stdout
    assert planned.splitlines()[-1].startswith("lyon.toml: ")
