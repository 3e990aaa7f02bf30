"""Garbage collection of a bucket: the server's clock, its listing, the same rules as in a folder."""

from __future__ import annotations

import time
from dataclasses import asdict

import boto3
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard, versions
from mcvrp.storage.models.registry import move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.gc import RetentionSpec, clean

DAY = 86_400.0
POLICY = RetentionSpec(keep_models=1)


def test_a_bucket_is_cleaned_as_a_folder_is(s3_uri: str) -> None:
    store = Store.open(s3_uri)
    for number in range(1, 6):
        card = ModelCard("m", number, "c", {}, "run", "d", "f", True, {}, 1, "abc")
        store.put(f"{card.folder}/model.safetensors", b"weights")
        store.put_json(layout.model_card("m", number), asdict(card))
    for number in (2, 3):
        move_champion(store, "m", number, pointer(store, "m", "champion"))
    night = "labels/night-000000000000"
    store.put(f"{night}/data/n=020/rows-00000000-00000006.parquet", b"labels")
    store.put(f"{night}/manifest.json", b"{}")
    now = time.time()
    assert clean(store, POLICY, delete=True) == []
    planned = clean(store, POLICY, delete=False, now=now + 100 * DAY)
    assert [candidate.path for candidate in planned] == ["models/m/0001", "models/m/0004", night]
    assert clean(store, POLICY, delete=True, now=now + 100 * DAY) == planned
    assert versions(store, "m") == [2, 3, 5]
    assert store.list(night) == []
    assert roll_back(store, "m") == (3, 2)


def test_keys_that_lead_elsewhere_are_not_ours(s3_uri: str) -> None:
    """A bucket may have any names: requests for invalid ones fail, and listings of what is no path."""
    store = Store.open(s3_uri)
    store.put("labels/d/spec.json", b"{}")
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    client = boto3.client("s3")
    key = "labels/../../etc/passwd"
    client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=b"")
    with pytest.raises(McvrpError, match="leads out of the store"):
        store.get(key)
    with pytest.raises(StoreError, match=r"cannot list .*etc/passwd.*: rename or remove that file"):
        store.list("labels")
