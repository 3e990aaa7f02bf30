"""Number of requests of works that this process does alone, on a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from tests.support.counted_store import count_requests
from tests.support.store_requests import CITY, StoreRequests
from tests.support.training import nudge, write_dataset

# Most requests of each work, a tenth above what it took when it was last looked at.
MOST_REQUESTS = {
    "checkpoint": 28,
    "publication": 15,
    "training, 2 steps": 62,
    "night 1": 191,
    "night 2": 219,
    "inspect": 1,
    "inspect labels/many": 2,
    "inspect cities/town": 3,
    "inspect models/small": 19,
    "gc": 18,
}


def test_no_work_takes_more_requests_than_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, store = count_requests(monkeypatch), Store.open(tmp_path / "store")
    save_city(store, "town", CITY)
    for name in ("one", "many"):
        write_dataset(store, CITY, range(20, 21), 60, name)
    works = {}
    for work, counts in StoreRequests(store, requests.counted, tmp_path, nudge).without_ray():
        works[work] = counts.total()
        print(work, counts.total(), dict(counts))
    assert {work: count for work, count in works.items() if count > MOST_REQUESTS[work]} == {}
    assert works.keys() == MOST_REQUESTS.keys()
