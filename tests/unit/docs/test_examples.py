"""The Python examples of docs/labels.md, docs/python.md and docs/benchmark.md run as they are printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from tests.support.datasets import label_spec, make_dataset, write_card_of
from tests.support.labels import CITY
from tests.support.results import ROW
from tests.support.solving import put_model
from tests.unit.docs.pages import DOCS, examples

PLACES = [(45.0 + k / 1000, 4.0 + (k * k % 61) / 1000) for k in range(61)]  # more than a block
*EXAMPLES, NODES = examples(DOCS / "labels.md", "python")
READERS = {  # the frame of pandas that an example's labels become
    "pandas": "labels",
    "pyarrow.dataset": "labels.to_table().to_pandas()",
    "polars": "labels.to_pandas()",
    "duckdb": "labels.df()",
}


def test_there_is_an_example_for_each_reader() -> None:
    lines = [[line for line in example.splitlines() if line] for example in EXAMPLES]
    assert [first for first, _ in lines] == [f"import {reader}" for reader in READERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    store = Store.open(folder / "store")
    make_dataset(store, label_spec(dataset="laptop"))
    write_card_of(store, "laptop")
    store.put_json(f"{layout.driver_lease('laptop')}/000001", {})
    return folder


@pytest.mark.parametrize(("reader", "example"), list(zip(READERS, EXAMPLES, strict=True)), ids=list(READERS))
def test_each_reader_gets_exactly_the_labels(
    folder: Path, reader: str, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(f"{example}\nframe = {READERS[reader]}", names)
    assert_same_labels(names["frame"], Store.open("store"))


def test_nodes_are_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    save_city(Store.open("store"), "laptop", CITY)
    exec(NODES, names := dict[str, Any]())
    np.testing.assert_array_equal(names["nodes"][["x", "y"]].to_numpy(), CITY.xy)


def assert_same_labels(loaded: pd.DataFrame, store: Store) -> None:
    loaded["customers"] = loaded["ids"].map(len)
    assert (loaded["n"].astype(int) == loaded["customers"]).all()
    loaded = loaded.sort_values(["customers", "index"])
    dataset = Dataset.open(store, "laptop")
    ours = pd.concat([table.to_pandas() for n in dataset.sizes() for table in dataset.read_rows(n)])
    assert loaded["index"].tolist() == ours["index"].tolist()
    assert loaded["cost"].tolist() == ours["cost"].tolist()
    assert plain_routes(loaded) == plain_routes(ours)


def plain_routes(labels: pd.DataFrame) -> list[list[list[int]]]:
    return [[list(map(int, route)) for route in routes] for routes in labels["routes"]]


def test_orders_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Two routes there and back cost 1.632."""
    of_a_day, _, of_arrays, of_ids = examples(DOCS / "python.md", "python")
    exec(of_a_day, {})
    assert capsys.readouterr().out.startswith("1.632 by a quick first plan: [['")
    exec(of_arrays, {})
    assert capsys.readouterr().out.startswith("1.632")
    exec(of_ids, {})
    assert capsys.readouterr().out == "[['C10241'], ['C9']]\n"


def test_the_example_of_the_store_has_the_names_of_the_demo(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed, and with all paths of a beam; tests/e2e/test_pipeline.py runs it on a trained model."""
    monkeypatch.chdir(folder)
    demo, store, names = load_preset("laptop"), Store.open("store"), dict[str, Any]()
    assert {demo.city.name, demo.label.dataset, demo.train.model} == {"laptop"}
    assert 20 in demo.label.sizes
    save_city(store, "laptop", CITY)
    put_model(store, "laptop", CITY)
    exec(examples(DOCS / "python.md", "python")[1], names)
    assert "by the model" in capsys.readouterr().out
    assert len({tuple(path) for path in names["answer"].paths.tolist()}) > 1


def test_two_benchmarks_are_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance that costs a tenth more, and one that costs as much; only fields that differ are shown."""
    for run, costs in (("laptop", (10.0, 20.0)), ("after", (11.0, 20.0))):
        rows = [replace(ROW, index=k, samples=(1,), seconds=(1.0,), costs=(costs[k],)) for k in range(2)]
        write_results(store := Store.open(folder / "store"), run, rows)
        phases = [{"name": "I", "lr": 0.01}, {"name": "II", "lr": float(len(run))}]
        train = {"batch": len(run), "trunc": None, "phases": phases}
        settings = {"train": train, "benchmark": {"run": run, "samples": [1]}}
        store.put_json(f"{layout.benchmark_dir(run)}/configuration.json", settings)
    monkeypatch.chdir(folder)
    exec(examples(DOCS / "benchmark.md", "python")[0], {})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    changed = [["train.batch", "6", "5"], ["train.phases.1.lr", "6.0", "5.0"]]
    assert lines[1:4] == [["benchmark.run", "laptop", "after"], *changed]
    assert lines[-1][-3:] == ["5.0", "5.0", "2"]
