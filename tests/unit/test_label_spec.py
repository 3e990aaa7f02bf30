"""The spec of a dataset, the survey of what is missing, and how the rest is cut into units."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model.problem import City
from storage.labels import LabelFile
from storage.schemas import Footer
from tasks.label_chunk import solver_seed
from tasks.label_plan import ShardJob, cut_into_units, missing_rows
from tasks.label_spec import LabelSpec, seconds_an_instance

CITY = City.uniform(60, seed=3)
BASE = {"dataset": "d", "smallest": 20, "largest": 22, "count": 100}


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
        ({"solver": "pyvrp", "fleet": 10}, "only hgs takes a fleet"),
        ({"fleet": 0}, "at least one vehicle"),
        ({"solver": "pyvrp", "population": 5}, "only hgs has one"),
        ({"population": 1}, "population"),
        ({"solver": "lkh3", "time_limit": 1.0}, "lkh3 has no time_limit"),
        ({"demand": (0, 9)}, "demand"),
        ({"demand": (5, 4)}, "demand"),
        ({"demand": (1, 2**16)}, "demand"),
        ({"capacity": (8, 20)}, r"capacity = \[8, 20\] is no range from the largest demand, 9, up"),
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
        {"demand": (1, 8)},
        {"capacity": (30, 40)},
    ]
    hashes = {spec(**other).recipe(CITY).spec_hash for other in others}
    hashes.add(spec().recipe(City.uniform(60, seed=4)).spec_hash)
    assert len(hashes | {own}) == len(others) + 2


def test_solver_seeds_are_their_own() -> None:
    """The seed of an instance is a fixed function of three numbers, and rarely another's."""
    seeds = {solver_seed(s, n, i) for s in (1, 2) for n in (20, 21) for i in range(1000)}
    assert len(seeds) > 3990
    assert max(seeds) < 2**30
    assert solver_seed(1, 20, 0) == 876383063


def file(start: int, stop: int) -> LabelFile:
    return LabelFile(f"{start}-{stop}", Footer("s", "c", 20, start, stop, "0"))


RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


@given(RANGES, st.integers(0, 40), st.integers(1, 40))
def test_gaps_are_the_rows_in_no_file(ranges: list[tuple[int, int]], start: int, rows: int) -> None:
    """Whatever files there are, overlapping or not, exactly the missing rows are missing."""
    there = {row for first, last in ranges for row in range(first, last)}
    gaps = list(missing_rows([file(*r) for r in ranges], start, start + rows))
    missing = [row for first, last in gaps for row in range(first, last)]
    assert missing == [row for row in range(start, start + rows) if row not in there]
    assert all(first < last for first, last in gaps)


@given(
    st.lists(RANGES, min_size=1, max_size=4),
    st.integers(1, 400),
    st.sampled_from([{"iterations": 30}, {"time_limit": 5.0}, {"iterations": 5000}]),
)
def test_units_are_the_missing_rows_whatever_their_size(
    ranges: list[list[tuple[int, int]]], workers: int, budget: dict[str, float]
) -> None:
    """More workers mean other units, never other rows; no unit lasts much longer than a minute."""
    wanted = spec(**budget)
    jobs = []
    for k, there in enumerate(ranges):
        gaps = list(missing_rows([file(*r) for r in there], 0, 60))
        jobs.append(ShardJob(20 + k, 0, 0, 60, [], gaps))
    units = list(cut_into_units(wanted, jobs, workers))
    made = {(job.n, row) for job, start, stop in units for row in range(start, stop)}
    missing = {(job.n, row) for job in jobs for start, stop in job.gaps for row in range(start, stop)}
    assert made == missing
    assert sum(stop - start for _, start, stop in units) == len(missing)
    for job, start, stop in units:
        assert start < stop
        assert stop - start == 1 or (stop - start) * seconds_an_instance(wanted, job.n) < 90
    assert [job.units for job in jobs] == [sum(job is j for j, _, _ in units) for job in jobs]


def test_there_is_work_for_every_worker() -> None:
    """A small dataset is cut finely enough for all workers to have some."""
    job = ShardJob(20, 0, 0, 4000, [], [(0, 4000)])
    units = list(cut_into_units(spec(iterations=30), [job], 8))
    assert len(units) >= 2 * 8


@pytest.mark.parametrize("module", ["tasks.labels", "tasks.label_chunk", "tasks.solvers.hgs"])
def test_a_solver_worker_starts_light(module: str) -> None:
    """What a worker imports brings neither torch nor DeepSpeed nor Prefect."""
    code = f"import sys, {module}; print(sorted({{'torch', 'deepspeed', 'prefect'}} & set(sys.modules)))"
    root = Path(__file__).parents[2]
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert asked.stdout.strip() == "[]"
