"""Test of both ways to register deployments, Prefect's and that of mcvrp, with a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Workplace

ROOT = Path(__file__).parents[4]
BOTH = """
import json, os, subprocess, sys
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server
from mcvrp.storage.store.store import Store

ROOT = sys.argv[1]
# The version is the commit for Prefect, a hash of the flow for mcvrp.
OF_ITS_OWN = {"id", "created", "updated", "deployment_id", "version", "version_id", "concurrency_limit_id"}

def call(*words, **more):
    env = os.environ | {"PREFECT_API_URL": server.url, "PREFECT_API_AUTH_STRING": server.password}
    done = subprocess.run([sys.executable, "-m", *words], env=env, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr

def bare(value):
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key not in OF_ITS_OWN}
    return [bare(part) for part in value] if isinstance(value, list) else value

def registered():
    with get_client(sync_client=True) as client:
        stored = [deployment.model_dump(mode="json") for deployment in client.read_deployments()]
        automations = client._client.post("/automations/filter", json={}).json()
        pool = client.read_work_pool("mcvrp").base_job_template
        for deployment in stored:
            client.delete_deployment(deployment["id"])
            deployment["global_concurrency_limit"].pop("name")  # the deployment's id
    named = {deployment["name"]: bare(deployment) for deployment in stored}
    return {"deployments": named, "automations": sorted(a["name"] for a in automations), "pool": pool}

with prefect_server() as server:
    call("prefect", "work-pool", "create", "--type", "process", "mcvrp")
    call("prefect", "--no-prompt", "deploy", "--all", cwd=ROOT)
    theirs = registered()
    results = [theirs]
    Store.open("store").put("preset.json", b"{}")  # unfit: a server without deployments gets laptop's
    for options in (["--preset", "laptop"], ["--last-of", "store"], ["--preset", "smoke"]):
        call("mcvrp.flows.server.deployments", *options)
        if options[-1] == "smoke":
            call("mcvrp.flows.server.deployments", "--last-of", "store")
        results.append(registered())
    print(json.dumps(results))
"""


@pytest.mark.slow
def test_prefect_deploy_ends_with_the_deployments_that_we_register(tmp_path: Path) -> None:
    done = Workplace.new(tmp_path).python("-c", BOTH, str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr
    theirs, ours, first, kept = json.loads(done.stdout)
    assert len(theirs["deployments"]) == 9
    for name, deployment in ours["deployments"].items():
        assert theirs["deployments"][name] == deployment, name
        assert deployment["tags"] == ["mcvrp"]
        assert deployment["parameters"]
        assert not deployment["pull_steps"]
        assert not deployment["job_variables"]
    assert ours == theirs
    assert first == ours
    assert len(kept["deployments"]) == 9
    assert kept["deployments"]["train"]["parameters"]["train"]["run"] == "smoke"
