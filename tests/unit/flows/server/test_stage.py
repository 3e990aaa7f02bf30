"""Tests of the declaration of flows: parameters are validated, errors are one sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.validation import of_form, parameters_of, parsed
from mcvrp.flows.label import label
from mcvrp.flows.server.stage import completed
from mcvrp.model.errors import McvrpError
from mcvrp.tasks.label.spec import LabelSpec

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
    with pytest.raises(McvrpError, match="storr: there is no such field"):
        parsed(PARAMETERS, {**GIVEN, "storr": "s3://b"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed(count=-3), "label.count: Input should be greater than or equal to 1, not -3"),
        (changed(cuont=3), "label.cuont: there is no such field"),
        (changed(demand=[0, 9]), "label: demand = [0, 9] is not a range within 1 to 65535"),
        ({"label": GIVEN["label"]}, "city: Field required"),
        ({**GIVEN, "city": "../c"}, "city: "),
        ({**GIVEN, "label": "d"}, "label: "),
        (
            {**changed(count=0), "city": ""},
            "not ''\nlabel.count: ",
        ),
    ],
)
def test_a_wrong_value_gets_the_message_of_the_command(values: dict[str, Any], message: str) -> None:
    with pytest.raises(McvrpError, match=re.escape(message)):
        parsed(PARAMETERS, values)


def test_what_a_run_of_a_deployment_lacks_is_the_deployments() -> None:
    own: dict[str, Any] = {
        "store": None,
        "city": "bremen",
        "nightly": {"model": "bremen", "old": "lyon", "instances": 600},
    }
    nulls = {"store": None, "nightly": {"old": None, "policy": None}}  # a schedule of Prefect's page
    assert completed(nulls, own, without_null=True) == own
    changed = {"store": None, "nightly": {"old": None, "instances": 40}}
    nightly = own["nightly"]
    assert completed(changed, own, without_null=True) == own | {"nightly": nightly | {"instances": 40}}
    assert completed(changed, own) == own | {"nightly": nightly | {"instances": 40, "old": None}}
    assert completed({"orders": [{"customer": "a"}]}, own) == own | {"orders": [{"customer": "a"}]}


def test_relative_paths_of_a_form_are_files_in_the_store() -> None:
    addresses = {"file": "uploads/a.csv", "matrix": "store:uploads/m.npy"}  # with store: or without
    spec = load_preset("smoke").model_dump(mode="json")
    form = {"spec": spec | {"city": {"name": "c", "source": "imported", "addresses": addresses}}}
    files = {"orders": "monday.csv", "keep": "s3://b/routes.csv"}
    taken = of_form({**form, **files, "store": "s3://ours", "times": 2})
    stored = {"file": "store:uploads/a.csv", "matrix": "store:uploads/m.npy"}
    assert taken["spec"] == form["spec"] | {"city": form["spec"]["city"] | {"addresses": stored}}
    assert (taken["orders"], taken["times"], taken["store"]) == ("store:monday.csv", 2, "s3://ours")
    assert taken["keep"] == files["keep"]
    assert of_form({"keep": None, "orders": [{"demand": 1}]}) == {"keep": None, "orders": [{"demand": 1}]}
