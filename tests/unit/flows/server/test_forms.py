"""Tests of the table of stages and of the forms of the Prefect UI, which have its parameters."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Le
from prefect import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate

from mcvrp.flows import figures
from mcvrp.flows.config.preset import load_preset, preset_names
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.flows.server.deployments import first_values
from mcvrp.flows.solve import (
    _run_name,  # type: ignore[attr-defined]
    solve,
)
from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.spec import SolveSpec
from tests.support.solving import put_day

Schema = Mapping[str, Any]
DEPLOYED = list(STAGES)
TYPED = {"solve": {"orders": "monday.csv"}}  # parameters without an initial value
# Bounds of these pairs depend on each other: the spec checks them.
UNBOUNDED = ("demand", "capacity")


def flow_of(name: str) -> Flow[Any, Any]:
    flow = STAGES[name].load_flow()
    assert isinstance(flow, Flow)
    return flow


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema that a deployment sends."""
    return parameter_schema(flow_of(name)).model_dump(exclude_unset=True)


def fields(schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield from schema["properties"].items()
    for name, definition in schema.get("definitions", {}).items():
        for field, part in definition.get("properties", {}).items():
            yield f"{name}.{field}", part


def numbers(field: Schema) -> Iterator[Schema]:
    if field.get("type") in ("integer", "number"):
        yield field
    inner = [field.get("items"), field.get("additionalProperties")]
    inner += [*field.get("prefixItems", ()), *field.get("anyOf", ()), *field.get("allOf", ())]
    for part in inner:
        if isinstance(part, dict):
            yield from numbers(part)


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_field_has_a_description_and_bounds(name: str) -> None:
    """The flow, too: a run that hangs does not block the next one indefinitely."""
    assert flow_of(name).description
    assert flow_of(name).timeout_seconds
    schema = schema_of(name)
    assert "store" in schema["properties"]
    for path, field in fields(schema):
        assert field.get("title"), path
        assert field.get("description"), path
        pair = [part for part in field.get("anyOf", [field]) if "prefixItems" in part]
        for part in numbers(field):
            if not (pair and path.endswith(UNBOUNDED)):
                assert {"minimum", "exclusiveMinimum", "enum"} & set(part), path


def test_a_day_may_take_as_long_as_its_form_accepts() -> None:
    metadata = SolveSpec.model_fields["time_limit"].metadata
    (bound,) = (float(str(each.le)) for each in metadata if isinstance(each, Le))
    assert (solve.timeout_seconds or 0) >= bound + 1800  # and time to read, and to write


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("name", DEPLOYED)
def test_initial_values_are_valid(name: str, preset: str) -> None:
    values = first_values(name, load_preset(preset)) | TYPED.get(name, {})
    assert validate(json.loads(json.dumps(values)), schema_of(name)) == []


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_row_has_the_parameters_of_its_flow(stage: Stage) -> None:
    """And all that it names is there."""
    assert stage.load_flow().name == stage.name  # type: ignore[attr-defined]
    assert not stage.check or callable(stage.load_check())
    for function in (stage.figures, stage.tables, stage.lacks):
        assert not function or callable(getattr(figures, function))
    parameters = inspect.signature(stage.load_flow().fn).parameters  # type: ignore[attr-defined]
    others = {"store", "orders", "capacity", "keep", "unrounded", "date"}
    assert set(stage.asks(load_preset("smoke"))) == set(parameters) - others


def test_the_form_of_a_day_begins_with_what_changes_daily() -> None:
    """Decoding is a group at its end; the fields of a preset stay those of one section."""
    schema = schema_of("solve")
    assert list(schema["properties"])[:4] == ["orders", "city", "capacity", "limits"]
    assert list(schema["properties"])[-2:] == ["decoding", "store"]
    limits = list(schema["definitions"]["LimitsSpec"]["properties"])
    assert limits[:4] == ["fleet", "longest_route", "shift", "start_time"]
    spec = load_preset("smoke", ["solve.samples=7", "solve.fleet=3"]).solve
    groups = first_values("solve", load_preset("smoke", ["solve.samples=7", "solve.fleet=3"]))
    assert (groups["decoding"]["samples"], groups["limits"]) == (7, {"fleet": 3})
    assert SolveSpec(**groups["limits"], **groups["search"], **groups["decoding"]) == spec


def test_a_run_is_named_by_its_day_but_not_by_a_long_text_of_orders() -> None:
    """Postgres refuses names of thousands of characters, and the run would wait for its server."""
    assert _run_name("lyon", "customer,demand\n" * 1000, None) == "lyon: pasted orders"
    assert len(_run_name(None, "x" * 1000, None)) <= 100
    assert _run_name("lyon", "orders/monday.csv", date(2026, 11, 30)) == "lyon: monday.csv, 2026-11-30"


def test_pasted_orders_are_called_so(tmp_path: Path) -> None:
    """And without a model's name, as in the form of an empty store, that of the city searches."""
    put_day(store := Store.open(tmp_path))
    search = {"by": "pyvrp", "time_limit": 0.2}
    day: dict[str, Any] = {"city": "small", "capacity": 9, "search": search, "store": store.uri}
    assert solve("customer,demand\n1,2\n2,3\n", **day).planned.day.source == "pasted orders"
    card = solve("customer,demand\n1,2\n2,3\n", **day | {"search": {"time_limit": 0.2}}).planned.card
    assert card is not None
    assert card.name == "small"
    with pytest.raises(McvrpError, match=r"no model 'laptop' .*the flow train"):
        solve("customer,demand\n1,2\n2,3\n", **day | {"model": "laptop", "search": {}})


@pytest.mark.parametrize("name", DEPLOYED)
def test_no_field_that_the_preset_fills_in_says_empty(name: str) -> None:
    """Both of Prefect's forms leave an emptied text out, and its server fills the value in again."""
    filled = {field for field, value in first_values(name, load_preset("smoke")).items() if value}
    texts = {field: part.get("description", "") for field, part in schema_of(name)["properties"].items()}
    assert not [field for field in filled if "empty" in texts[field].lower()]
