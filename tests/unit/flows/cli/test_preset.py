"""Tests of `mcvrp preset`: the file is valid, fits the city and its days, and describes itself."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.plan import make_plan
from mcvrp.flows.config.preset import load_preset, preset_names
from mcvrp.flows.config.spec import PipelineSpec, require_consistent
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.cities import Addresses, load_city, save_city
from mcvrp.storage.driven import write_day
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import plan_city


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the environment, in the folder of the commands, with a city of 100 customers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "store")
    store = Store.open("store")
    save_city(store, "lyon", City.uniform(100, seed=1))
    return store


def made(*arguments: str, name: str = "lyon") -> PipelineSpec:
    assert cli.run(["preset", "new", name, *arguments]) == 0
    spec = load_preset(f"{name}.toml")
    require_consistent(spec)
    assert {spec.label.dataset, spec.train.run, spec.train.dataset, spec.train.model} == {name}
    assert (spec.benchmark.run, spec.train.held_out) == (name, f"{name}-held-out")
    return spec


def sizes(spec: PipelineSpec) -> tuple[int, int]:
    lengths = {phase.last for phase in spec.train.phases}
    assert spec.train.smallest == spec.label.smallest
    assert max(lengths) == spec.label.largest
    return spec.label.smallest, spec.label.largest


def test_without_days_it_is_the_demo_of_this_city(place: Store) -> None:
    spec, demo = made(), load_preset("laptop")
    assert spec.city.name == "lyon"
    for section in ("benchmark", "solve", "label", "train"):
        names = {"run", "dataset", "model", "held_out"} if section != "label" else {"dataset"}
        names |= {"methods", "instances"} if section == "benchmark" else set()
        both = (getattr(each, section).model_dump(exclude=names) for each in (spec, demo))
        assert next(both) == next(both)


def test_the_city_is_the_one_in_the_store(place: Store) -> None:
    """An imported city, a synthetic one, and one whose ranges were set."""
    save_city(place, "addresses", City.uniform(60, seed=1), Addresses.numbered(60))
    save_city(place, "synthetic", City.uniform(60, seed=3))
    save_city(place, "ranges", dataclasses.replace(City.uniform(60, seed=1), capacity=(30, 30)))
    for name in ("addresses", "synthetic", "ranges"):
        spec = made(name=name)
        assert (spec.city.name, spec.city.source) == (name, "imported")
        assert plan_city(place, spec.city).city.city_id == load_city(place, name).city_id


@pytest.mark.parametrize("base", ["laptop", "evening", "paper", "smoke"])
def test_the_benchmark_of_a_company_takes_a_minute(place: Store, base: str) -> None:
    """As far as one instance per size does, and without attention models and a solver for research only."""
    spec = made("--preset", base)
    assert not {"am", "lkh3"} & set(spec.benchmark.methods)
    plan = make_plan(spec, load_city(place, "lyon"))
    assert "attention models" not in [cost.part for cost in plan]
    if spec.benchmark.instances != 1:
        assert sum(3600 * cost.core_hours for cost in plan[-2:]) < 2.5 * 60


def test_sizes_are_the_customers_per_day_that_were_driven(
    place: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    city = load_city(place, "lyon")
    for day, n in enumerate((22, 26)):
        nodes = np.arange(1, n + 1)
        instance = Instance(city.city_id, nodes.astype(np.uint32), np.ones(n, np.uint16), 100)
        routes = Solution.of([[node] for node in nodes.tolist()])
        write_day(place, "lyon", city, datetime.date(2026, 3, 1 + day), (instance, routes), "0" * 64)
    assert sizes(made()) == (22, 26)
    assert capsys.readouterr().out.count("22 to 26") == 1  # a second range only if it differs


@pytest.mark.parametrize("given", [(20, 60), (30, 30), (21, 40), (20, 100)])
def test_phases_labels_and_benchmark_fit_the_sizes(place: Store, given: tuple[int, int]) -> None:
    """As many labels as in the preset that it is adapted from, within the city and the capacities."""
    spec = made("--sizes", *map(str, given))
    assert sizes(spec) == given
    base = load_preset("laptop" if given[1] <= 30 else "evening")
    assert spec.label.rows == pytest.approx(base.label.rows, rel=0.02)
    firsts = [phase.first for phase in spec.train.phases]
    assert all(first <= phase.last for first, phase in zip(firsts, spec.train.phases, strict=True))
    assert spec.benchmark.sizes[-1] <= 100


def test_a_city_with_capacities_may_have_days_above_the_table_of_the_paper(place: Store) -> None:
    save_city(place, "big", City(City.uniform(1500, seed=1).xy, capacity=(200, 240)))
    assert sizes(made("--city", "big", "--sizes", "1100", "1300")) == (1100, 1300)


def test_a_city_whose_costs_depend_on_the_direction_changes_nothing_else(place: Store) -> None:
    rng, square = np.random.default_rng(1), City.uniform(40, seed=1)
    save_city(place, "ways", City(square.xy, rng.uniform(1, 2, (41, 41)), capacity=(30, 40)))
    spec = made("--city", "ways", "--sizes", "3", "9")
    assert (spec.label.solver, spec.label.budget) == ("hgs", "thrifty")
    assert spec.train.network.landmarks == 8
    assert sizes(spec) == (3, 9)


@pytest.mark.parametrize(("preset", "landmarks"), [("laptop", 8), ("evening", 8), ("paper", 0)])
def test_landmarks_are_for_a_pointer_network_of_a_city_with_a_cost_matrix(
    place: Store, preset: str, landmarks: int
) -> None:
    costs = 2 * City.uniform(100, seed=1).costs(np.arange(101))
    save_city(place, "roads", City(City.uniform(100, seed=1).xy, costs))
    for name, expected in (("roads", landmarks), ("lyon", 0)):
        assert made("--preset", preset, name=name).train.network.landmarks == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("paris", "no city 'paris'"),
        ("paris --preset smoke", "a preset's with mcvrp city create --preset"),
        ("a/b --city lyon", "not a valid name for a preset"),
        ("lyon --sizes 9 3", "--sizes 9 3 is not a range from 1 upwards: give LO HI"),
        ("lyon --sizes 5 90", "--sizes 5 90: days of city 'lyon' can have 20 to 100 customers\n"),
        ("lyon --sizes 50 101", "--sizes 50 101: days of city 'lyon' can have 20 to 100 customers\n"),
        ("lyon --set label.cuont=1", "label.cuont"),
        ("kept --city lyon", "kept.toml exists: remove it"),
        ("hamlet", "no capacity rule for 15 customers"),
    ],
)
def test_what_cannot_be_made_is_refused(
    place: Store, arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and an existing file is kept."""
    Path("kept.toml").write_text("kept")
    save_city(place, "hamlet", City.uniform(15, seed=1))
    assert cli.run(["preset", "new", *arguments.split()]) == 2
    assert said in capsys.readouterr().err
    assert [path.read_text() for path in Path().glob("*.toml")] == ["kept"]


def test_the_environment_names_the_preset_of_commands(
    place: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--preset overrides it; without both it is laptop."""
    made()
    chosen = []
    for variable, option in (("", ()), ("lyon.toml", ()), ("lyon.toml", ("--preset", "smoke"))):
        monkeypatch.setenv("MCVRP_PRESET", variable)
        capsys.readouterr()
        assert cli.run(["plan", *option]) == 0
        chosen.append(capsys.readouterr().out.splitlines()[-1].partition(":")[0])
    assert chosen == ["laptop", "lyon.toml", "smoke"]


def test_the_list_describes_each_included_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["preset", "list"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, text in lines if text] == preset_names()
