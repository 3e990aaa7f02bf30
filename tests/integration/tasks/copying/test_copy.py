"""Copies to and from a bucket, of a real store, also after a process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcvrp.flows.cli.inspect import fetch
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.copying.copy import MARK, copy_store, rank
from mcvrp.tasks.label.verify import verify_dataset
from tests.support.datasets import label_spec, make_dataset
from tests.support.shared import until

FILES = 800  # small ones: the copy takes seconds


def bytes_of(store: Store) -> dict[str, bytes]:
    return {file.path: store.get(file.path) for file in store.files("", hidden=True)}


@pytest.mark.slow
def test_there_and_back_again(tmp_path: Path, s3_uri: str) -> None:
    """A store with labels is equal after both ways, and its labels are read and verified in the bucket."""
    store, bucket = Store.open(tmp_path / "store"), Store.open(s3_uri)
    make_dataset(store, label_spec())
    store.put("models/m/0001/model.safetensors", os.urandom(2**23))
    assert copy_store(store, bucket).changed == 0
    assert bytes_of(bucket) == bytes_of(store)
    assert load_labels(bucket, "d", 20).costs.tolist() == load_labels(store, "d", 20).costs.tolist()
    fetch(bucket, "models/m/0001/model.safetensors", tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == store.get("models/m/0001/model.safetensors")
    assert verify_dataset(bucket, "d", workers=1).good
    back = Store.open(tmp_path / "back")
    copy_store(bucket, back)
    for path in ("labels/d/verification.json", "labels/d/lease.json"):  # of the bucket
        back.delete(path)
    assert bytes_of(back) == bytes_of(store)


@pytest.mark.slow
def test_a_killed_copy_is_continued_by_the_same_command(tmp_path: Path, s3_uri: str) -> None:
    """kill -9 in the middle: no alias and no mark of completeness is there; then everything is."""
    store = Store.open(tmp_path / "store")
    for number in range(FILES):
        path = tmp_path / f"store/labels/d/data/n=020/part-{number:05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(2000))
    store.put_json("models/m/0001/model.json", {})
    store.put_json("models/m/champion.json", {})
    bucket = Store.open(s3_uri)
    command = [sys.executable, "-m", "mcvrp.flows.cli.main", "store", "copy", store.uri, s3_uri]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until("part of the files are there", 60, lambda: len(bucket.list("")) > 100, 0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    present = bucket.list("")
    assert 100 < len(present) < FILES
    assert max(map(rank, present)) == 0
    assert bucket.exists(MARK)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "were there, in" in done.stdout
    assert bytes_of(bucket) == bytes_of(store)
