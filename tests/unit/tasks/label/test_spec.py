"""The spec of a dataset: what decides its labels, what it refuses, and how the store has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city, save_city
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import attempting, make_solver, solver_seed
from mcvrp.tasks.label.spec import LabelSpec, Source, SpecDocument, seconds_per_instance, stored_spec
from mcvrp.tasks.solvers.budgets import BudgetName, budget_for, tuned_budget
from mcvrp.tasks.solvers.hgs import HGS
from tests.support.datasets import CITY, label_spec

BASE = {"dataset": "d", "smallest": 20, "largest": 22, "count": 100}
DEMANDS = st.none() | st.tuples(st.integers(1, 9), st.integers(9, 20))
CAPACITIES = st.none() | st.tuples(st.integers(20, 40), st.integers(40, 60))


def spec(**changes: object) -> LabelSpec:
    return LabelSpec.model_validate({**BASE, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smallest": 23}, "smallest = 23 is above largest = 22"),
        ({"count": 0}, "count"),
        ({"count": 1_000_000_000}, "count"),
        ({"time_limit": 1.0, "iterations": 5}, "exclude each other"),
        ({"iterations": 0}, "iterations"),
        ({"solver": "vroom"}, "solver"),
        ({"solver": "pyvrp", "fleet": 10}, "fleet = 10 is only supported by hgs, the solver is pyvrp"),
        ({"fleet": 0}, "greater than or equal to 1"),
        ({"budget": "converged", "time_limit": 5.0}, "unset either budget .* or time_limit"),
        ({"time_limit": 0}, "time_limit"),
        ({"solver": "lkh3", "time_limit": 1.0}, "lkh3 does not support time_limit"),
        ({"demand": (0, 9)}, "demand"),
        (
            {"demand": (1, 9), "capacity": (8, 20)},
            r"capacity = \[8, 20\] is not a range from the smallest to the largest capacity",
        ),
        ({"capacity": (30, 20)}, "capacity"),
        ({"dataset": "../d"}, "dataset"),
        ({"split": "trial"}, "'train', 'valid' or 'test'"),  # challengers are chosen by its instances
        ({"held_out": 4, "split": "test"}, "held_out = 4 requires split train, not test"),
        ({"shards": 4}, "shards"),
    ],
)
def test_a_wrong_spec_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spec(**changes)


def test_five_seconds_unless_told() -> None:
    assert spec().time_limit == 5.0
    assert spec(iterations=30).time_limit is None
    assert spec(time_limit=None, iterations=30).iterations == 30
    assert spec(solver="lkh3").time_limit is None


def test_a_time_limit_has_tuned_settings() -> None:
    """Each label states them; the dataset of another table is another one."""
    for own in ({"tuned": False}, {"iterations": 30}, {"budget": "thrifty"}, {"solver": "lkh3"}):
        assert spec(**own).identity(CITY)["tuned"] == ""
    recipe = spec(time_limit=0.2, largest=1000).recipe(CITY)
    for n in (20, 100, 1000):
        solver, budget = make_solver(recipe, n), tuned_budget("hgs", n, 0.2)
        assert solver == HGS(**budget.options())
        assert recipe.budget_text(n) == budget.description
    assert "population" not in spec(tuned=False).recipe(CITY).budget_text(20)


def test_identity_is_what_decides_the_labels() -> None:
    """Extent, workers and rows per shard may vary under one spec hash, whatever decides a label may not."""
    own = spec().recipe(CITY).spec_hash
    for same in ({"count": 7}, {"smallest": 10}, {"largest": 30}, {"workers": 1}, {"shard_rows": 10}):
        assert spec(**same).recipe(CITY).spec_hash == own
    others: list[dict[str, Any]] = [
        {"iterations": 30},
        *({"budget": name} for name in ("thrifty", "converged")),
        *(
            {"seed": 2},
            {"split": "test"},
            {"solver": "pyvrp"},
            {"fleet": 10_000},
            {"time_limit": 4.0},
            {"tuned": False},
        ),
        *({"demand": (1, 8)}, {"capacity": (30, 40)}),
    ]
    hashes = {spec(**other).recipe(CITY).spec_hash for other in others}
    hashes.add(spec().recipe(City.uniform(60, seed=4)).spec_hash)
    assert len(hashes | {own}) == len(others) + 2


@pytest.mark.parametrize("budget_name", ["thrifty", "converged"])
def test_a_named_budget_is_the_solver_it_describes(budget_name: BudgetName) -> None:
    """At each size the worker's solver, the words on the label and the estimate come from one budget."""
    wanted = spec(budget=budget_name, largest=400)
    assert wanted.time_limit is None
    recipe = wanted.recipe(CITY)
    for n in (20, 100, 400):
        budget = budget_for(budget_name, n)
        solver = make_solver(recipe, n)
        assert isinstance(solver, HGS)
        for name in ("iterations", "population", "granular"):
            assert getattr(solver, name) == getattr(budget, name)
        assert recipe.budget_text(n) == budget.description
        assert budget.seconds(n) < seconds_per_instance(wanted, n) < budget.seconds(n) + 2e-3


def test_solver_seeds_are_their_own() -> None:
    seeds = {solver_seed(s, n, i) for s in (1, 2) for n in (20, 21) for i in range(1000)}
    assert len(seeds) > 3990
    assert max(seeds) < 2**30
    assert solver_seed(1, 20, 0) == 876383063


def test_the_held_out_set_is_a_dataset_of_its_own() -> None:
    plain = spec(budget="thrifty")
    assert plain.datasets == (plain,)
    asked = spec(budget="thrifty", held_out=4)
    whole, apart = asked.datasets
    assert whole == asked
    assert whole.identity(CITY) == plain.identity(CITY)
    assert whole.recipe(CITY) == plain.recipe(CITY)
    assert (apart.dataset, apart.split, apart.count, apart.sizes) == ("d-held-out", "valid", 4, plain.sizes)
    assert LabelSpec.model_validate(apart.model_dump()) == apart
    assert {**apart.identity(CITY), "split": "train"} == plain.identity(CITY)


@settings(max_examples=40, deadline=None)
@given(own=st.tuples(DEMANDS, CAPACITIES), asked=st.tuples(DEMANDS, CAPACITIES), i=st.integers(0, 2**32 - 1))
def test_a_source_has_the_instances_that_are_labelled(
    own: tuple[Range | None, Range | None], asked: tuple[Range | None, Range | None], i: int
) -> None:
    city = City(CITY.xy, demand=own[0], capacity=own[1])
    source = Source(spec(demand=asked[0], capacity=asked[1], iterations=1), city)
    label = attempting(city, source.recipe, 20)(i, 1)
    instance = source.stream(20, i)
    assert isinstance(label, Label)
    assert label.instance.ids.tolist() == instance.ids.tolist()
    assert label.instance.demands.tolist() == instance.demands.tolist()
    assert label.instance.capacity == instance.capacity


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"iterations": None},
        {"iterations": None, "budget": "converged"},
        {"iterations": None, "time_limit": 0.5, "fleet": 10_000},
        {"demand": (2, 7), "capacity": (40, 44)},
        {"solver": "lkh3", "iterations": None},
        {"solver": "pyvrp", "split": "test", "seed": 2**63},
    ],
)
def test_a_stored_spec_is_the_one_that_was_asked(store: Store, changes: dict[str, Any]) -> None:
    spec = label_spec(**changes)
    document = SpecDocument().extended(Source(spec, CITY))
    store.put_json(layout.label_spec("d"), document.fields)
    save_city(store, "anything", CITY)
    save_city(store, "another", City.uniform(5, seed=1))
    stored, city_id = stored_spec(store, "d")
    assert stored.model_copy(update={"tuned": True}) == spec.in_city(CITY)
    assert city_id == find_city(store, city_id).city_id == CITY.city_id
    assert stored.recipe(CITY) == spec.recipe(CITY)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"city_id": "x", "schema_version": 2}'])
def test_a_missing_or_corrupt_spec_is_named(store: Store, text: str) -> None:
    with pytest.raises(McvrpError, match=r"no .*labels/d/spec\.json: mcvrp label"):
        stored_spec(store, "d")
    store.put(layout.label_spec("d"), text.encode())
    with pytest.raises(McvrpError, match=r"labels/d/spec\.json .*remove") as caught:
        stored_spec(store, "d")
    assert "\n" not in str(caught.value)
