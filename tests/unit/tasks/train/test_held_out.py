"""Held-out gap: its value, its independence of ranks, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mcvrp.model.decoding import Greedy, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.layout import label_file, label_spec
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.held_out import HeldOut, measured, require
from tests.support.training import CITY, small_spec, write_dataset

TABLE = CityTable.of(CITY)
SPEC = small_spec(held_out="tiny-held-out")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path)
    write_dataset(store, CITY, range(20, 23), 3, "tiny-held-out")
    store.put_json(label_spec("tiny-held-out"), {"split": "valid"})
    return store


@pytest.fixture
def network() -> FmMcvrp:
    torch.manual_seed(1)
    return FmMcvrp(
        NetworkConfig(classes=61, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.5)
    ).train()


def test_the_gap_is_the_mean_over_instances(store: Store, network: FmMcvrp) -> None:
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 22))
    assert [instance.n for instance in held_out.instances] == [20] * 3 + [21] * 3
    gap = held_out.gap(network, TABLE, Greedy(), 1, 0, 1)
    network.eval()
    costs = [decode(network, CITY, [i], strategy=Greedy())[0].costs[0] for i in held_out.instances]
    assert gap == pytest.approx(float(np.mean(100 * (np.array(costs) / held_out.costs - 1))))


def test_measuring_does_not_affect_training(store: Store, network: FmMcvrp) -> None:
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 23))
    before = torch.get_rng_state()
    gaps = [held_out.gap(network, TABLE, Greedy(), 1, 0, 1) for _ in range(2)]
    assert gaps[0] == gaps[1]
    assert network.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not any(parameter.is_inference() for parameter in network.parameters())


def test_ranks_share_the_instances(store: Store, network: FmMcvrp, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over ranks is the gap of one rank, even if some ranks have no instance."""
    held_out = HeldOut.load(store, CITY, "tiny-held-out", range(20, 22))
    parts = list[torch.Tensor]()
    monkeypatch.setattr("torch.distributed.all_reduce", lambda costs: parts.append(costs.clone()))
    for rank in range(8):
        held_out.gap(network, TABLE, Greedy(), 1, rank, 8)
    assert [int((part > 0).sum()) for part in parts] == [1] * 6 + [0] * 2
    gap = float(np.mean(100 * (torch.stack(parts).sum(0).numpy() / held_out.costs - 1)))
    assert gap == pytest.approx(held_out.gap(network, TABLE, Greedy(), 1, 0, 1))


def test_unusable_held_out_sets_are_refused_before_training(store: Store) -> None:
    require(store, CITY, SPEC, "II")
    with pytest.raises(McvrpError, match=r"no .*nowhere/spec\.json: .*label\.held_out of at least 1"):
        require(store, CITY, small_spec(held_out="nowhere"), "II")
    with pytest.raises(McvrpError, match=r"are of city .*, not of"):
        require(store, City.uniform(60, seed=4), SPEC, "II")
    larger = tuple(p.model_copy(update={"first": 30, "last": 31}) for p in SPEC.phases)
    with pytest.raises(McvrpError, match="no labels of 30 to 31 customers"):
        require(store, CITY, SPEC.model_copy(update={"phases": larger, "smallest": 30}), "II")
    for extent in ({"largest": 22, "count": 4}, {"largest": 23, "count": 3}):
        store.put_json(label_spec("tiny-held-out"), {"split": "valid", "smallest": 20} | extent)
        longer = tuple(p.model_copy(update={"last": 23}) for p in SPEC.phases)
        with pytest.raises(
            McvrpError, match=r"lacks some of its \d labels of 2[03] customers: run mcvrp label"
        ):
            require(store, CITY, SPEC.model_copy(update={"phases": longer}), "II")
    store.put_json(label_spec("tiny-held-out"), {"split": "valid", "smallest": 20, "largest": 22, "count": 3})
    require(store, CITY, SPEC, "II")
    first, rest = (label_file("tiny-held-out", 21, *rows) for rows in ((0, 3), (1, 3)))
    (table,) = Dataset.open(store, "tiny-held-out").read_rows(21)
    store.delete(first)
    write_labels(store, rest, CITY, "tests", list(table_labels(table, CITY.city_id))[1:])
    with pytest.raises(McvrpError, match=r"lacks some of its 3 labels of 21 customers: .* at least 3, or"):
        require(store, CITY, SPEC, "II")
    store.put_json(label_spec("tiny-held-out"), {"split": "test"})
    with pytest.raises(McvrpError, match="of split 'test', not 'valid'"):
        require(store, CITY, SPEC, "II")


def test_an_encoder_phase_is_not_measured(store: Store) -> None:
    assert [measured(SPEC, name) for name in ("I", "II")] == [False, True]
    assert not measured(small_spec(), "II")
    require(store, CITY, small_spec(held_out="nowhere"), "I")
    require(store, CITY, small_spec(), "II")
