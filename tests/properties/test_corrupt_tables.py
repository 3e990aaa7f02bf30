"""Readers of people's tables survive whatever happens to a file on its way: a table, or a sentence."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import address_table
from mcvrp.tasks.city.costs import read_costs
from mcvrp.tasks.driven.check_rows import COLUMNS, checked_days
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.solve.orders import checked_day, read_orders
from tests.support.malformed import NAMES, TODAY, TOWN, npy, parquet, sound
from tests.support.malformed_store import DAY, HEADER

Reader = Callable[[bytes, Store], object]


def _routes(data: bytes, _: Store) -> None:
    """Check routes as the night does: every row of what can be read is in a day."""
    table = read_tabular("f", data)
    if not set(COLUMNS) <= set(table.frame):
        return
    days = checked_days(table, StoredCity("town", TOWN, NAMES, "imported"), today=TODAY)
    assert sum(day.instance.n for day in days) == len(table)


def _orders(data: bytes, store: Store) -> None:
    with open(f"{store.uri}/day", "wb") as file:
        file.write(data)
    checked_day(read_orders(f"{store.uri}/day", store), TOWN, NAMES, "town", 20)


READERS: dict[str, tuple[Reader, str]] = {
    "addresses": (lambda data, _: address_table(read_tabular("f", data)), sound()),
    "orders": (_orders, "customer,demand\nC1,3\nC2,4\n"),
    "routes": (_routes, f"{HEADER}\n{DAY},a,1,C1,4,10\n{DAY},a,2,C2,6,10\n{DAY},b,1,C3,2,10\n"),
    "costs": (lambda data, _: read_costs("f", data, ["d", "a"]), "from,to,cost\nd,a,1\na,d,1\n"),
}
# What files have in them that were cut, glued, converted or typed by hand.
SCRAPS = [b"", b'"', b'"\n', b"\n", b"\r", b"\0", b",", b";", b"\t", b"\xff", b"\xff\xfe", b"\x81", b"\x0c"]
SCRAPS += [b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"PAR1", b"nan", b"inf", b"1e400", b"-", b"9" * 30, "é".encode()]
Cut = tuple[float, int, bytes]  # where, how many bytes, and what is there instead
CUTS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 9), st.sampled_from(SCRAPS)), min_size=1, max_size=4
)


def corrupt(data: bytes, cuts: list[Cut], end: float) -> bytes:
    for share, length, scrap in cuts:
        place = int(share * len(data))
        data = data[:place] + scrap + data[place + length :]
    return data[: int(end * len(data))]


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # of what other tests left open
@pytest.mark.parametrize("name", READERS)
@given(form=st.sampled_from(["csv", "parquet", "npy"]), cuts=CUTS, end=st.sampled_from([1.0, 1.0, 0.9, 0.4]))
def test_a_corrupt_table_is_read_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, name: str, form: str, cuts: list[Cut], end: float
) -> None:
    """Never anything else, and without a warning: what reads half of a row would give one."""
    reader, text = READERS[name]
    whole = {
        "csv": text.encode(),
        "parquet": parquet(pd.read_csv(io.StringIO(text))),
        "npy": npy(np.array([[0.0, 1.0], [1.0, 0.0]])),
    }[form]
    message = ""
    try:
        reader(corrupt(whole, cuts, end), Store(str(tmp_path_factory.getbasetemp())))
    except McvrpError as error:
        message = str(error)
    assert "\n" not in message
