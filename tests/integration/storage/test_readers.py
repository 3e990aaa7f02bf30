"""The examples of docs/labels.md that read labels from a bucket, run as printed on a real S3 server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from mcvrp.storage.store.store import Store
from tests.support.datasets import label_spec, make_dataset
from tests.unit.docs.test_examples import FROM_S3, READERS, assert_same_labels

NAMES = [example.split()[1].strip(",") for example in FROM_S3]


def test_there_is_an_example_for_each_reader() -> None:
    assert list(READERS) == NAMES


@pytest.mark.parametrize(("reader", "example"), list(zip(NAMES, FROM_S3, strict=True)), ids=NAMES)
def test_each_reader_gets_exactly_the_labels_of_a_bucket(
    reader: str, example: str, s3_uri: str, tmp_path: Path
) -> None:
    """A server other than Amazon's, its address and keys in the environment, in a program of its own."""
    store = Store.open(s3_uri)
    make_dataset(store, label_spec(dataset="laptop"))
    assert "s3://bucket/prefix/labels/laptop/data" in example
    loaded = tmp_path / "labels.pickle"
    program = f"{example}\n{READERS[reader]}.to_pickle({str(loaded)!r})"
    program = program.replace("s3://bucket/prefix", s3_uri)
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], check=True, timeout=300)
    assert_same_labels(pd.read_pickle(loaded), store)
