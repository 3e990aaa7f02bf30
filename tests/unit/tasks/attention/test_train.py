"""Training of attention models: batch sizes, divergence, refused specs, resuming, leases."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.models.attention import (
    attention_card,
    attention_failure,
    load_attention_model,
    load_training,
    publish_attention_model,
)
from mcvrp.storage.store import lease
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention import loop
from mcvrp.tasks.attention.spec import AttentionNetworkSpec, AttentionSpec
from mcvrp.tasks.attention.train import check_attention_models, train_attention
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write

CITY = City.uniform(30, seed=1)
TINY = AttentionSpec(
    model="tiny",
    sizes=(6,),
    capacity=(12, 25),
    network=AttentionNetworkSpec(dim=8, heads=2, layers=1, ff=8),
    epochs=3,
    epoch_instances=48,
    batch=8,
    paths=2,
    lr=1e-3,
    evaluation=20,
    checkpoint_seconds=0,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def changed(**changes: Any) -> AttentionSpec:
    return AttentionSpec.model_validate(TINY.model_dump() | changes)


def test_the_defaults_are_the_papers() -> None:
    """100 epochs of 1.28 M instances, batches of 512 up to 200 customers, then 128, 64 and 32."""
    spec = AttentionSpec()
    assert [spec.batch_of(n) for n in (20, 50, 100, 200, 400, 600, 800)] == [512] * 4 + [128, 64, 32]
    assert [spec.batches(n) for n in (20, 400, 800)] == [2500, 10_000, 40_000]
    assert spec.steps(20) == 250_000


def test_missing_fields_are_the_benchmarks_then_the_citys_then_the_papers() -> None:
    filled = AttentionSpec().filled("city", (20, 50), (2, 3), (9, 9))
    assert (filled.model, filled.sizes, filled.rules_in(None)) == ("city", (20, 50), Rules((2, 3), (9, 9)))
    own = TINY.filled("city", (20, 50), (2, 3), (9, 9))
    assert (own.model, own.sizes, own.capacity) == ("tiny", (6,), (12, 25))
    ranges = City(CITY.xy, demand=(2, 12), capacity=(40, 60))
    assert AttentionSpec().filled("city", (20,)).rules_in(ranges) == Rules((2, 12), (40, 60))
    assert AttentionSpec(demand=(1, 3)).rules_in(ranges) == Rules((1, 3), (40, 60))
    assert AttentionSpec().in_city(CITY).recipe(20) == AttentionSpec(demand=(1, 9)).recipe(20)


def test_invalid_specs_are_refused() -> None:
    """An epoch shorter than a batch, duplicate sizes, a dimension that the heads do not divide."""
    for bad in ({"epoch_instances": 7}, {"sizes": (6, 6)}, {"sizes": ()}, {"network": {"dim": 9}}):
        with pytest.raises(ValidationError):
            changed(**bad)


def test_a_finished_model_is_kept_and_loads(store: Store) -> None:
    """Its folder has cards and no checkpoint; a second call changes nothing. Random numbers are its own."""
    random_state = torch.random.get_rng_state()
    (card,) = train_attention(store, CITY, TINY).cards
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert (card.steps, len(card.epochs), card.diverged) == (18, 3, None)
    files = [path.rsplit("/", 1)[-1] for path in store.list(card.folder)]
    assert files == ["README.md", "model.json", "model.safetensors"]
    assert attention_card(store, "tiny", 6) == card
    assert attention_failure(card, 6) is None
    network, loaded = load_attention_model(store, "tiny", 6)
    assert loaded == card
    assert not network.training
    before = everything(store)
    assert train_attention(store, CITY, TINY).cards == (card,)
    assert everything(store) == before
    document = inspect(store, "attention/tiny/n=006/model.json").document
    assert document["weights_sha256"] == card.weights_sha256


def test_a_diverged_training_has_a_card_without_weights(store: Store) -> None:
    """The card has step and epoch of the divergence; the size is not trained again."""
    spec = changed(lr=1e30, clip=1e30, epochs=20)
    (card,) = train_attention(store, CITY, spec).cards
    assert card.diverged is not None
    assert re.match(r"step [\d,]+ \(epoch \d+\)", card.diverged)
    assert card.steps < spec.steps(6)
    assert (attention_failure(card, 6) or "").startswith("diverged in training at step")
    names = {path.rsplit("/", 1)[-1] for path in store.list(card.folder)}
    assert names == {"README.md", "model.json"}
    assert str(card.diverged) in store.get(f"{card.folder}/README.md").decode()
    with pytest.raises(McvrpError, match="n=6: diverged in training"):
        load_attention_model(store, "tiny", 6)
    assert train_attention(store, CITY, spec).cards == (card,)  # not trained again


def test_models_and_checkpoints_of_other_settings_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = City.uniform(30, seed=2)
    with monkeypatch.context() as patch:
        patch.setattr(loop.Training, "_end_epoch", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train_attention(store, CITY, changed(epoch_instances=8 * 30))
    assert store.list("attention") == ["attention/tiny/n=006/training.safetensors"]
    grown = City(np.vstack([CITY.xy, CITY.xy[1:3] / 2]), extends=(30,))
    assert grown.accepts(CITY.city_id)
    with pytest.raises(McvrpError, match=rf"began in city {CITY.city_id}, which .* extends: finish it there"):
        check_attention_models(store, grown, changed(epoch_instances=8 * 30))
    with pytest.raises(McvrpError, match="epoch_instances = 240, now it is 48"):
        check_attention_models(store, CITY, TINY)
    store.delete("attention")
    train_attention(store, CITY, TINY)
    with pytest.raises(McvrpError, match=r"with attention.lr = 0.001, now it is 0.1: use another name"):
        check_attention_models(store, CITY, changed(lr=0.1))
    save_city(store, "lyon", CITY)
    save_city(store, "paris", other)
    names = rf"is of city 'lyon' \({CITY.city_id}\), not of 'paris' \({other.city_id}\)"
    with pytest.raises(McvrpError, match=names):
        check_attention_models(store, other, TINY)
    for city in (CITY, grown):
        check_attention_models(store, city, changed(checkpoint_seconds=7))


def test_a_corrupt_checkpoint_is_named(store: Store) -> None:
    store.put(layout.attention_training("tiny", 6), b"\x08\0\0\0\0\0\0\0{}      ")
    with pytest.raises(McvrpError, match=r"training\.safetensors is corrupt"):
        train_attention(store, CITY, TINY)
    assert attention_failure(attention_card(store, "tiny", 6), 6) == (
        "there is no attention model for n=6: run mcvrp am with the same preset"
    )


def test_invalid_sizes_are_refused_before_training(store: Store) -> None:
    with pytest.raises(McvrpError, match="31 customers, the city has 30"):
        train_attention(store, CITY, changed(sizes=(6, 31)))
    with pytest.raises(McvrpError, match="no capacity rule for 6"):
        train_attention(store, CITY, changed(capacity=None))
    with pytest.raises(McvrpError, match=r"epoch_instances = 48 is less than a batch of n=6 \(512\)"):
        train_attention(store, CITY, TINY.model_copy(update={"batch": None}))
    for field in ("model", "sizes"):
        with pytest.raises(McvrpError, match=f"attention.{field} is missing"):
            train_attention(store, CITY, TINY.model_copy(update={field: None}))
    assert store.list("") == []


def test_one_process_trains_a_name_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training is refused while another process holds the lease; finished models are not affected."""
    monkeypatch.setattr(lease, "TTL_SECONDS", 3.0)  # an owner that lives is heard within a third
    train_attention(store, CITY, TINY)
    with holding(store, layout.attention_lease("tiny"), "attention models 'tiny' are being trained"):
        train_attention(store, CITY, TINY)
        with pytest.raises(McvrpError, match="'tiny' are being trained"):
            train_attention(store, CITY, changed(sizes=(9,)))


def test_an_interrupted_publication_is_completed_by_the_next_training(store: Store, tmp_path: Path) -> None:
    """Killed at any of its writes: the size is finished with its card, and has no checkpoint then."""
    (card,) = train_attention(store, CITY, TINY).cards
    again = replace(card, n=9)

    def publish(copy: Store) -> None:
        publish_attention_model(copy, again, {"weight": np.ones(3)})

    for copy, _ in killed_at_each_write(store, tmp_path / "killed", publish, at_least=3):
        if attention_card(copy, "tiny", 9) is None:  # the training is repeated
            publish(copy)
        files = [path.rsplit("/", 1)[-1] for path in copy.list(again.folder)]
        assert files == ["README.md", "model.json", "model.safetensors"]


@pytest.mark.parametrize("method", ["_save", "_publish"])
def test_a_training_that_lost_its_lease_writes_nothing_more(
    store: Store, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    finished = dict[str, bytes]()
    really = getattr(loop.Training, method)

    def taken_over(self: loop.Training, *arguments: Any) -> Any:
        if not finished:
            finished["now"] = b""
            with monkeypatch.context() as patch:
                patch.setattr(lease, "TTL_SECONDS", 0.0)  # it looks dead
                train_attention(store, CITY, TINY)
            finished.update(everything(store))
        return really(self, *arguments)

    monkeypatch.setattr(loop.Training, method, taken_over)
    with pytest.raises(McvrpError, match="belongs to"):
        train_attention(store, CITY, TINY)
    assert everything(store) | {"now": b""} == finished


def test_training_instances_never_repeat_and_new_baselines_have_new_tests(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training counts through its stream; after a replacement the evaluation instances are the next ones."""
    calls: list[tuple[str, int, int]] = []
    original = loop.instance_rows  # type: ignore[attr-defined]

    def noted(stream: InstanceStream, n: int, start: int, stop: int) -> Any:
        calls.append((stream.split, start, stop))
        return original(stream, n, start, stop)

    monkeypatch.setattr(loop, "instance_rows", noted)
    (card,) = train_attention(store, CITY, TINY).cards
    trained = [(start, stop) for split, start, stop in calls if split == "train"]
    assert trained[:18] == [(8 * k, 8 * k + 8) for k in range(18)]
    tested = [start for split, start, _ in calls if split == "valid"]
    firsts = np.cumsum([0, 0] + [20 * epoch.replaced for epoch in card.epochs[:-1]])
    assert tested == [0] + [first for first in firsts[1:] for _ in range(2)]


@pytest.mark.slow
def test_an_interrupted_training_is_the_undisturbed_one(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the end of each epoch, before its checkpoint: the same command ends with the same bits."""
    spec = changed(epoch_instances=8 * 30)  # checkpoints after every 25 steps, and after every epoch
    (whole,) = train_attention(Store.open(tmp_path / "whole"), CITY, spec).cards
    really, epochs = loop.Training._end_epoch, {1, 2, 3}

    def stopping(self: loop.Training) -> None:
        really(self)
        if self.state.step // 30 in epochs:
            epochs.remove(self.state.step // 30)
            raise KeyboardInterrupt

    monkeypatch.setattr(loop.Training, "_end_epoch", stopping)
    while epochs:
        with pytest.raises(KeyboardInterrupt):
            train_attention(store, CITY, spec)
        state, arrays = load_training(store, "tiny", 6) or (None, {})
        assert state is not None
        assert state.step % 30 > 0  # in the middle of an epoch
        assert {name.split(".")[0] for name in arrays} == {"model", "baseline", "adam", "mean", "total"}
    (card,) = train_attention(store, CITY, spec).cards
    assert replace(card, seconds=whole.seconds) == whole
    assert store.list(card.folder) == Store.open(tmp_path / "whole").list(card.folder)
