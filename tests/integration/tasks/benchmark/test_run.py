"""Benchmark end to end on Ray, with real solvers and an untrained network."""

from __future__ import annotations

import json
import shutil
import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

import mcvrp.tasks.benchmark.prepare as benchmark_preparation
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, cost, infeasibility
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_part
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark import solving
from mcvrp.tasks.benchmark.run import results_frame, run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.write import write_report
from mcvrp.tasks.solvers.solver import SolverMissing
from tests.support.results import read_results
from tests.support.solving import one_dies, put_model

CITY = City.uniform(30, seed=5)
SPEC = BenchmarkSpec(
    run="b",
    sizes=(20, 22),
    instances=(5, 3),
    samples=(1, 4),
    heuristic_samples=(1, 2),
    methods=("hgs", "fm-gs", "fm-ns"),
    hgs_iterations=5,
    workers=1,
)
TIMED = ["seconds"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with an untrained model and its benchmark."""
    store = Store.open(str(tmp_path_factory.mktemp("store")))
    put_model(store, "m", CITY, alias=False)
    run_benchmark(store, CITY, SPEC, "m")
    return store


def files(store: Store) -> dict[str, int]:
    root = Path(store.uri)
    return {p: (root / p).stat().st_mtime_ns for p in store.list("benchmarks/b/parts")}


def copied(store: Store, folder: Path) -> Store:
    shutil.copytree(Path(store.uri), folder / "store")
    return Store.open(folder / "store")


def test_results_have_one_row_per_instance_method_and_number_of_samples(finished: Store) -> None:
    """8 instances; HGS at 1 and 2 runs, greedy once, nucleus at 1 and 4: 40 rows, recomputed from routes."""
    table = read_results(finished, "b")
    contract = {"method", "n", "index", "samples", "cost", "seconds", "feasible", "seed", "device"}
    assert contract <= set(table.column_names)
    frame = results_frame(table)
    assert len(frame) == 8 * 5
    assert frame["feasible"].all()
    assert not frame.duplicated(["method", "n", "index", "samples"]).any()
    assert frame.groupby("n")["index"].nunique().to_dict() == {20: 5, 22: 3}
    stream = InstanceStream(CITY, SPEC.seed, "test", SPEC.rules_in(CITY))
    largest = {(r["method"], r["n"], r["index"]): r for r in table.to_pylist() if r["costs"] is not None}
    assert len(largest) == 8 * 3
    for row in table.to_pylist():
        top = largest[row["method"], row["n"], row["index"]]
        assert row["cost"] == min(top["costs"][: row["samples"]])
    for row in largest.values():
        solution = Solution.of(row["routes"])
        assert infeasibility(stream(row["n"], row["index"]), solution) is None
        assert cost(CITY, solution) == pytest.approx(row["cost"], abs=1e-9)


def test_running_again_solves_only_a_lost_part(finished: Store) -> None:
    """Without one, the results stay byte for byte; after a kill they are those of an undisturbed run."""
    kept, results = files(finished), finished.get(layout.benchmark_results("b"))
    run_benchmark(finished, CITY, SPEC, "m")
    assert files(finished) == kept
    assert finished.get(layout.benchmark_results("b")) == results
    before = read_results(finished, "b").drop_columns(TIMED).to_pandas()
    lost = next(path for path in kept if "/hgs-" in path)
    for path in (lost, layout.benchmark_results("b")):
        finished.delete(path)
    run_benchmark(finished, CITY, SPEC, "m")
    again = files(finished)
    assert {path for path in again if again[path] != kept[path]} == {lost}
    pd.testing.assert_frame_equal(read_results(finished, "b").drop_columns(TIMED).to_pandas(), before)


def test_a_part_that_kills_its_workers_stops_no_other(
    finished: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other parts are solved, networks decode, results are written; the command asks to be repeated."""
    store = copied(finished, tmp_path)
    for path in (*files(store), layout.benchmark_results("b")):
        store.delete(path)

    with monkeypatch.context() as patch:
        patch.setattr(solving, "windowed", one_dies(0))
        with pytest.raises(IncompleteError, match=r"lost repeatedly on HGS, n=20, instances 0 to \d+ \("):
            run_benchmark(store, CITY, SPEC, "m")
    table = results_frame(read_results(store, "b"))
    assert set(table[~table["feasible"]]["method"]) == {"HGS"}
    assert set(table[~table["feasible"]]["n"]) == {20}
    run_benchmark(store, CITY, SPEC, "m")
    assert results_frame(read_results(store, "b"))["feasible"].all()


def test_methods_beyond_the_paper_are_never_worse_than_their_start(finished: Store, tmp_path: Path) -> None:
    """Local search is never worse than the samples; equal time is used."""
    beyond = ("fm-bs", "fm-ls", "random-ls", "hgs-equal", "pyvrp-equal")
    few = {"equal_time": 0.1, "beam_width": 3, "sizes": (20,), "instances": 2}
    spec = SPEC.model_copy(update={**few, "methods": ("fm-ns", *beyond)})
    store = copied(finished, tmp_path)
    before = files(store)
    run_benchmark(store, CITY, spec, "m")
    frame = results_frame(read_results(store, "b"))
    cost_of: dict[Any, Any] = {(r.method, r.samples, r.index): r.cost for r in frame.itertuples()}
    assert frame["feasible"].all()
    for index in range(2):
        sampled = {samples: cost_of["FM-MCVRP (NS)", samples, index] for samples in (1, 4)}
        for samples in (1, 4):
            assert cost_of["FM-MCVRP (NS) + local search", samples, index] <= sampled[samples] + 1e-9
        starts = [cost_of["Random solutions + local search", samples, index] for samples in (1, 4)]
        assert starts[0] >= starts[1] > 0
    assert (frame.loc[frame["method"] == "HGS (0.1 s)", "seconds"] > 0.09).all()
    done = files(store)
    assert before.items() <= done.items()
    run_benchmark(store, CITY, spec, "m")
    assert files(store) == done


def test_each_beam_width_is_a_row(finished: Store, tmp_path: Path) -> None:
    """A further width costs only itself, and the answers are those of a benchmark of that width alone."""
    store = copied(finished, tmp_path)
    costs = dict[int, list[float]]()
    for width in (1, 4):
        alone = SPEC.model_copy(update={"methods": ("fm-gs", "fm-bs"), "beam_width": width})
        frame = run_benchmark(store, CITY, alone, "m").frame
        costs[width] = frame.loc[frame["method"] == "FM-MCVRP (BS)", "cost"].tolist()
    before = files(store)
    both = alone.model_copy(update={"beam_width": (1, 3, 4)})
    frame = run_benchmark(store, CITY, both, "m").frame
    beams = frame[frame["method"] == "FM-MCVRP (BS)"]
    assert Counter(beams["samples"]) == {width: sum(SPEC.counts.values()) for width in (1, 3, 4)}
    assert {width: beams.loc[beams["samples"] == width, "cost"].tolist() for width in costs} == costs
    assert len(frame) == len(beams) + sum(SPEC.counts.values())
    assert before.items() <= files(store).items()
    new = files(store).keys() - before.keys()
    assert {samples for path in new for row in read_part(store, path) for samples in row.samples} == {3}


def test_summary_and_page_agree_with_the_results(finished: Store) -> None:
    returned = write_report(finished, CITY, run_benchmark(finished, CITY, SPEC, "m"))
    summary = finished.get_json("benchmarks/b/summary.json")
    assert summary == json.loads(json.dumps(asdict(returned)))
    frame = results_frame(read_results(finished, "b"))
    cost_of: dict[Any, Any] = {(r.method, r.samples, r.n, r.index): r.cost for r in frame.itertuples()}
    keys = [(20, i) for i in range(5)] + [(22, i) for i in range(3)]
    for name, method, samples in (
        ("greedy", "FM-MCVRP (GS)", 1),
        ("best of 4 samples", "FM-MCVRP (NS)", 4),
    ):
        gaps = [100 * (cost_of[method, samples, *k] / cost_of["HGS", 1, *k] - 1) for k in keys]
        error = statistics.stdev(gaps) / 8**0.5
        assert summary["gaps"][name] == pytest.approx([statistics.mean(gaps), error])
    page = finished.get("benchmarks/b/report.html").decode()
    figures = ("gap-time", "distances-single", "solution", "best-gap-22")
    assert all(f'id="{figure}"' in page for figure in figures)


def test_another_model_invalidates_only_the_networks_rows(finished: Store) -> None:
    before = files(finished)
    put_model(finished, "m", CITY, 2, alias=False)
    run_benchmark(finished, CITY, SPEC, "m")
    after = files(finished)
    assert all(after[path] == before[path] for path in before)
    assert {path.split("/")[3][:5] for path in after.keys() - before.keys()} == {"fm-gs", "fm-ns"}


def test_the_champion_is_measured_unless_a_version_is_named(store: Store) -> None:
    """Not the latest version, which a night may have rejected."""
    put_model(store, "m", CITY)
    put_model(store, "m", CITY, 2, alias=False)
    few = {"methods": ("fm-gs",), "sizes": (20,), "instances": 1}
    measured = dict[object, int]()
    for version in (None, "champion", "challenger", "latest", 2):
        results = run_benchmark(store, CITY, SPEC.model_copy(update={**few, "version": version}), "m")
        assert results.card
        measured[version] = results.card.version
    assert measured == {None: 1, "champion": 1, "challenger": 2, "latest": 2, 2: 2}


def test_a_missing_solver_has_a_reason(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = SolverMissing("LKH-3 is not installed: pip install elkai")
    monkeypatch.setattr(benchmark_preparation, "heuristic", Mock(side_effect=absent))
    results = run_benchmark(store, CITY, SPEC.model_copy(update={"methods": ("lkh3",), "run": "l"}))
    summary = write_report(store, CITY, results)
    assert "LKH-3: no answer on 5 of 5 instances (N = 20), 3 of 3 instances (N = 22)" in summary.markdown
    assert "LKH-3 is not installed: pip install elkai" in summary.markdown


def test_invalid_input_is_refused_before_any_work(store: Store, finished: Store) -> None:
    with pytest.raises(McvrpError, match="fm-ns need a model"):
        run_benchmark(store, CITY, SPEC)
    with pytest.raises(McvrpError, match=r"routes city .*, not city"):
        run_benchmark(finished, City.uniform(30, seed=6), SPEC, "m")
    assert store.list("") == []
    path = next(path for path in files(finished) if "/hgs-" in path)
    data = finished.get(path)
    finished.put(path, data[:100])
    with pytest.raises(McvrpError, match="not a readable Parquet"):
        run_benchmark(finished, CITY, SPEC, "m")
    finished.put(path, data)
