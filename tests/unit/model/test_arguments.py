"""Arguments of the public API: those of a wrong type are refused by name, similar ones are accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mcvrp
from tests.support.networks import small_network

CITY: Any = mcvrp.City([[0.5, 0.5], [0.1, 0.2], [0.9, 0.3], [0.4, 0.8]])  # type: ignore[arg-type]
DAY: Any = mcvrp.Instance(CITY.city_id, [1, 3], [4, 5], 8)  # type: ignore[arg-type]
STORE: Any = mcvrp.Store("/nowhere")
API: Any = mcvrp


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: API.load_labels("store", "x", 20),
            "store of load_labels should be of type Store, not 'store'",
        ),
        (lambda: API.load_labels(STORE, "x", 20, 1.5), r"limit of load_labels .* int \| None, not 1.5"),
        (lambda: API.load_model(STORE, "x", 1.5), "version of load_model"),
        (lambda: API.Dataset.open("store", "x"), "store of Dataset.open"),
        (lambda: API.Store.open(None), "uri of Store.open"),
        (
            lambda: API.cost(CITY, [[1], [3]]),
            r"solution of cost should be of type Solution, not \[\[1\], \[3\]\]",
        ),
        (lambda: API.decode(None, CITY, DAY, strategy=API.Beam(2)), "model of decode"),
        (lambda: API.decode(small_network(CITY), CITY, [[1]], strategy=API.Beam(2)), "instances of decode"),
        (lambda: API.Beam("a"), "width of Beam should be of type int, not 'a'"),
        (lambda: API.Beam(True), "width of Beam should be of type int, not True"),
        (lambda: API.Nucleus("a"), "p of Nucleus"),
        (lambda: API.Sampling(temperature=True), "temperature of Sampling"),
        (lambda: CITY.nodes("12"), "address_ids of City.nodes"),
        (lambda: API.Instance.of(CITY, [1], 8), "orders of Instance.of"),
        (lambda: API.City.uniform("a", 3), "customers of City.uniform"),
        (lambda: API.City(CITY.xy, address_ids="abcd"), "address_ids of City"),
        (lambda: API.solve(5, CITY), "orders of solve"),
        (lambda: API.solve({"1": 1}, CITY, capacity=8, out=False), "out of solve"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(mcvrp.McvrpError, match=f"^{message}"):
        call()


def test_what_is_like_the_right_type_is_accepted(tmp_path: Path) -> None:
    """Numbers of NumPy, columns of pandas, lists for tuples."""
    ids = pd.Series(["depot", "a", "b", "c"])
    city = API.City(
        CITY.xy.tolist(), scale=np.int64(1), origin=[0, 0], extends=np.array([2]), address_ids=ids
    )
    assert city.nodes(ids[1:]).tolist() == [1, 2, 3]
    assert city.ids_of(np.array([1])) == ["a"]
    assert API.Instance.of(city, {"a": 1}, capacity=np.uint32(8)).capacity == 8
    assert API.Beam(np.int64(3)).answers == 3
    assert API.Sampling(p=1, k=np.int64(2)).k == 2
    with pytest.raises(API.McvrpError, match="no labels of dataset 'x'"):
        API.Dataset.open(store=API.Store.open(tmp_path), name="x")
