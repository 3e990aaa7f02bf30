"""Figures of a report: their instances, sizes and methods, and the values that they name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mcvrp.tasks.report.pictures as report_pictures
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.benchmarks import PartRow, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import BenchmarkResults
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.metrics import MethodRun
from mcvrp.tasks.report.paper import compared_size
from mcvrp.tasks.report.pictures import best_of_the_model, pictures
from mcvrp.tasks.support.pictures import png
from tests.support.results import read_results, routed_rows, rows_of

CITY, RULES = City.uniform(40, seed=1), Rules(capacity=(30, 39))
COSTS = {20: (5.0, 4.0, 6.0), 30: (7.0, 8.0)}  # of the model; HGS always has 5


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ((20, 400, 800), 400, 400),  # the paper's
        ((20, 100, 200), 400, 200),  # none so large: the largest that was trained on
        ((20, 24, 400), 24, 24),  # 400 is beyond this model's training
        ((600, 800), 400, 800),  # larger sizes only
    ],
)
def test_distributions_are_compared_at_the_papers_size_or_the_largest_trained(
    sizes: tuple[int, ...], limit: int, expected: int
) -> None:
    assert compared_size(pd.DataFrame({"n": sizes}), limit) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("FM-MCVRP (NS)", 1, 5.0), ("FM-MCVRP (NS)", 100, 4.0)], ("FM-MCVRP (NS)", 100)),
        ([("FM-MCVRP (NS)", 100, None), ("FM-MCVRP (GS)", 1, 5.0)], ("FM-MCVRP (GS)", 1)),
        ([("HGS", 1, 5.0)], None),
    ],
)
def test_the_models_best_is_its_sampling_with_the_most_samples(
    rows: list[tuple[str, int, float | None]], expected: MethodRun | None
) -> None:
    assert best_of_the_model(pd.DataFrame(rows, columns=["method", "samples", "cost"])) == expected


def test_examples_are_at_the_median_and_the_best_gap(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model on the left, HGS on the right; the best gap also of the largest size beyond training."""
    drawn: list[tuple[int, list[str]]] = []

    def record(city: City, instance: Instance, panels: list[tuple[str, Solution]], reference: int) -> str:
        assert reference == 1
        drawn.append((instance.n, [title for title, _ in panels]))
        return f"figure {instance.ids.tolist()}"

    monkeypatch.setattr(report_pictures, "solutions", record)
    monkeypatch.setattr(report_pictures, "png", lambda figure: str(figure).encode())
    figures = {
        picture.name: picture
        for picture in pictures(CITY, results(store), 20)
        if "instance with" in picture.caption
    }
    assert list(figures) == ["solution", "best-gap-20", "best-gap-30"]
    assert drawn == [(n, ["model, greedy", "HGS"]) for n in (20, 20, 30)]
    stream = InstanceStream(CITY, 1, "test", RULES)
    for name, n, index in (("solution", 20, 0), ("best-gap-20", 20, 1), ("best-gap-30", 30, 0)):
        assert figures[name].png == f"figure {stream(n, index).ids.tolist()}".encode()
        assert f"(number {index})" in figures[name].caption


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("store"))


def test_methods_that_solved_no_instance_in_common_have_no_gaps(store: Store) -> None:
    stream = InstanceStream(CITY, 1, "test", RULES)
    rows = routed_rows(stream, {"HGS": {20: [5.0, 5.0]}, "FM-MCVRP (GS)": {20: [6.0, 6.0]}})
    rows = [row if (row.method == "HGS") == (row.index == 0) else unsolved(row) for row in rows]
    assert list(pictures(CITY, stored(store, rows), 20)) == []


def unsolved(row: PartRow) -> PartRow:
    return replace(row, costs=(), routes=None, failure="none")


def results(store: Store) -> BenchmarkResults:
    base = {n: [5.0] * len(costs) for n, costs in COSTS.items()}
    rows = routed_rows(InstanceStream(CITY, 1, "test", RULES), {"HGS": base, "FM-MCVRP (GS)": COSTS})
    return stored(store, rows)


def stored(store: Store, rows: list[PartRow]) -> BenchmarkResults:
    write_results(store, "b", rows)
    spec = BenchmarkSpec(run="b", sizes=(20, 30), methods=("hgs", "fm-gs"), capacity=RULES.capacity)
    return BenchmarkResults(spec, None, read_results(store, "b"))


HGS, NS = ("HGS", 1), ("FM-MCVRP (NS)", 16)


def two_methods(sizes: tuple[int, ...], count: int) -> pd.DataFrame:
    costs = {n: np.linspace(4, 6, count) * n / 20 for n in sizes}
    return pd.concat(
        rows_of(method, n, (costs[n] * factor).tolist(), samples)
        for n in sizes
        for (method, samples), factor in ((HGS, 1.0), (NS, 1.02))
    )


def test_equal_data_are_equal_bytes() -> None:
    rows = two_methods((20,), 10)
    one, other = (report_pictures.distances(rows, 20, HGS, NS) for _ in range(2))
    assert png(one) == png(other)
