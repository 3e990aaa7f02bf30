"""Garbage collection of benchmarks with real solvers: answers of the last spec are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark import cvrplib, run as benchmark, solving
from mcvrp.tasks.benchmark.cvrplib import run_cvrplib
from mcvrp.tasks.benchmark.run import run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.gc import RetentionSpec, clean
from tests.support.solving import one_dies, put_model

DAY = 86_400.0
DATA = Path(__file__).parents[3] / "support" / "data"
CITY = City.uniform(30, seed=5)
SPEC = BenchmarkSpec(
    run="b",
    sizes=(20, 22),
    instances=(3, 2),
    samples=(1, 4),
    heuristic_samples=(1,),
    methods=("hgs", "random-ls", "fm-gs", "fm-ns"),
    hgs_iterations=5,
    workers=1,
)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are solved one after another: Ray would take longer to start."""
    monkeypatch.setattr(solving, "windowed", one_dies(-1))
    for module in (cvrplib, benchmark):
        monkeypatch.setattr(module, "ray_session", lambda _: nullcontext(1))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    put_model(store, "m", CITY)
    return store


def run(store: Store, **changes: object) -> None:
    run_benchmark(store, CITY, SPEC.model_copy(update=changes), "m")


def parts(store: Store) -> dict[str, int]:
    root = Path(store.uri)
    found = (path for path in store.list("benchmarks") if "/parts/" in path)
    return {path: (root / path).stat().st_mtime_ns for path in found}


def cleaned(store: Store, after: float = 100.0) -> set[str]:
    """Return the paths that are removed ``after`` so many days."""
    return {each.path for each in clean(store, RetentionSpec(), delete=True, now=time.time() + after * DAY)}


FIRST: dict[str, object] = {}
RUNS: dict[str, object] = {"heuristic_samples": (1, 4)}


@pytest.mark.parametrize(
    "asked",
    [
        [FIRST, RUNS, {"heuristic_samples": (1, 2, 7)}],
        [
            {"heuristic_samples": (4,), "samples": (1, 2, 8)},
            {"heuristic_samples": (1, 3, 4), "samples": (2, 6)},
        ],
        [{"instances": (5, 3)}, {"instances": (1, 1), "samples": (1,)}],
    ],
)
def test_what_was_asked_for_last_is_never_solved_again(
    store: Store, asked: Sequence[dict[str, object]]
) -> None:
    for changes in asked:
        run(store, **changes)
    results = store.get(layout.benchmark_results("b"))
    cleaned(store)
    kept = parts(store)
    run(store, **asked[-1])
    assert parts(store) == kept
    assert store.get(layout.benchmark_results("b")) == results


def test_answers_of_settings_that_changed_go(store: Store) -> None:
    run(store, heuristic_samples=(1, 2), methods=("hgs", "random-ls", "fm-gs"))
    run(store, heuristic_samples=(1, 3), methods=("hgs", "random-ls", "fm-gs"))
    before = parts(store)
    run(store, hgs_iterations=6, methods=("hgs", "fm-gs"))
    after = parts(store)
    old = {path for path in before if "/fm-gs-" not in path}
    assert {path.split("/")[3].split("-")[0] for path in old} == {"hgs", "random"}
    assert cleaned(store) == {path.rpartition("/n=")[0] for path in old}
    assert parts(store).keys() == after.keys() - old


def test_a_benchmark_that_was_stopped_keeps_what_it_had(store: Store) -> None:
    """Parts with other settings may be of an unfinished run, which may be resumed for `keep_days`."""
    run(store, methods=("hgs",))
    results = store.get(layout.benchmark_results("b"))
    run(store, methods=("hgs",), hgs_iterations=6)
    # as if the second had been killed before its results, and the store been copied since
    store.put(layout.benchmark_results("b"), results)
    both = parts(store)
    assert cleaned(store, after=29) == set()
    assert parts(store) == both
    (removed,) = cleaned(store, after=31)
    assert removed.startswith("benchmarks/b/parts/hgs-")


def test_answers_to_instances_of_cvrplib_stay(tmp_path: Path) -> None:
    """Each instance has its own settings, equal ones share answers; none is lost."""
    store, folder = Store.open(tmp_path / "store"), tmp_path / "set"
    folder.mkdir()
    for name in ("one", "same"):
        shutil.copy(DATA / "E-n22-k4.vrp", folder / f"{name}.vrp")
    (folder / "up.vrp").write_text((DATA / "E-n22-k4.vrp").read_text().replace("EUC_2D", "CEIL_2D"))
    spec = SPEC.model_copy(update={"methods": ("hgs",)})
    run_cvrplib(store, str(folder), spec)
    kept = parts(store)
    assert len(kept) == 2
    assert cleaned(store) == set()
    run_cvrplib(store, str(folder), spec)
    assert parts(store) == kept
