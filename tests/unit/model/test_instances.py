"""Instances: pure functions of (city, seed, split, n, i), the same bytes on every machine, uniform."""

from __future__ import annotations

import hashlib
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules, Split, instance_rows
from mcvrp.model.problem import City, Instance
from mcvrp.model.random import philox_key, philox_uniforms

CITY = City.uniform(60, seed=3)


def digest(instance: Instance) -> str:
    head = f"{instance.city_id} {instance.capacity} ".encode()
    return hashlib.sha256(
        head + instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes()
    ).hexdigest()[:16]


GOLDEN = [
    ("train", 20, 0, "3716e0a448c464e5"),
    ("train", 20, 99999, "b84d85921b59a52a"),
    ("train", 100, 7, "09981ff925cb9e29"),
    ("train", 400, 0, "f641c5652b4a71ac"),
    ("test", 20, 0, "18cf9165b0efadcf"),
    ("test", 1000, 3, "f9c854d626ac1cb2"),
    ("valid", 20, 0, "0e0dc13ba695da3c"),
    ("valid", 400, 5, "fb2a2fe0b4bcccc8"),
    ("trial", 20, 0, "f4057c0148dabee7"),
    ("trial", 400, 2**60, "d05c9499ce490206"),
]


@pytest.mark.parametrize(("split", "n", "i", "expected"), GOLDEN)
def test_instances_are_the_same_for_ever(split: str, n: int, i: int, expected: str) -> None:
    assert digest(InstanceStream(City.uniform(10_000, 1), 1, split)(n, i)) == expected  # type: ignore[arg-type]


def reference(city: City, seed: int, split: str, rules: Rules, n: int, i: int) -> tuple[list[int], ...]:
    """Return customers, demands and capacity: a shuffle (Fisher-Yates) of all, cut after n."""
    u = philox_uniforms(philox_key("instance", city.city_id, str(seed), split), (i, n), 2 * n + 1).tolist()
    deck = list(range(1, city.customers + 1))
    for step in range(n):
        pick = step + int(u[step] * (len(deck) - step))
        deck[step], deck[pick] = deck[pick], deck[step]
    low, high = rules.demand
    demand = {node: low + int(u[n + k] * (high - low + 1)) for k, node in enumerate(deck[:n])}
    least, most = rules.capacity_range(n)
    ids = sorted(demand)
    return ids, [demand[node] for node in ids], [least + int(u[2 * n] * (most - least + 1))]


@given(
    st.integers(20, 60),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.sampled_from(get_args(Split)),
    st.sampled_from([Rules(), Rules((2, 5)), Rules((1, 1), (8, 8))]),
)
def test_an_instance_agrees_with_the_definition(n: int, i: int, seed: int, split: str, rules: Rules) -> None:
    stream = InstanceStream(CITY, seed, split, rules)  # type: ignore[arg-type]
    rows = instance_rows(stream, n, i, i + 3)
    for k in range(3):
        ids, demands, (capacity,) = reference(CITY, seed, split, rules, n, i + k)
        assert rows.ids[k].tolist() == [0, *ids]
        assert rows.demands[k].tolist() == [0, *demands]
        assert rows.capacity[k] == capacity
    instance = stream(n, i)
    assert instance.nodes.tolist() == rows.ids[0].tolist()
    assert (instance.demands.tolist(), instance.capacity) == (rows.demands[0, 1:].tolist(), rows.capacity[0])
    assert instance.city_id == CITY.city_id


@pytest.mark.parametrize(("n", "low"), [(20, 30), (49, 30), (50, 40), (99, 40), (100, 50), (199, 50),
                                        (200, 60), (400, 60), (401, 70), (1000, 70)])  # fmt: skip
def test_capacities_are_those_of_the_papers_table(n: int, low: int) -> None:
    assert Rules().capacity_range(n) == (low, low + 9)


@pytest.mark.parametrize("n", [0, 19, 1001])
def test_no_capacity_outside_the_table(n: int) -> None:
    with pytest.raises(McvrpError, match=rf"no capacity rule for {n} customers.*give capacity"):
        Rules().capacity_range(n)


@pytest.mark.parametrize("n", [0, 61])
def test_more_than_the_city_is_refused(n: int) -> None:
    with pytest.raises(McvrpError, match=f"cannot draw {n} customers from a city of 60"):
        InstanceStream(CITY, 1, "train")(n, 0)
