"""The Python examples of docs/labels.md and docs/python.md run as they are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import write_card
from tests.support.datasets import label_spec, make_dataset
from tests.support.labels import CITY
from tests.unit.docs.pages import DOCS, examples

EXAMPLES = examples(DOCS / "labels.md", "python")
READERS = {
    "pandas": lambda labels: labels,
    "pyarrow.dataset": lambda labels: labels.to_table().to_pandas(),
    "polars": lambda labels: labels.to_pandas(),
    "duckdb": lambda labels: labels.df(),
    "datasets": lambda labels: labels.to_pandas(),
}


def test_there_is_an_example_for_each_reader() -> None:
    lines = [[line for line in example.splitlines() if line] for example in EXAMPLES]
    assert [first for first, _ in lines] == [f"import {reader}" for reader in READERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    store = Store.open(folder / "store")
    make_dataset(store, label_spec(dataset="laptop"))
    write_card(store, CITY, "laptop")
    shard = store.get(layout.label_shard("laptop", 20, 0))
    store.put(layout.staged_chunk("laptop", 20, 0, 6), shard)
    store.put(layout.corrupt("laptop", layout.label_shard("laptop", 20, 0)), shard)
    for path in (layout.verification, layout.quarantine, layout.driver_lease):
        store.put_json(path("laptop"), {})
    return folder


@pytest.mark.parametrize(("reader", "example"), list(zip(READERS, EXAMPLES, strict=True)), ids=list(READERS))
def test_each_reader_gets_exactly_the_labels(
    folder: Path, reader: str, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HOME", str(folder / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names: dict[str, Any] = {}
    exec(example, names)
    loaded: pd.DataFrame = READERS[reader](names["labels"])
    loaded["customers"] = loaded["ids"].map(len)
    if reader != "datasets":
        assert (loaded["n"].astype(int) == loaded["customers"]).all()
    loaded = loaded.sort_values(["customers", "index"])
    dataset = Dataset.open(Store.open("store"), "laptop")
    ours = pd.concat([table.to_pandas() for n in dataset.sizes() for table in dataset.read_rows(n)])
    assert loaded["index"].tolist() == ours["index"].tolist()
    assert loaded["cost"].tolist() == ours["cost"].tolist()
    assert plain_routes(loaded) == plain_routes(ours)


def plain_routes(labels: pd.DataFrame) -> list[list[list[int]]]:
    return [[list(map(int, route)) for route in routes] for routes in labels["routes"]]


def test_the_card_is_read_by_the_hub(folder: Path) -> None:
    from huggingface_hub import DatasetCard

    data = DatasetCard.load(folder / "store/labels/laptop/README.md").data.to_dict()
    [config] = data["configs"]
    assert config["data_files"] == [{"split": "train", "path": "data/*/*.parquet"}]
    assert data["size_categories"] == ["n<1K"]
    assert data["task_categories"]
    assert "vehicle-routing" in data["tags"]
    assert "license" not in data


def test_orders_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Two routes there and back cost 1.632; tests/e2e/test_pipeline.py runs the first example."""
    of_the_store, of_arrays = examples(DOCS / "python.md", "python")
    assert 'Store.open("store")' in of_the_store
    assert '"smoke"' in of_the_store
    exec(of_arrays, {})
    assert capsys.readouterr().out.startswith("1.632")
