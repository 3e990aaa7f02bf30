"""Report of a stored benchmark: its files, its card, and the settings of its model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import mcvrp.tasks.report.pictures as report_pictures
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import BenchmarkResults
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.report.write import write_report
from mcvrp.tasks.solvers.hgs import HGS
from tests.support.results import read_results, routed_rows

CITY = City.uniform(40, seed=1)
SPEC = BenchmarkSpec(run="b", sizes=(20,), instances=3, methods=("hgs", "fm-gs", "fm-bs"), beam_width=(2, 4))
CARD = ModelCard("m", 1, CITY.city_id, {"classes": 41}, "r", "d", "f", True, {}, 1, "abc", 20, 20)


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Benchmark of a model whose training and labels are in the store; figures are not rendered."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    store.put_json(layout.run_spec("r"), {"batch": 256})
    monkeypatch.setattr(report_pictures, "png", lambda figure: b"png")
    costs = {20: (5.0, 6.0, 7.0)}
    stream = InstanceStream(CITY, 1, "test")
    rows = routed_rows(stream, {"HGS": costs, "FM-MCVRP (GS)": costs, "FM-MCVRP (BS)": costs})
    beams = [replace(row, samples=(4,)) if row.method.endswith("(BS)") else row for row in rows]
    write_results(store, "b", beams)
    return store


def report(store: Store) -> str:
    write_report(store, CITY, BenchmarkResults(SPEC, CARD, read_results(store, "b")))
    return store.get(f"{layout.benchmark_dir('b')}/report.html").decode()


def test_the_report_has_its_files_and_a_card(store: Store) -> None:
    """And settings as far as they are in the store; a damaged spec of the labels is as none."""
    folder = layout.benchmark_dir("b")
    assert "20 customers" in report(store)
    for name in ("configuration.json", "table.csv", "tables/training.csv", "figures/gap-time.png"):
        assert store.exists(f"{folder}/{name}")
    readme = store.get(f"{folder}/README.md").decode()
    assert f"Model {CARD.name}, version {CARD.version}. All methods" in readme
    assert "| mean gap to HGS, greedy | 0.00 ± 0.00 % |" in readme
    assert "| mean gap to HGS, beam of 4 | 0.00 ± 0.00 % |" in readme
    assert "![gap-time](figures/gap-time.png)" in readme
    assert "| 20 | HGS (s = 1) | baseline |" in readme
    made = "2 in parallel, on a machine with"
    assert made in store.get(f"{folder}/table.md").decode()
    assert made not in store.get(f"{folder}/tables/training.md").decode()
    path = layout.label_spec("d")
    made = HGS(iterations=30, fleet=99).configuration
    spec = LabelSpec(dataset="d", smallest=20, largest=20, count=9, iterations=30, fleet=99)
    store.put_json(path, spec.identity(CITY) | {"smallest": 20, "largest": 20, "count": 9, "shard_rows": 64})
    assert f"labels are by a solver ({made})" in report(store)
    settings = store.get_json(f"{layout.benchmark_dir('b')}/configuration.json")
    assert settings["label"] == store.get_json(path)
    assert settings["train"] == {"batch": 256}
    assert settings["benchmark"]["run"] == "b"
    assert settings["model"] == {"name": CARD.name, "version": CARD.version}
    store.put(path, b"{")
    assert "Its labels" not in report(store)
    assert "label" not in store.get_json(f"{layout.benchmark_dir('b')}/configuration.json")
