"""Test of the whole on a real S3 server: every stage reads and writes there, and there only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.storage.benchmarks import read_results
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.support.s3_server import S3Server
from tests.support.ui import mcvrp_ui


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_smoke_preset_runs_in_a_bucket(s3: S3Server, s3_uri: str, tmp_path: Path) -> None:
    """From nothing to a report; again with nothing to do; a wrong key is one sentence before any work."""
    spec = load_preset("smoke")
    place = Workplace.new(tmp_path)
    methods = 'benchmark.methods=["hgs", "am", "fm-ns", "fm-hgs"]'  # one of each kind; all run elsewhere
    run = ("run", "--preset", "smoke", "--store", s3_uri, "--set", methods)
    refused = place.mcvrp(*run, **s3.environment() | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"mcvrp: cannot write to the store {s3_uri} ")
    assert len(refused.stderr.splitlines()) == 1

    done = place.mcvrp(*run, **s3.environment())
    assert done.returncode == 0, done.stderr
    assert f"{s3_uri}/benchmarks/smoke/report.html" in done.stdout
    store = Store.open(s3_uri)
    city = load_city(store, "smoke")
    assert [len(load_labels(store, "smoke", n)) for n in spec.label.sizes] == [spec.label.count] * 3
    assert load_model(store, "smoke")[1].city_id == city.city_id
    assert len(read_results(store, "smoke")) > 0
    assert not place.store.exists()
    bucket, prefix = s3_uri.removeprefix("s3://").split("/", 1)
    names = [item["Key"] for item in s3.client().list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]]
    assert [name for name in names if name.endswith(("/", ".tmp")) or "_staging" in name] == []

    again = place.mcvrp(*run, "--json", **s3.environment())
    assert again.returncode == 0, again.stderr
    summary = json.loads(again.stdout)
    assert summary["label"]["new"] == 0
    assert all(phase["began_at"] == phase["steps"] for phase in summary["train"]["phases"])
    shown = place.mcvrp("inspect", "models/smoke/0001/model.json", "--store", s3_uri, **s3.environment())
    assert shown.returncode == 0, shown.stderr
    assert place.processes() == []


@pytest.mark.slow
def test_runs_of_the_ui_use_the_bucket(s3: S3Server, s3_uri: str, tmp_path: Path) -> None:
    """A run that the UI starts finds the keys in its environment; the server never learns them."""
    place = Workplace.new(tmp_path)
    keys = s3.environment()
    with mcvrp_ui(place, "--store", s3_uri, **keys) as ui:
        made = ui.ended(ui.start("city"))
        assert made["state_type"] == "COMPLETED", made["state"]["message"]
        known = json.dumps([ui.api(f"/{kind}/filter", {}) for kind in ("flow_runs", "artifacts", "logs")])
        assert f"{s3_uri}/cities/smoke" in known
        assert keys["AWS_SECRET_ACCESS_KEY"] not in known
    assert load_city(Store.open(s3_uri), "smoke").customers == 50
    assert not place.store.exists()
