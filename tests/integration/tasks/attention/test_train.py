"""Attention models learn, and a killed training ends with the bytes of an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.cities import save_city
from mcvrp.storage.layout import attention_training
from mcvrp.storage.models.attention import attention_card, load_attention_model, load_training
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionNetworkSpec, AttentionSpec
from mcvrp.tasks.attention.train import train_attention
from mcvrp.tasks.solvers.attention import AttentionSolver

CITY = City.uniform(100, seed=1)
SPEC = AttentionSpec(
    model="small",
    sizes=(20,),
    network=AttentionNetworkSpec(dim=16, heads=2, layers=1, ff=32),
    epochs=4,
    epoch_instances=32 * 30,
    batch=32,
    paths=4,
    lr=2e-3,
    evaluation=200,
    checkpoint_seconds=0,
)
PROGRAM = """
import sys, torch
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.attention.train import train_attention
torch.set_num_threads(1)
store = Store.open(sys.argv[1])
train_attention(store, load_city(store, "c"), AttentionSpec.model_validate_json(sys.argv[2]))
"""


def started(store: Store) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, store.uri, SPEC.model_dump_json()], stderr=subprocess.DEVNULL
    )


def finish(store: Store) -> None:
    assert started(store).wait(timeout=300) == 0


@pytest.mark.slow
def test_a_killed_training_is_the_undisturbed_one(tmp_path: Path) -> None:
    """SIGKILL within two different epochs: the same command ends with the same bits."""
    whole, killed = (Store.open(tmp_path / name) for name in ("whole", "killed"))
    for store in (whole, killed):
        save_city(store, "c", CITY)
    finish(whole)
    reached = [0]
    for after in (35, 70):  # within the second and the third epoch
        process = started(killed)
        until = time.monotonic() + 200
        while reached[-1] < after and time.monotonic() < until and process.poll() is None:
            time.sleep(0.01)
            checkpoint = load_training(killed, "small", 20)
            reached.append(checkpoint[0].step if checkpoint else 0)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert killed.exists(attention_training("small", 20))
    assert 35 <= reached[-1] < SPEC.steps(20)
    finish(killed)
    one, two = (attention_card(store, "small", 20) for store in (whole, killed))
    assert one is not None
    assert two is not None
    assert one.weights_sha256 == two.weights_sha256
    assert one.epochs == two.epochs
    ours, theirs = (load(store.get(f"{one.folder}/model.safetensors")) for store in (whole, killed))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert not killed.exists(attention_training("small", 20))


def test_a_network_learns_in_seconds(tmp_path: Path) -> None:
    """The greedy cost falls, also on held-out instances; more samples are better."""
    store = Store.open(tmp_path)
    (card,) = train_attention(store, CITY, SPEC).cards
    costs = [card.untrained, *(epoch.greedy for epoch in card.epochs)]
    assert min(costs[1:]) < 0.75 * card.untrained
    assert costs[-1] < costs[1]
    model, _ = load_attention_model(store, "small", 20)
    stream = InstanceStream(CITY, 1, "test")
    instances = [stream(20, i) for i in range(20)]
    answers = list(AttentionSolver({20: model}).solve(CITY, instances, samples=32, seed=1))
    one, many = (float(np.mean([a.costs[:s].min() for a in answers])) for s in (1, 32))
    assert many < one < 0.8 * card.untrained
