"""The examples of docs/labels.md that read labels from a bucket, run as printed on a real S3 server."""

from __future__ import annotations

from typing import Any

import pytest

from mcvrp.storage.store.store import Store
from tests.support.datasets import label_spec, make_dataset
from tests.unit.docs.test_examples import FROM_S3, READERS, assert_same_labels


def test_there_is_an_example_for_each_reader() -> None:
    assert [example.splitlines()[0].removesuffix(", pyarrow.dataset") for example in FROM_S3] == [
        f"import {reader}" for reader in ("pandas", "pyarrow.dataset", "polars", "duckdb", "datasets")
    ]


@pytest.mark.parametrize("example", FROM_S3, ids=[example.split()[1].strip(",") for example in FROM_S3])
def test_each_reader_gets_exactly_the_labels_of_a_bucket(example: str, s3_uri: str) -> None:
    """A server other than Amazon's, its address and keys in the environment."""
    store = Store.open(s3_uri)
    make_dataset(store, label_spec(dataset="laptop"))
    assert "s3://bucket/prefix/labels/laptop/data" in example
    names: dict[str, Any] = {}
    exec(example.replace("s3://bucket/prefix", s3_uri), names)
    [reader] = [reader for reader in READERS if example.startswith(f"import {reader}")]
    assert_same_labels(READERS[reader](names["labels"]), store)
