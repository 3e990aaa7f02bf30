import numpy as np
import pytest
import torch

from mcvrp.model.decoding import Greedy, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.layout import label_spec
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.held_out import HeldOut, measured, require
from tests.support.training import small_spec, write_dataset

CITY = City.uniform(60, seed=3)
SPEC = small_spec(held_out="tiny-held-out")


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path)
    write_dataset(store, CITY, range(20, 23), 3, "tiny-held-out")
    store.put_json(label_spec("tiny-held-out"), {"split": "valid"})
    return store


@pytest.fixture
def network():
    torch.manual_seed(1)
    return FmMcvrp(
        NetworkConfig(classes=61, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.5)
    ).train()


def test_the_gap_is_that_of_greedy_decoding(store, network):
    """The mean of the instances' gaps to their labels, whatever batches they are decoded in."""
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 22))
    assert [instance.n for instance in held_out.instances] == [20] * 3 + [21] * 3
    gap = held_out.greedy_gap(network, CityTable.of(CITY))
    network.eval()
    costs = [decode(network, CITY, [i], strategy=Greedy())[0].costs[0] for i in held_out.instances]
    assert gap == pytest.approx(float(np.mean(100 * (np.array(costs) / held_out.costs - 1))))


def test_measuring_does_not_touch_training(store, network):
    """Dropout is off meanwhile and on afterwards; the random numbers to come are the same."""
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 23))
    before = torch.get_rng_state()
    gaps = [held_out.greedy_gap(network, CityTable.of(CITY)) for _ in range(2)]
    assert gaps[0] == gaps[1]
    assert network.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not any(parameter.is_inference() for parameter in network.parameters())


def test_ranks_share_the_instances(store, network, monkeypatch):
    """The ranks' sums are the gap of one rank, even where a rank has nothing to do."""
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 22))
    table, parts = CityTable.of(CITY), []
    monkeypatch.setattr("torch.distributed.all_reduce", lambda costs: parts.append(costs.clone()))
    for rank in range(8):
        held_out.greedy_gap(network, table, rank, 8)
    assert [int((part > 0).sum()) for part in parts] == [1] * 6 + [0] * 2
    total = sum(parts).numpy()
    gap = float(np.mean(100 * (total / held_out.costs - 1)))
    assert gap == pytest.approx(held_out.greedy_gap(network, table))


def test_what_cannot_be_measured_is_refused_before_training(store):
    """No dataset, another split, another city, other sizes: one sentence each with the hint."""
    require(store, CITY, SPEC, "II")
    with pytest.raises(McvrpError, match=r"no dataset 'nowhere'.*label\.held_out of at least 1"):
        require(store, CITY, small_spec(held_out="nowhere"), "II")
    with pytest.raises(McvrpError, match="not of city"):
        require(store, City.uniform(60, seed=4), SPEC, "II")
    larger = tuple(p.model_copy(update={"first": 30, "last": 31}) for p in SPEC.phases)
    with pytest.raises(McvrpError, match="no labels of 30 to 31 customers"):
        require(store, CITY, SPEC.model_copy(update={"phases": larger, "smallest": 30}), "II")
    store.put_json(label_spec("tiny-held-out"), {"split": "test"})
    with pytest.raises(McvrpError, match="of split 'test', not 'valid'"):
        require(store, CITY, SPEC, "II")


def test_a_phase_of_the_encoder_is_not_measured(store):
    """Only a decoder that has learnt something has a gap worth its time; no set, no gap."""
    assert [measured(SPEC, name) for name in ("I", "II")] == [False, True]
    assert not measured(small_spec(), "II")
    require(store, CITY, small_spec(held_out="nowhere"), "I")
    require(store, CITY, small_spec(), "II")
