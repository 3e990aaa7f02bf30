"""The spec of a dataset, the survey of what is missing, and how the rest is cut into units."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import Footer, Label
from mcvrp.tasks.label.plan import ShardJob, cut_into_units, missing_rows, unit_seconds
from mcvrp.tasks.label.solving import attempting, make_solver, solver_seed
from mcvrp.tasks.label.spec import LabelSpec, Source, seconds_per_instance
from mcvrp.tasks.solvers.budgets import BudgetName, budget_for
from mcvrp.tasks.solvers.hgs import HGS

CITY = City.uniform(60, seed=3)
GOLDEN = "76718549d98f2444"  # the hash of the defaults on CITY, as labels in people's stores carry it
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
        ({"smallest": -1}, "smallest"),
        ({"time_limit": 1.0, "iterations": 5}, "exclude each other"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"iterations": 0}, "iterations"),
        ({"solver": "vroom"}, "solver"),
        ({"solver": "pyvrp", "fleet": 10}, "fleet = 10 is only supported by hgs, the solver is pyvrp"),
        ({"fleet": 0}, "greater than or equal to 1"),
        ({"solver": "pyvrp", "population": 5}, "population = 5 is only supported by hgs"),
        ({"population": 1}, "population"),
        ({"granular": 0}, "granular"),
        ({"solver": "pyvrp", "budget": "thrifty"}, "budget = thrifty is only supported by hgs"),
        ({"budget": "thrifty", "population": 5}, "give either budget or these"),
        ({"budget": "converged", "time_limit": 5.0}, "give either budget or these"),
        ({"budget": "lavish"}, "budget"),
        ({"time_limit": 0}, "time_limit"),
        ({"solver": "lkh3", "time_limit": 1.0}, "lkh3 does not support time_limit"),
        ({"demand": (0, 9)}, "demand"),
        ({"demand": (5, 4)}, "demand"),
        ({"demand": (1, 2**16)}, "demand"),
        (
            {"demand": (1, 9), "capacity": (8, 20)},
            r"capacity = \[8, 20\] is not a range from the largest demand, 9, upwards",
        ),
        ({"capacity": (30, 20)}, "capacity"),
        ({"dataset": "../d"}, "dataset"),
        ({"shards": 4}, "shards"),
        ({"workers": 0}, "workers"),
    ],
)
def test_a_wrong_spec_is_refused(changes: dict[str, object], message: str) -> None:
    """Every absurd value is named."""
    with pytest.raises(ValidationError, match=message):
        spec(**changes)


def test_five_seconds_unless_told() -> None:
    """The paper's budget holds where neither budget is given, and nowhere else."""
    assert spec().time_limit == 5.0
    assert spec(iterations=30).time_limit is None
    assert spec(time_limit=None, iterations=30).iterations == 30
    assert spec(solver="lkh3").time_limit is None


def test_identity_is_what_decides_the_labels() -> None:
    """Extent, workers and the rows a shard may vary under one spec hash, whatever decides a label may not."""
    own = spec().recipe(CITY).spec_hash
    for same in ({"count": 7}, {"smallest": 10}, {"largest": 30}, {"workers": 1}, {"shard_rows": 10}):
        assert spec(**same).recipe(CITY).spec_hash == own
    others = [
        {"seed": 2},
        {"split": "test"},
        {"solver": "pyvrp"},
        {"fleet": 10_000},
        {"time_limit": 4.0},
        {"iterations": 30},
        {"iterations": 30, "population": 6},
        {"iterations": 30, "granular": 8},
        {"budget": "thrifty"},
        {"budget": "converged"},
        {"demand": (1, 8)},
        {"capacity": (30, 40)},
    ]
    hashes = {spec(**other).recipe(CITY).spec_hash for other in others}
    hashes.add(spec().recipe(City.uniform(60, seed=4)).spec_hash)
    assert len(hashes | {own}) == len(others) + 2


@pytest.mark.parametrize("name", ["thrifty", "converged"])
def test_a_named_budget_is_the_solver_it_describes(name: BudgetName) -> None:
    """At each size the worker's solver, the words on the label and the estimate come from one budget."""
    wanted = spec(budget=name, largest=400)
    assert wanted.time_limit is None
    recipe = wanted.recipe(CITY)
    for n in (20, 100, 400):
        budget = budget_for(name, n)
        solver = make_solver(recipe, n)
        assert isinstance(solver, HGS)
        assert (solver.iterations, solver.population, solver.granular) == (
            budget.iterations,
            budget.population,
            budget.granular,
        )
        assert recipe.budget_text(n) == budget.description
        assert budget.seconds(n) < seconds_per_instance(wanted, n) < budget.seconds(n) + 2e-3


def test_converged_searches_longest_where_it_pays() -> None:
    """Iterations grow with n, up to 181 customers, then fall as each takes longer."""
    iterations = [budget_for("converged", n).iterations for n in (20, 181, 182, 200, 400)]
    assert iterations == [160, 1448, 1449, 1200, 300]
    assert [budget_for("thrifty", n).iterations for n in (20, 120, 400)] == [30, 30, 100]


def test_solver_seeds_are_their_own() -> None:
    """The seed of an instance is a fixed function of three numbers, and rarely another's."""
    seeds = {solver_seed(s, n, i) for s in (1, 2) for n in (20, 21) for i in range(1000)}
    assert len(seeds) > 3990
    assert max(seeds) < 2**30
    assert solver_seed(1, 20, 0) == 876383063


def file(start: int, stop: int, absent: Set[int] = frozenset()) -> LabelFile:
    return LabelFile(f"{start}-{stop}", Footer("s", "c", 20, start, stop, "0", tuple(sorted(absent))))


RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


@given(RANGES, st.integers(0, 40), st.integers(1, 40), st.sets(st.integers(0, 80)))
def test_gaps_are_the_rows_in_no_file(
    ranges: list[tuple[int, int]], start: int, rows: int, absent: set[int]
) -> None:
    """Any files, overlapping or not, some rows declared absent: the missing are missing."""
    files = [file(a, b, absent & set(range(a, b))) for a, b in ranges]
    there = {row for first, last in ranges for row in range(first, last)} - absent
    gaps = list(missing_rows(files, start, start + rows))
    missing = [row for first, last in gaps for row in range(first, last)]
    assert missing == [row for row in range(start, start + rows) if row not in there]
    assert all(first < last for first, last in gaps)


@given(
    st.lists(st.tuples(RANGES, st.sets(st.integers(0, 60))), min_size=1, max_size=6),
    st.sampled_from([1, 7, 60]),
    st.integers(1, 400),
    st.sampled_from([{"iterations": 30}, {"time_limit": 5.0}, {"iterations": 5000}]),
)
def test_units_are_the_missing_rows_whatever_their_size(
    parts: list[tuple[list[tuple[int, int]], set[int]]],
    shard_rows: int,
    workers: int,
    budget: dict[str, float],
) -> None:
    """More workers mean other units, never other rows; none lasts much longer than a minute.

    Units of whole shards are of shards with nothing, suspects are among themselves and dealt with
    isolated, and each shard knows how many units it waits for.
    """
    wanted = spec(**budget, shard_rows=shard_rows)
    jobs = []
    for k, (there, suspects) in enumerate(parts):
        start, stop = k * shard_rows, (k + 1) * shard_rows
        sources = [file(start + a, start + b) for a, b in there if start + a < stop]
        gaps = list(missing_rows(sources, start, stop))
        rows = {row for a, b in gaps for row in range(a, b)}
        jobs.append(
            ShardJob(20, k, start, stop, sources, gaps, frozenset(s for s in rows if s - start in suspects))
        )
    total = sum(job.missing for job in jobs) * seconds_per_instance(wanted, 20)
    cut = list(cut_into_units(wanted, iter(jobs), unit_seconds(total, workers)))
    units = [(owners, unit) for owners, unit in cut if unit]
    assert [owners for owners, unit in cut if not unit] == [[job] for job in jobs if not job.gaps]
    made = [row for _, unit in units for row in range(unit.start, unit.stop)]
    assert sorted(made) == [row for job in jobs for a, b in job.gaps for row in range(a, b)]
    suspects = {row for job in jobs for row in job.suspects}
    for owners, unit in units:
        rows = set(range(unit.start, unit.stop))
        assert rows
        assert unit.rows == 1 or unit.seconds < 90
        assert unit.seconds == pytest.approx(unit.rows * seconds_per_instance(wanted, 20))
        assert (rows <= suspects) if unit.isolated else not rows & suspects
        if unit.shard_rows:
            assert all(job.fresh for job in owners)
            shards = list(unit.shards(shard_rows))
            assert shards == [(job.k, job.start, job.stop) for job in owners]
        else:
            assert [job.start <= unit.start < unit.stop <= job.stop for job in owners] == [True]
    for job in jobs:
        assert job.units == sum(job in owners and not unit.shard_rows for owners, unit in units)


def test_there_is_work_for_every_worker() -> None:
    """A small dataset is cut finely enough for all workers to have some."""
    wanted = spec(iterations=30)
    job = ShardJob(20, 0, 0, 4000, [], [(0, 4000)])
    seconds = unit_seconds(4000 * seconds_per_instance(wanted, 20), 8)
    assert len(list(cut_into_units(wanted, [job], seconds))) >= 2 * 8


@pytest.mark.parametrize(
    "module", ["mcvrp.tasks.label.stage", "mcvrp.tasks.label.worker", "mcvrp.tasks.solvers.hgs"]
)
def test_a_solver_worker_starts_light(module: str) -> None:
    """Imports of a worker bring neither torch nor DeepSpeed nor Prefect."""
    code = f"import sys, {module}; print(sorted({{'torch', 'deepspeed', 'prefect'}} & set(sys.modules)))"
    root = Path(__file__).parents[4]
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert asked.stdout.strip() == "[]"


def test_the_held_out_set_is_a_dataset_of_its_own() -> None:
    """Same sizes and budget, another split, its own name; asking for it does not change the dataset."""
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
    with pytest.raises(ValidationError, match="held_out = 4 requires split train, not test"):
        spec(held_out=4, split="test")


def test_instances_of_trials_are_never_labelled() -> None:
    """What challengers are chosen by is nobody's training data: the split "trial" has no labels."""
    with pytest.raises(ValidationError, match="'train', 'valid' or 'test'"):
        spec(split="trial")


def test_ranges_are_the_specs_else_the_citys_else_the_papers() -> None:
    """Ranges decide the hash, whoever has said so; a synthetic city's is what it was."""
    here = City(CITY.xy, demand=(2, 12), capacity=(40, 60))
    assert LabelSpec(dataset="d", smallest=20, largest=21, count=5).recipe(CITY).spec_hash == GOLDEN
    assert spec().rules_in(CITY) == Rules()
    assert spec().rules_in(here) == Rules((2, 12), (40, 60))
    assert spec(demand=(1, 3)).rules_in(here) == Rules((1, 3), (40, 60))
    given = spec(demand=(2, 12), capacity=(40, 60))
    assert spec().recipe(here).spec_hash == given.recipe(here).spec_hash == given.recipe(CITY).spec_hash
    assert spec().identity(CITY) == spec(demand=(1, 9)).identity(CITY)
    with pytest.raises(McvrpError, match="may hold 30 at n=20, a customer may want 40"):
        spec(demand=(1, 40)).rules_in(CITY).capacity_range(20)


@settings(max_examples=40, deadline=None)
@given(own=st.tuples(DEMANDS, CAPACITIES), asked=st.tuples(DEMANDS, CAPACITIES), i=st.integers(0, 2**32 - 1))
def test_a_source_has_the_instances_that_are_labelled(
    own: tuple[Range | None, Range | None], asked: tuple[Range | None, Range | None], i: int
) -> None:
    """Whatever ranges city and spec have, what is verified against is what the solver was given."""
    city = City(CITY.xy, demand=own[0], capacity=own[1])
    there = spec(demand=asked[0], capacity=asked[1], iterations=1)
    label = attempting(city, there.recipe(city), 20)(i, 1)
    instance = Source(there, city).stream(20, i)
    assert isinstance(label, Label)
    assert label.instance.ids.tolist() == instance.ids.tolist()
    assert label.instance.demands.tolist() == instance.demands.tolist()
    assert label.instance.capacity == instance.capacity
