"""The examples of the page of labels run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.store.store import Store
from tests.support.datasets import label_spec, make_dataset

PAGE = Path(__file__).parents[3] / "docs" / "labels.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_there_is_an_example_for_each_reader() -> None:
    """Pandas, DuckDB and pyarrow, three lines each."""
    assert [len([line for line in example.splitlines() if line]) for example in EXAMPLES] == [3, 3, 3]
    for example, reader in zip(EXAMPLES, ("pandas", "duckdb", "pyarrow.dataset"), strict=True):
        assert reader in example


def test_the_examples_read_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reads a dataset beside which everything else of it lies, and gets its labels."""
    store = Store.open(tmp_path / "store")
    make_dataset(store, label_spec(dataset="laptop"))
    for name in ("README.md", "verification.json", "statistics.parquet", "figures/cost.png"):
        store.put(f"labels/laptop/{name}", b"no labels")
    mean = load_labels(store, "laptop", 20).costs.mean()
    monkeypatch.chdir(tmp_path)
    seen: list[dict[str, Any]] = []
    for example in EXAMPLES:
        seen.append({})
        exec(example, seen[-1])
    frame, relation, dataset = (names["labels"] for names in seen)
    assert frame["cost"].mean() == pytest.approx(mean)
    by_size = relation.aggregate("n, avg(cost) AS cost, count(*) AS labels", "n").order("n").fetchall()
    assert by_size[0] == (20, pytest.approx(mean), 10)
    assert dataset.count_rows() == 20
    assert sorted(set(dataset.to_table(columns=["n"])["n"].to_pylist())) == [20, 21]
    assert capsys.readouterr().out
