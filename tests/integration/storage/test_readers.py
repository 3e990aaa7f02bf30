"""The examples of docs/labels.md read labels from a bucket of a real S3 server, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from mcvrp.storage.store.store import Store
from tests.support.datasets import label_spec, make_dataset
from tests.unit.docs.test_examples import EXAMPLES, READERS, assert_same_labels

_OF_S3 = ("pandas", "pyarrow.dataset", "polars")


@pytest.mark.parametrize("reader", _OF_S3)
def test_each_reader_gets_exactly_the_labels_of_a_bucket(reader: str, s3_uri: str, tmp_path: Path) -> None:
    """A server other than Amazon's, its address and keys in the environment, in a program of its own."""
    store = Store.open(s3_uri)
    make_dataset(store, label_spec(dataset="laptop"))
    example = dict(zip(READERS, EXAMPLES, strict=True))[reader]
    assert '"store/labels/laptop/data' in example
    loaded = tmp_path / "labels.pickle"
    program = f"{example}\n{READERS[reader]}.to_pickle({str(loaded)!r})".replace('"store/', f'"{s3_uri}/')
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], check=True, timeout=300)
    assert_same_labels(pd.read_pickle(loaded), store)
