"""Instances: pure functions of (city, seed, split, n, i), the same bytes on every machine, uniform."""

from __future__ import annotations

import hashlib
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chisquare

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules, Split, instance_rows
from mcvrp.model.problem import City, Instance
from mcvrp.model.random import philox_key, philox_uniforms

CITY = City.uniform(60, seed=3)


def digest(instance: Instance) -> str:
    """A hash of everything that an instance says."""
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
    """Golden vectors: a label stored today belongs to the instance made tomorrow."""
    assert digest(InstanceStream(City.uniform(10_000, 1), 1, split)(n, i)) == expected  # type: ignore[arg-type]


def test_one_instance_in_full() -> None:
    """Ids, demands and capacity of one instance, to be read by people."""
    instance = InstanceStream(City.uniform(100, 1), 1, "train", Rules(capacity=(10, 12)))(5, 0)
    assert instance.ids.tolist() == [17, 18, 36, 57, 94]
    assert instance.demands.tolist() == [3, 4, 5, 8, 2]
    assert instance.capacity == 11


def reference(city: City, seed: int, split: str, rules: Rules, n: int, i: int) -> tuple[list[int], ...]:
    """The definition: a Fisher-Yates shuffle of all customers, cut after n; then demands; then capacity."""
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
    """The fast sampler draws what the textbook shuffle draws."""
    instance = InstanceStream(CITY, seed, split, rules)(n, i)  # type: ignore[arg-type]
    ids, demands, (capacity,) = reference(CITY, seed, split, rules, n, i)
    assert instance.ids.tolist() == ids
    assert instance.demands.tolist() == demands
    assert instance.capacity == capacity
    assert instance.city_id == CITY.city_id


@settings(max_examples=20)
@given(st.permutations(range(12)))
def test_the_order_of_asking_does_not_matter(order: list[int]) -> None:
    """Any worker may make any instance at any time."""
    stream = InstanceStream(CITY, 1, "train")
    assert {i: digest(stream(20, i)) for i in order} == {i: digest(stream(20, i)) for i in range(12)}


def test_streams_are_unrelated() -> None:
    """Another city, seed, split, size or index is another instance."""
    other = City.uniform(60, seed=4)
    made = [
        InstanceStream(CITY, 1, "train")(20, 0),
        InstanceStream(CITY, 1, "train")(20, 1),
        InstanceStream(CITY, 1, "train")(21, 0),
        InstanceStream(CITY, 1, "test")(20, 0),
        InstanceStream(CITY, 1, "valid")(20, 0),
        InstanceStream(CITY, 1, "trial")(20, 0),
        InstanceStream(CITY, 2, "train")(20, 0),
        InstanceStream(other, 1, "train")(20, 0),
    ]
    assert len({(tuple(x.ids.tolist()), tuple(x.demands.tolist())) for x in made}) == len(made)


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.sets(st.sampled_from(get_args(Split)), min_size=2))
def test_no_seed_makes_two_splits_one(seed: int, other: int, splits: set[Split]) -> None:
    """Whatever their seeds, two splits are unrelated: no benchmark draws the instances of a trial."""
    one, two = sorted(splits)[:2]
    assert digest(InstanceStream(CITY, seed, one)(30, 0)) != digest(InstanceStream(CITY, other, two)(30, 0))


def test_draws_are_uniform() -> None:
    """Customers, demands and capacities are each equally likely (chi-square over 4,000 instances)."""
    stream = InstanceStream(CITY, 1, "train")
    made = [stream(20, i) for i in range(4000)]
    customers = np.bincount(np.concatenate([x.ids for x in made]), minlength=61)[1:]
    demands = np.bincount(np.concatenate([x.demands for x in made]))[1:]
    capacities = np.bincount([x.capacity for x in made])[30:]
    assert len(demands) == 9
    assert len(capacities) == 10
    for counts in (customers, demands, capacities):
        assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("n", [0, 61])
def test_more_than_the_city_is_refused(n: int) -> None:
    """The message names what was asked and what there is."""
    with pytest.raises(McvrpError, match=f"cannot draw {n} customers from a city of 60"):
        InstanceStream(CITY, 1, "train")(n, 0)


@pytest.mark.parametrize(
    ("customers", "n", "rules"),
    [
        (60, 20, Rules()),
        (21, 21, Rules(demand=(2, 5), capacity=(5, 40))),  # nearly all of the city: the shuffle meets itself
        (1, 1, Rules(capacity=(9, 9))),
        (2000, 500, Rules()),
    ],
)
def test_rows_are_the_instances_of_the_stream(customers: int, n: int, rules: Rules) -> None:
    """Customers, demands and capacities of each, the depot first."""
    stream = InstanceStream(City.uniform(customers, seed=2), 7, "train", rules)
    rows = instance_rows(stream, n, 3, 20)
    assert len(rows.ids) == 17
    for k, i in enumerate(range(3, 20)):
        instance = stream(n, i)
        assert np.array_equal(rows.ids[k], instance.nodes)
        assert np.array_equal(rows.demands[k], [0, *instance.demands])
        assert rows.capacity[k] == instance.capacity


def test_a_size_that_the_stream_refuses_is_refused() -> None:
    """The same sentence as for one instance."""
    with pytest.raises(McvrpError, match="cannot draw 21 customers from a city of 20"):
        instance_rows(InstanceStream(City.uniform(20, seed=1), 1, "train"), 21, 0, 1)
