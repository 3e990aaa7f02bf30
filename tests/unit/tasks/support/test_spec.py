"""Specs that are stored or hashed keep their JSON, and what specs share means the same in all of them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.spec import AddressFile
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.spec import OrdersSpec, StrictSpec
from mcvrp.tasks.train.spec import PolicySpec, TrainSpec

SPECS: dict[type[StrictSpec], dict[str, Any]] = {
    LabelSpec: {"dataset": "d", "smallest": 20, "largest": 22, "count": 100},
    TrainSpec: {"dataset": "d", "phases": [{"name": "I", "first": 20, "last": 22, "lr": 1e-3}]},
    BenchmarkSpec: {"sizes": [20], "hgs_fleet": "default"},  # as a preset says it, from the labels
    AttentionSpec: {"sizes": [20]},
    AddressFile: {"file": "addresses.csv"},
    PolicySpec: {"steps": 1},
}
# Of the JSON with the fields in their order: stores hold it, and names of nights and draws come from it.
GOLDEN = {
    LabelSpec: "e8ae384c2101fc98",
    TrainSpec: "fecc555461a6d7a2",
    BenchmarkSpec: "33e624ab498fd0d5",
    AttentionSpec: "3e57574a32ab6dba",
    NightlySpec: "38a87fe895bd1af4",
    SolveSpec: "c226881bfac41fdc",
}


@pytest.mark.parametrize("kind", GOLDEN, ids=lambda kind: kind.__name__)
def test_the_json_of_a_spec_stays(kind: type[StrictSpec]) -> None:
    text = kind.model_validate(SPECS.get(kind, {})).model_dump_json()
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == GOLDEN[kind]


@pytest.mark.parametrize("kind", [LabelSpec, BenchmarkSpec, AttentionSpec])
def test_ranges_are_the_specs_own_else_the_citys(kind: type[OrdersSpec]) -> None:
    city = City(City.uniform(30, seed=1).xy, demand=(2, 5), capacity=(20, 30))
    spec = kind.model_validate(SPECS[kind])
    assert spec.rules_in(None) == Rules()
    assert spec.rules_in(city) == Rules((2, 5), (20, 30))
    assert spec.in_city(city) == kind.model_validate({**SPECS[kind], "demand": (2, 5), "capacity": (20, 30)})
    own = kind.model_validate({**SPECS[kind], "demand": (1, 3)})
    assert own.rules_in(city) == Rules((1, 3), (20, 30))


@pytest.mark.parametrize("kind", OrdersSpec.__subclasses__(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "ranges",
    [
        {"demand": (0, 3)},
        {"demand": (-3, 3)},
        {"demand": (9, 1)},
        {"demand": (1, 70_000)},  # instances have 16 bits for a demand
        {"capacity": (40, 30)},
        {"demand": (1, 9), "capacity": (8, 20)},
    ],
)
def test_orders_are_drawn_from_ranges_only(kind: type[OrdersSpec], ranges: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="is not a range"):
        kind.model_validate({**SPECS[kind], **ranges})


@pytest.mark.parametrize("kind", [*GOLDEN, PipelineSpec], ids=lambda kind: kind.__name__)
def test_no_spec_takes_a_field_that_it_does_not_know(kind: type[StrictSpec]) -> None:
    with pytest.raises(ValidationError, match="smaples"):
        kind.model_validate({**SPECS.get(kind, {}), "smaples": 1})
