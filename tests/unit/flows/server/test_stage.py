"""Tests of the declaration of flows: parameters are validated, errors are one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prefect.states import Failed

from mcvrp.flows.config import preflight as checks
from mcvrp.flows.config.parameters import in_store, of_worker, parameters_of, parsed
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.label import label
from mcvrp.flows.server import stage
from mcvrp.flows.server.records import Records
from mcvrp.flows.server.stage import inputs, open_store, was_cut_off
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.errors import StoreSilent
from mcvrp.storage.store.store import Store, StoreUnavailable
from mcvrp.tasks.city.spec import CitySpec
from mcvrp.tasks.label.spec import LabelSpec
from tests.support.datasets import CITY
from tests.support.silent_store import Outage

PARAMETERS = parameters_of(label.fn)
GIVEN: dict[str, Any] = {"city": "c", "label": {"dataset": "d", "smallest": 20, "largest": 50, "count": 3}}


def changed(**changes: object) -> dict[str, Any]:
    return {**GIVEN, "label": GIVEN["label"] | changes}


def test_what_a_form_sends_becomes_specs() -> None:
    arguments = parsed(PARAMETERS, GIVEN)
    assert isinstance(arguments["label"], LabelSpec)
    assert arguments["label"].partitions == 31
    assert arguments["store"] is None
    assert parsed(PARAMETERS, arguments)["label"] is arguments["label"]
    with pytest.raises(McvrpError, match="there is no storr; did you mean store"):
        parsed(PARAMETERS, {**GIVEN, "storr": "s3://b"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed(count=-3), "label.count must be at least 1, not -3"),
        (changed(cuont=3), "there is no label.cuont; did you mean count?"),
        (changed(demand=[0, 9]), "[label] demand = [0, 9] is not a range within 1 to 65535"),
        ({"label": GIVEN["label"]}, "city is missing"),
        ({**GIVEN, "city": "../c"}, "city must be a name of letters"),
        ({**GIVEN, "label": "d"}, "label must be a table, not 'd'"),
        (
            {**changed(count=0), "city": ""},
            "100 at most, not ''\nlabel.count must be at least 1",
        ),
    ],
)
def test_a_wrong_value_gets_the_message_of_the_command(values: dict[str, Any], message: str) -> None:
    with pytest.raises(McvrpError, match=re.escape(message)):
        parsed(PARAMETERS, values)


@pytest.mark.parametrize(
    "place",
    ["/etc/passwd", "store:/etc/passwd", "../secret", "orders/../../secret", "~/x.csv", "s3://b/x.csv", ""],
)
def test_a_form_names_nothing_else(place: str) -> None:
    """Neither a file of the worker's machine nor another bucket; the message says where to put it."""
    with pytest.raises(McvrpError, match=r"orders = '.*' is not a path in the store: upload the file there"):
        in_store("orders", place)


def test_a_worker_takes_files_of_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCVRP_STORE", "s3://ours")
    addresses = {"file": "uploads/a.csv", "matrix": "store:uploads/m.npy"}
    city = CitySpec.model_validate({"name": "c", "source": "imported", "addresses": addresses})
    spec = load_preset("smoke").model_copy(update={"city": city})
    files = {"orders": "monday.csv", "start": "solutions/sunday/routes.csv"}
    taken = of_worker({"spec": spec, **files, "store": "s3://ours", "times": 2})  # with store: or without
    assert taken["spec"].city.addresses.file == "store:uploads/a.csv"
    assert taken["spec"].city.addresses.matrix == "store:uploads/m.npy"
    assert taken["spec"].city.addresses.history is None
    assert taken["spec"].label is spec.label
    assert (taken["orders"], taken["times"]) == ("store:monday.csv", 2)
    assert taken["start"] == "store:solutions/sunday/routes.csv"
    assert of_worker({"start": None, "store": None})["start"] is None


@pytest.mark.parametrize(
    "field", [*(f"city.addresses.{f}" for f in ("file", "matrix", "history")), "orders", "start", "keep"]
)
def test_a_worker_takes_no_other_files(field: str) -> None:
    _, in_spec, file = field.rpartition(".")
    addresses = {"file": "a.csv"} | {file: "/etc/passwd"}
    city = {"name": "c", "source": "imported", "addresses": addresses}
    values = {"city": CitySpec.model_validate(city)} if in_spec else {field: "/etc/passwd"}
    with pytest.raises(McvrpError, match=rf"^{re.escape(field)} = '/etc/passwd' is not a path in the store"):
        of_worker({**values, "store": None})


def test_a_worker_takes_its_store_and_those_that_the_operator_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCVRP_STORE", "s3://ours")
    with pytest.raises(McvrpError, match="store = '/data' is not the store of the worker: leave it empty"):
        of_worker({"store": "/data"})
    monkeypatch.setenv("MCVRP_STORES", "s3://theirs, /data")
    for store in (None, "s3://ours", "s3://theirs", "/data"):
        assert of_worker({"store": store}) == {"store": store}
    with pytest.raises(McvrpError, match="is not the store of the worker"):
        of_worker({"store": "/data/below"})


def test_every_flow_has_a_timeout() -> None:
    """A run that hangs does not block the next one indefinitely."""
    from mcvrp.flows.server.deployments import deployments

    for deployment in deployments():
        assert deployment.flow().timeout_seconds
        assert deployment.concurrency_limit


def test_a_deployed_pipeline_is_checked_before_its_first_stage(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    store, smoke = Store.open(tmp_path / "store"), load_preset("smoke")
    other = smoke.model_copy(update={"train": smoke.train.model_copy(update={"dataset": "other"})})
    with pytest.raises(McvrpError, match=r"train\.dataset = 'other' is not the dataset of label"):
        checks.check_pipeline(store, other)
    greedy = smoke.model_copy(update={"label": smoke.label.model_copy(update={"workers": 10_000})})
    with pytest.raises(McvrpError, match=r"label\.workers = 10000, but this machine has"):
        checks.check_pipeline(store, greedy)
    checks.check_pipeline(store, smoke)
    assert not store.list("")


def test_only_the_first_stage_requires_an_answer_at_once(
    store: Store, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stages of a pipeline wait for a silent store; the flow that was started fails at once."""
    store.put("a", b"1")
    outage.begin(1)
    with pytest.raises(StoreUnavailable):
        open_store(store.uri)
    outage.begin(1)
    monkeypatch.setattr(stage, "running_records", lambda: Records(cities={}))
    assert open_store(store.uri).get("a") == b"1"
    assert outage.requests == 4  # the read, a sign of life that fails, one that comes, and the read again


def test_a_checked_stage_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither checks nor reads a city again; one that did not exist before is read."""
    store, checks = Store.open(tmp_path), []
    save_city(store, "c", CITY)

    def check(store: Store, city: StoredCity, spec: str) -> None:
        checks.append((city.name, spec))

    _, city = inputs(check, store.uri, "c", "labels")
    assert city.city.city_id == CITY.city_id
    assert checks == [("c", "labels")]
    monkeypatch.setattr(stage, "running_records", lambda: Records(cities={(store.uri, "c"): city}))
    assert inputs(pytest.fail, store.uri, "c", "labels")[1] is city
    save_city(store, "new", CITY)
    assert inputs(pytest.fail, store.uri, "new")[1].name == "new"
    with pytest.raises(McvrpError, match="no city 'd'"):
        inputs(pytest.fail, store.uri, "d")


def test_a_task_that_has_waited_in_vain_is_not_retried() -> None:
    """Ten minutes of waiting are enough; the same command resumes when the store answers."""

    for error, retried in ((IncompleteError("a rank was lost"), True), (StoreSilent("for minutes"), False)):
        assert was_cut_off(None, None, Failed(data=error)) == retried
