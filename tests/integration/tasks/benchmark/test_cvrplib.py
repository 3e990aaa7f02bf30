"""Benchmark on CVRPLIB instances with real solvers on Ray."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark import solving
from mcvrp.tasks.benchmark.cvrplib import CvrplibResults, run_cvrplib, vrp_paths
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from tests.support.solving import one_dies

DATA = Path(__file__).parents[3] / "support" / "data"
SPEC = BenchmarkSpec(sizes=(20,), methods=("hgs", "fm-gs"), hgs_iterations=300, workers=1)
STRAIGHT = (DATA / "E-n22-k4.vrp").read_text().replace("EUC_2D", "CEIL_2D")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One instance with its best known solution, and one without."""
    instances = tmp_path / "set e"
    instances.mkdir()
    for ending in ("vrp", "sol"):
        shutil.copy(DATA / f"E-n22-k4.{ending}", instances)
    (instances / "up.vrp").write_text(STRAIGHT)
    return instances


def run(store: Store, folder: Path, **changes: object) -> CvrplibResults:
    return run_cvrplib(store, str(folder), SPEC.model_copy(update=changes))


def test_gaps_are_to_the_best_known(store: Store, folder: Path) -> None:
    """One answer per file, a gap if it has a .sol file; a second run solves only what is new."""
    first = run(store, folder).table
    assert first["instance"].tolist() == ["E-n22-k4", "up"]
    assert first["cost"].iloc[0] == 375
    assert first["gap"].fillna(-1).tolist() == [0, -1]
    assert first["cost"].iloc[1] > 375
    parts = {path: store.get(path) for path in store.list("benchmarks/set-e/parts")}
    assert len(parts) == 2
    both = run(store, folder, methods=("hgs", "pyvrp"), pyvrp_iterations=100)
    assert both.table["method"].tolist() == ["HGS", "PyVRP"] * 2
    assert {path: store.get(path) for path in parts} == parts
    assert both.table[both.table["method"] == "HGS"]["seconds"].tolist() == first["seconds"].tolist()
    readme = store.get("benchmarks/set-e/README.md").decode()
    assert "| E-n22-k4 | 21 | HGS | 1 | 375 | 375 | 0.00 % |" in readme
    assert "no gap, because there is no .sol file: up" in readme


def test_equal_instances_share_their_answers(store: Store, folder: Path) -> None:
    shutil.copy(folder / "up.vrp", folder / "again.vrp")
    for runs in ((1,), (1, 2)):
        table = run(store, folder, heuristic_samples=runs).table
        costs = table.groupby("instance")["cost"].apply(list)
        assert costs["again"] == costs["up"]
        assert table["cost"].notna().all()
        assert len(table) == 3 * len(runs)
    assert len(store.list("benchmarks/set-e/parts")) == 4


def test_an_instance_that_kills_its_workers_stops_no_other(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that share it have no answer either; the others are in the table."""
    shutil.copy(folder / "up.vrp", folder / "again.vrp")

    with monkeypatch.context() as patch:
        patch.setattr(solving, "windowed", one_dies(1))
        with pytest.raises(IncompleteError, match="lost repeatedly"):
            run(store, folder)
    readme = store.get("benchmarks/set-e/README.md").decode()
    assert readme.count("| HGS | 1 | – |") == 2
    assert "| E-n22-k4 | 21 | HGS | 1 | 375 | 375 | 0.00 % |" in readme
    assert run(store, folder).table["cost"].notna().all()


def test_instances_in_subfolders_belong_to_other_sets(store: Store, folder: Path) -> None:
    """As in a local folder."""
    for path in ("set/up.vrp", "set/old/up.vrp"):
        store.put(path, (folder / "up.vrp").read_bytes())
    assert vrp_paths(store, "store:set/") == ["store:set/up.vrp"]
    with pytest.raises(McvrpError, match=r"add files that end in \.vrp"):
        vrp_paths(store, "store:")


def test_an_invalid_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    store = Store.open(tmp_path / "store")
    with pytest.raises(McvrpError, match="there is no local folder"):
        vrp_paths(store, str(tmp_path / "nowhere"))
    with pytest.raises(McvrpError, match=r"add files that end in \.vrp"):
        vrp_paths(store, str(tmp_path))
    with pytest.raises(McvrpError, match="a model is tied to one city"):
        run(store, folder, methods=("fm-gs",))
    (folder / "up.vrp").write_text(STRAIGHT.replace("DIMENSION : 22", "DIMENSION : 23"))
    with pytest.raises(McvrpError, match=r"up\.vrp has 22 rows .* DIMENSION, 23"):
        run(store, folder)
    (folder / "up.vrp").unlink()
    store.put("benchmarks/set-e/results.parquet", b"another")
    with pytest.raises(McvrpError, match="a benchmark of another kind"):
        run(store, folder)
