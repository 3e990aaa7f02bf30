"""Published models: complete versions with unique numbers, loadable without the training libraries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
import pytest

from mcvrp.model.decoding import Greedy, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard, load_model, model_card, publish_model, versions
from mcvrp.storage.models.registry import move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Moments, Origin, save_checkpoint
from tests.support.killed import killed_at_each_write

CITY = City.uniform(60, seed=3)
NETWORK = asdict(NetworkConfig(61, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32))
METRICS = {"problem_loss": 0.125, "solution_loss": 0.5, "solution_accuracy": 0.875, "greedy_gap": 7.25}


def checkpoint(store: Store, value: float, step: int = 10) -> CheckpointState:
    """Return a saved checkpoint whose weights are all ``value``."""
    network = FmMcvrp(NetworkConfig(**NETWORK))  # type: ignore[arg-type]
    weights = {name: np.full(p.shape, value, np.float32) for name, p in network.named_parameters()}
    origin = Origin(CITY.city_id, "f" * 64, NETWORK, {"smallest": 20, "last": 24}, "")
    state = CheckpointState(f"run-{value:g}", "II", step, step, step, origin, METRICS)
    return save_checkpoint(store, state, weights, Moments({}, {}))


def publish(store: Store, state: CheckpointState, name: str = "m") -> ModelCard:
    return publish_model(store, name, state, dataset="d", rotation_trained=True)


def test_versions_are_loaded_by_number_and_by_alias(store: Store) -> None:
    for value in (1.0, 2.0, 3.0):
        publish(store, checkpoint(store, value))
    weights = {
        version: next(load_model(store, "m", version)[0].parameters()).flatten()[0].item()
        for version in (None, 1, "2", "latest", "champion", "challenger")
    }
    assert weights == {None: 3.0, 1: 1.0, "2": 2.0, "latest": 3.0, "champion": 1.0, "challenger": 3.0}
    for unknown in ("champoin", "1.0", "", -1):
        with pytest.raises(McvrpError, match=f"^'?{unknown}'? is no version: give a number, champion, "):
            load_model(store, "m", unknown)
    assert publish(store, checkpoint(store, 1.0)).version == 1  # it has these weights
    assert publish(store, checkpoint(store, 1.0), "2026").version == 1  # a number may be a model's name
    assert publish(store, checkpoint(store, 2.0), "2026").version == 2
    with pytest.raises(McvrpError, match="no version 4, it has version 1, 2, 3"):
        model_card(store, "m", "4")
    store.delete(layout.model_dir("m", 1))
    with pytest.raises(McvrpError, match=r"no version 1, it has version 2, 3: .*mcvrp promote m VERSION"):
        model_card(store, "m", "champion")
    store.delete(layout.champion_dir("m"))
    with pytest.raises(McvrpError, match=r"no champion, it has version 2, 3: .* .mcvrp promote m VERSION"):
        model_card(store, "m", "champion")


def test_the_number_of_a_deleted_version_names_no_other_weights(store: Store) -> None:
    """Records name versions by number, and a night would take the new weights for a former champion's."""
    for value in (1.0, 2.0, 3.0):
        publish(store, checkpoint(store, value))
    move_champion(store, "m", 3, pointer(store, "m", "champion"))
    store.delete(layout.model_dir("m", 3))
    assert publish(store, checkpoint(store, 3.0)).version == 3  # the champion, which is restored so
    roll_back(store, "m")
    store.delete(layout.model_dir("m", 3))
    assert publish(store, checkpoint(store, 4.0)).version == 4
    assert pointer(store, "m", "challenger").version == 4


def test_a_loaded_model_refuses_another_city(store: Store) -> None:
    """Its node numbers are other places there; one that extends its city has the same."""
    card = publish(store, checkpoint(store, 1.0))
    network, _ = load_model(store, "m")
    other = City.uniform(3, seed=1)
    orders = [Instance(other.city_id, np.arange(1, 4, dtype=np.uint32), np.ones(3, np.uint16), 5)]
    with pytest.raises(McvrpError, match=f"trained on city {card.city_id}, not on {other.city_id}"):
        decode(network, other, orders, strategy=Greedy())
    network.city = "lyon"
    with pytest.raises(McvrpError, match=rf"on city 'lyon' \({card.city_id}\), not on {other.city_id}"):
        decode(network, other, orders, strategy=Greedy())
    grown = City(np.concatenate([CITY.xy, CITY.xy[1:2]]), extends=(CITY.customers,))
    with pytest.raises(McvrpError, match="the model knows 61 nodes"):
        decode(network, grown, [], strategy=Greedy())


def test_a_version_has_config_and_cards(store: Store) -> None:
    card = publish(store, checkpoint(store, 1.0))
    files = [path.rsplit("/", 1)[-1] for path in store.list(card.folder)]
    assert files == ["README.md", "config.json", "model.json", "model.safetensors"]
    config = store.get_json(layout.model_config("m", 1))
    assert config["network"] == NETWORK
    assert config["weights_sha256"] == card.weights_sha256
    assert (card.smallest, card.largest) == (20, 24)
    readme = store.get(f"{card.folder}/README.md").decode()
    for text in ("# Model m, version 1", CITY.city_id, "dataset `d`", "20 to 24 customers", "7.25"):
        assert text in readme
    assert "losses.png" not in readme


def test_concurrent_publishers_get_different_numbers(store: Store) -> None:
    states = [checkpoint(store, float(value)) for value in range(1, 7)]
    with ThreadPoolExecutor(12) as pool:
        cards = list(pool.map(lambda state: publish(store, state), states * 2))
    assert sorted(versions(store, "m")) == sorted({card.version for card in cards})
    for version in versions(store, "m"):
        network, card = load_model(store, "m", version)
        assert card.run == f"run-{next(network.parameters()).flatten()[0].item():g}"


def test_an_interrupted_publication_is_completed_by_the_next(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed at any of its writes: the next attempt has the same number and files, and enrols it."""
    publish(store, checkpoint(store, 1.0))
    state = checkpoint(store, 2.0)
    folder, ends = tmp_path_factory.mktemp("killed"), list[list[str]]()
    for copy, _ in killed_at_each_write(store, folder, lambda copy: publish(copy, state), at_least=4):
        assert versions(copy, "m") in ([1], [1, 2])
        assert publish(copy, state).version == 2
        assert pointer(copy, "m", "challenger").version == 2
        load_model(copy, "m", 2)
        ends.append(copy.list(""))
    assert all(end == ends[-1] for end in ends)
