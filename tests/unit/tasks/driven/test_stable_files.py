"""Files that are being written: none is ingested before it is complete, and none is left indefinitely."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.stable_files import CUT_SECONDS, stable_files

WHOLE = b"a,b\n1,2\n"
ENDINGS = (".csv", ".parquet")


def put(store: Store, name: str, data: bytes, age: float) -> Path:
    """Write a file without the store, ``age`` seconds ago by its date."""
    path = Path(store.uri, "incoming", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def look(
    store: Store, meanwhile: Callable[[], object] = lambda: None, seconds: float = 30.0
) -> tuple[list[str], dict[str, str], float]:
    """Return the names of whole files, of others with the reason, and the seconds waited."""
    waited: list[float] = []

    def sleep(pause: float) -> None:
        waited.append(pause)
        meanwhile()

    whole, others = stable_files(store, "incoming", ENDINGS, seconds, sleep=sleep)
    names = {file.path.removeprefix("incoming/"): file.why for file in others}
    return [file.path.removeprefix("incoming/") for file in whole], names, sum(waited)


def test_what_changed_a_moment_ago_is_looked_at_again(store: Store) -> None:
    put(store, "new.csv", WHOLE, 1)
    put(store, "ahead.csv", WHOLE, -20)
    assert look(store) == (["ahead.csv", "new.csv"], {}, 30)


def test_what_grows_or_comes_meanwhile_is_not_taken(store: Store) -> None:
    """Though it ends with a line each time: who writes row by row always does."""
    path = put(store, "log.csv", WHOLE, 1)

    def write() -> None:
        path.write_bytes(WHOLE + b"3,4\n")
        put(store, "late.csv", WHOLE, 0)

    assert look(store, write) == ([], {"late.csv": "is being written", "log.csv": "is being written"}, 30)


def test_a_file_that_is_no_table_is_named(store: Store) -> None:
    """A day that was saved as text would be missed without a word; an instance belongs to its solution."""
    for name in ("day.csv", "day.txt", "city.vrp"):
        put(store, name, WHOLE, 60)
    why = "has a name that ends with none of .csv, .parquet"
    assert look(store) == (["day.csv"], {"day.txt": why}, 0)
    assert look(store, seconds=0) == (["day.csv"], {"day.txt": why}, 0)


@pytest.mark.parametrize("name", ["stalled.csv", "stalled.parquet", "empty.csv"])
def test_what_looks_cut_off_is_left_for_longer(store: Store, name: str) -> None:
    data = {"stalled.csv": WHOLE[:-1], "stalled.parquet": b"PAR1 half of it", "empty.csv": b""}[name]
    put(store, name, data, 60)
    whole, others, waited = look(store)
    assert (whole, waited) == ([], 0)
    assert "looks truncated: it is ingested once unchanged for 10 minutes" in others[name]
    put(store, name, data, CUT_SECONDS + 60)
    assert look(store) == ([name], {}, 0)


def test_whole_files_of_each_kind_look_whole(store: Store) -> None:
    buffer = io.BytesIO()
    pd.DataFrame({"a": [1]}).to_parquet(buffer)
    files = {
        "a.CSV": b"a\r\n1\r\n",
        "b.csv": b"a\r1\r",
        "c.csv": "a\n1\n".encode("utf-16"),
    }
    for name, data in {**files, "d.parquet": buffer.getvalue()}.items():
        put(store, name, data, 60)
    assert look(store) == (["a.CSV", "b.csv", "c.csv", "d.parquet"], {}, 0)


def test_nothing_is_waited_for_where_that_is_not_asked(store: Store) -> None:
    put(store, "new.csv", WHOLE[:-1], 0)
    assert look(store, seconds=0) == (["new.csv"], {}, 0)
