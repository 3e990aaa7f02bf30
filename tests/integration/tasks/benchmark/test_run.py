"""Benchmark end to end on Ray, with real solvers and an untrained network."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import mcvrp.tasks.benchmark.prepare as benchmark_preparation
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, cost, infeasibility
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_part, read_results, write_part
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.results import results_frame
from mcvrp.tasks.benchmark.run import run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.write import write_report
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.solver import SolverMissing
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.silent_store import Outage, check_outlasted
from tests.support.solving import put_model

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
TIMED = ["seconds", "other_cores"]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    """A session for all benchmarks in this module; the killed one is a separate process."""
    with ray_session(1):
        yield


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


def test_results_have_one_row_per_instance_method_and_number_of_samples(finished: Store) -> None:
    """8 instances; HGS at 1 and 2 runs, greedy once, nucleus at 1 and 4: 40 feasible rows."""
    table = pq.read_table(io.BytesIO(finished.get(layout.benchmark_results("b"))))
    contract = {"method", "n", "index", "samples", "cost", "seconds", "feasible", "seed", "device"}
    assert contract <= set(table.column_names)
    frame = results_frame(table)
    assert len(frame) == 8 * 5
    assert frame["feasible"].all()
    assert not frame.duplicated(["method", "n", "index", "samples"]).any()
    assert frame.groupby("n")["index"].nunique().to_dict() == {20: 5, 22: 3}


def test_stored_costs_are_those_of_the_stored_routes(finished: Store) -> None:
    """The best of the samples, recomputed from routes and city; fewer samples are a prefix."""
    stream = InstanceStream(CITY, SPEC.seed, "test", SPEC.rules_in(CITY))
    rows = read_results(finished, "b").to_pylist()
    largest = {(r["method"], r["n"], r["index"]): r for r in rows if r["costs"] is not None}
    assert len(largest) == 8 * 3
    for row in rows:
        top = largest[row["method"], row["n"], row["index"]]
        assert row["cost"] == min(top["costs"][: row["samples"]])
    for row in largest.values():
        solution = Solution.of(row["routes"])
        assert infeasibility(stream(row["n"], row["index"]), solution) is None
        assert cost(CITY, solution) == pytest.approx(row["cost"], abs=1e-9)


def test_running_again_solves_nothing_and_writes_the_same_results(finished: Store) -> None:
    """Existing parts are complete: none is touched, and the results are byte for byte the same."""
    before, results = files(finished), finished.get(layout.benchmark_results("b"))
    run_benchmark(finished, CITY, SPEC, "m")
    assert files(finished) == before
    assert finished.get(layout.benchmark_results("b")) == results


def test_only_a_lost_part_is_solved_again(finished: Store) -> None:
    """A removed part is solved again; heuristics limited by iterations give the same costs."""
    before = results_frame(read_results(finished, "b"))
    kept = files(finished)
    lost = next(path for path in kept if "/hgs-" in path)
    finished.delete(lost)
    run_benchmark(finished, CITY, SPEC, "m")
    again = files(finished)
    assert {path for path in again if again[path] != kept[path]} == {lost}
    np.testing.assert_array_equal(results_frame(read_results(finished, "b"))["cost"], before["cost"])


def test_an_extension_solves_what_is_new_and_touches_nothing(finished: Store, tmp_path: Path) -> None:
    """More methods, sizes, instances and samples: new parts hold those, and old ones stay."""
    shutil.copytree(Path(finished.uri), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    before = files(store)
    more = {
        "methods": ("hgs", "pyvrp", "fm-gs", "fm-ns"),
        "pyvrp_iterations": 20,
        "sizes": (20, 21, 22),
        "instances": (6, 1, 3),
        "samples": (1, 4, 6),
        "heuristic_samples": (1, 3),
    }
    wider = SPEC.model_copy(update=more)
    run_benchmark(store, CITY, wider, "m")
    after = files(store)
    assert before.items() <= after.items()
    samples: Counter[str] = Counter()
    for path in after.keys() - before.keys():
        for row in read_part(store, path):
            samples[row.method] += len(row.costs)
    assert samples == {
        "HGS": 8 * 1 + 2 * 3,  # the third run of stored instances, all three of new ones
        "PyVRP": 10 * 3,
        "FM-MCVRP (GS)": 2 * 1,
        "FM-MCVRP (NS)": 10 * 6,  # six are decoded and timed together; the two smaller numbers exist
    }
    stream = InstanceStream(CITY, SPEC.seed, "test", SPEC.rules_in(CITY))
    (direct,) = HGS(iterations=5).solve(CITY, [stream(22, 1)], samples=3, seed=SPEC.seed)
    rows = {(r["method"], r["n"], r["index"], r["samples"]): r for r in read_results(store, "b").to_pylist()}
    assert rows["HGS", 22, 1, 3]["costs"] == direct.costs.tolist()
    assert len(rows) == 10 * (2 + 2 + 1 + 3)
    run_benchmark(store, CITY, SPEC, "m")  # fewer samples are a prefix
    assert files(store) == after
    np.testing.assert_allclose(
        results_frame(read_results(store, "b"))["cost"], results_frame(read_results(finished, "b"))["cost"]
    )


KILLED = """
import sys
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
spec = BenchmarkSpec.model_validate_json(sys.argv[2])
run_benchmark(Store.open(sys.argv[1]), City.uniform(30, seed=5), spec, "m")
"""


@pytest.mark.slow
def test_a_killed_benchmark_resumes(finished: Store, scratch: Path) -> None:
    """SIGKILL after the first part: the same command gives the results of an undisturbed run."""
    store = Store.open(scratch)
    put_model(store, "m", CITY, alias=False)
    command = [sys.executable, "-c", KILLED, str(scratch), SPEC.model_dump_json(exclude_none=True)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300  # Ray takes minutes to start on a busy machine
    try:
        while not files(store):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    kept = files(store)
    assert not store.exists(layout.benchmark_results("b"))
    run_benchmark(store, CITY, SPEC, "m")
    assert kept.items() <= files(store).items()
    one, other = (read_results(each, "b").drop_columns(TIMED).to_pandas() for each in (store, finished))
    pd.testing.assert_frame_equal(one, other)


def test_methods_beyond_the_paper_are_never_worse_than_their_start(finished: Store, tmp_path: Path) -> None:
    """Local search, re-construction and warm starts are never worse than the samples; equal time is used."""
    beyond = ("fm-bs", "fm-ls", "random-ls", "fm-rrc", "hgs-equal", "pyvrp-equal", "fm-hgs", "fm-pyvrp")
    few = {"equal_time": 0.1, "rounds": 2, "beam_width": 3, "sizes": (20,), "instances": 2}
    spec = SPEC.model_copy(update={**few, "methods": ("fm-ns", *beyond)})
    shutil.copytree(Path(finished.uri), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    before = files(store)
    run_benchmark(store, CITY, spec, "m")
    frame = results_frame(read_results(store, "b"))
    cost_of: dict[Any, Any] = {(r.method, r.samples, r.index): r.cost for r in frame.itertuples()}
    assert frame["feasible"].all()
    for index in range(2):
        for samples in (1, 4):
            sampled = cost_of["FM-MCVRP (NS)", samples, index]
            assert cost_of["FM-MCVRP (NS) + local search", samples, index] <= sampled + 1e-9
        for name in ("re-construction", "HGS (equal time)", "PyVRP (equal time)"):
            assert cost_of[f"FM-MCVRP (NS) + {name}", 4, index] <= sampled + 1e-9
        assert cost_of["FM-MCVRP (BS)", 3, index] < math.inf
        starts = [cost_of["Random solutions + local search", samples, index] for samples in (1, 4)]
        assert starts[0] >= starts[1] > 0
    for method in ("HGS (equal time)", "FM-MCVRP (NS) + HGS (equal time)"):
        assert (frame.loc[frame["method"] == method, "seconds"] > 0.09).all()
    done = files(store)
    assert before.items() <= done.items()
    run_benchmark(store, CITY, spec, "m")
    assert files(store) == done


def test_summary_and_page_agree_with_the_results(finished: Store) -> None:
    """Mean gaps are recomputed over all instances of all sizes; all files that the page links to exist."""
    returned = write_report(finished, CITY, run_benchmark(finished, CITY, SPEC, "m"))
    summary = finished.get_json("benchmarks/b/summary.json")
    assert summary == json.loads(json.dumps(asdict(returned)))
    frame = results_frame(read_results(finished, "b"))
    cost_of: dict[Any, Any] = {(r.method, r.samples, r.n, r.index): r.cost for r in frame.itertuples()}
    keys = [(20, i) for i in range(5)] + [(22, i) for i in range(3)]
    for name, method, samples in (("gs", "FM-MCVRP (GS)", 1), ("ns", "FM-MCVRP (NS)", 4)):
        gaps = [100 * (cost_of[method, samples, *k] / cost_of["HGS", 1, *k] - 1) for k in keys]
        assert summary[f"{name}_mean_gap"] == pytest.approx(sum(gaps) / 8)
    assert 0 <= summary["encoder_accuracy"] <= 1
    page = finished.get("benchmarks/b/report.html").decode()
    figures = ("distances-single", "distances", "times", "gaps", "solution", "best-gap-22")
    for figure in figures:
        assert f'id="{figure}"' in page
    links = [link for link in re.findall(r'href="([^"]+)"', page) if not link.startswith(("..", "#"))]
    # results, summary, configuration; PNG and SVG of each figure; six tables in three formats
    assert len(links) == 3 + 2 * len(figures) + 3 * 6
    for link in links:
        assert finished.exists(f"benchmarks/b/{link}")


def test_another_model_invalidates_only_the_networks_rows(finished: Store) -> None:
    """A new version keeps the parts of heuristics and has no decoded parts yet."""
    before = files(finished)
    put_model(finished, "m", CITY, 2, alias=False)
    run_benchmark(finished, CITY, SPEC, "m")
    after = files(finished)
    assert all(after[path] == before[path] for path in before)
    assert {path.split("/")[3][:5] for path in after.keys() - before.keys()} == {"fm-gs", "fm-ns"}
    run_benchmark(finished, CITY, SPEC, "m", 1)  # the parts of version 1 still exist
    assert files(finished) == after


def test_a_missing_solver_keeps_its_rows_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without LKH-3 the run succeeds; the table has its row, and a note the reason."""

    def absent(spec: BenchmarkSpec, method: str) -> None:
        raise SolverMissing("LKH-3 is not installed: pip install elkai")

    monkeypatch.setattr(benchmark_preparation, "heuristic", absent)
    store = Store.open(str(tmp_path))
    results = run_benchmark(store, CITY, SPEC.model_copy(update={"methods": ("lkh3",), "run": "l"}))
    summary = write_report(store, CITY, results)
    assert summary.failures == {"LKH-3": (8, "LKH-3 is not installed: pip install elkai")}
    assert "| LKH-3 (s = 2) | – |" in summary.markdown
    assert "LKH-3 has no figures: LKH-3 is not installed" in summary.markdown


def test_invalid_input_is_refused_before_any_work(tmp_path: Path, finished: Store) -> None:
    """A city too small, no capacity rule, no model, another city's model, a corrupt part."""
    store = Store.open(str(tmp_path))
    for change, reason in (({"sizes": (31, 32)}, "30 customers"), ({"sizes": (5, 6)}, "no capacity rule")):
        with pytest.raises(McvrpError, match=reason):
            run_benchmark(store, CITY, SPEC.model_copy(update=change), "m")
    with pytest.raises(McvrpError, match="no model 'm'"):
        run_benchmark(store, CITY, SPEC, "m")
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


def test_a_report_is_written_again_without_solving(tmp_path: Path) -> None:
    """Stored costs of the same routes that differ by rounding are not wins in a new report."""
    store, metres = Store.open(tmp_path), City.framed(CITY.xy * 20_000)
    spec = SPEC.model_copy(update={"methods": ("hgs", "pyvrp"), "heuristic_samples": (1,), "run": "m"})
    spec = spec.model_copy(update={"hgs_iterations": 500, "pyvrp_iterations": 500})
    run_benchmark(store, metres, spec)
    for path in store.list("benchmarks/m/parts"):
        if "/pyvrp-" in path:
            rows = read_part(store, path)
            rounded = [replace(row, costs=(row.costs[0] * (1 - 1e-13),)) for row in rows]
            write_part(store, path, rounded)
    answers = {path: store.get(path) for path in store.list("benchmarks/m/parts")}
    store.put("benchmarks/m/table.csv", b"n,method,samples,wins\n20,PyVRP,1,5\n")
    write_report(store, metres, run_benchmark(store, metres, spec))
    assert {path: store.get(path) for path in answers} == answers
    table = pd.read_csv(io.BytesIO(store.get("benchmarks/m/table.csv"))).set_index(["n", "method"])
    assert table["wins"].dropna().to_dict() == {(20, "PyVRP"): 0, (22, "PyVRP"): 0}


@pytest.mark.parametrize("most", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_benchmark_outlasts_a_silent_store(tmp_path: Path, outage: Outage, most: int) -> None:
    """Costs are the same, whichever request of the driver gets no response for a while."""
    store = Store.open(tmp_path / "store")
    put_model(store, "m", CITY, alias=False)

    def costs(other: Store) -> object:
        run_benchmark(other, CITY, SPEC, "m")
        rows = results_frame(read_results(other, "b")).sort_values(["method", "n", "index", "samples"])
        return rows["cost"].tolist()

    check_outlasted(store, tmp_path / "silent", outage, costs, at_least=20, exact="nothing", most=most)
