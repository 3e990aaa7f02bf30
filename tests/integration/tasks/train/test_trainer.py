"""Training with real DeepSpeed: most tests as the only rank of a group, two with ranks of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import CityTable
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.random import philox_key
from mcvrp.storage import layout
from mcvrp.storage.labels.cache import cached_labels
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    latest_checkpoint,
    load_moments,
    load_weights,
)
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.batches import SampleStream
from mcvrp.tasks.train.phases import Launcher, PhaseSummary
from mcvrp.tasks.train.spec import TrainSpec
from tests.integration.tasks.train.conftest import Here
from tests.support.training import CITY, StoppedHere, small_spec

NO_DROPOUT = small_spec().network.model_copy(update={"dropout": 0.0})
LOSSES = ("step", "samples", "problem_loss", "problem_accuracy", "solution_loss", "solution_accuracy", "lr")


def train_phase(store: Store, spec: TrainSpec, name: str, launch: Launcher | None = None) -> PhaseSummary:
    return stage.train_phase(store, CITY, spec, name, Path(f"{store.uri}-cache"), launch)


def train_all(store: Store, spec: TrainSpec, launch: Launcher) -> None:
    for phase in spec.phases:
        train_phase(store, spec, phase.name, launch)


def last(store: Store, run: str, phase: str) -> CheckpointState:
    checkpoint = latest_checkpoint(store, run, phase)
    assert checkpoint is not None
    return checkpoint


def stream_of(store: Store, spec: TrainSpec, phase: str) -> SampleStream:
    """Return the stream of ``phase`` of a single rank."""
    fingerprint = last(store, spec.run, phase).origin.fingerprint
    counts = dict.fromkeys(spec.sizes(phase), 30)
    cache = cached_labels(Path(f"{store.uri}-cache"), store, spec.dataset, fingerprint, counts)
    curriculum = spec.curriculum(phase, tuple(counts.values()), fingerprint)
    return SampleStream(curriculum, cache, spec.phase(phase).rotation)


def rows(store: Store, run: str, phase: str = "II", names: Sequence[str] = LOSSES) -> np.ndarray:
    return np.array([[getattr(row, name) for name in names] for row in read_metrics(store, run, phase)])


@pytest.mark.slow
def test_neither_stops_nor_validation_change_training(store: Store, here: Here) -> None:
    """Stopped between checkpoints and resumed, with a held-out set: the same rows, weights and moments."""
    train_all(store, small_spec(run="whole"), here())
    watched = small_spec(run="watched", held_out="apart", held_out_every=3)
    for phase, stop in (("I", 8), ("II", 6)):
        with pytest.raises(StoppedHere):
            train_phase(store, watched, phase, here(stop_at=stop))
        assert train_phase(store, watched, phase, here()).began_at == 5
        np.testing.assert_array_equal(rows(store, "watched", phase), rows(store, "whole", phase))
        whole, again = (last(store, run, phase) for run in ("whole", "watched"))
        assert whole.files == again.files
        assert whole.adam_step == again.adam_step == whole.steps
    steps, gaps = rows(store, "watched", "II", ("step", "greedy_gap")).T
    assert steps[~np.isnan(gaps)].tolist() == [3, 6, 7]
    assert np.isnan(rows(store, "watched", "I", ("greedy_gap",))).all()
    assert store.exists(layout.run_losses("watched"))


@pytest.mark.parametrize(("encoder", "zero", "micro"), [(True, 0, None), (False, 0, 150), (False, 2, 250)])
def test_a_phase_is_a_plain_loop_with_adamw(
    store: Store, here: Here, encoder: bool, zero: int, micro: int | None
) -> None:
    """Losses, gradient norms and weights, with the learning rate, weight decay and clipping of the spec."""
    phase = small_spec().phases[0].model_copy(update={"trains": "encoder" if encoder else "both"})
    spec = small_spec(
        network=NO_DROPOUT, phases=(phase,), weight_decay=0.1, clip=0.2, zero=zero, micro_tokens=micro
    )
    train_phase(store, spec, "I", here())
    final, stream, table = last(store, "small", "I"), stream_of(store, spec, "I"), CityTable.of(CITY)
    torch.manual_seed(philox_key("weights", "1") % 2**63)
    network = FmMcvrp(NetworkConfig(**final.origin.network))
    parameters = network.encoder_parameters() if encoder else list(network.parameters())
    adam = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
    expected_rows = []
    for step in range(1, stream.curriculum.steps + 1):
        batch = stream.tensors(stream.global_batch(step), np.arange(12))
        both = losses(network, table, batch, not encoder)
        means = [each.loss_sum / each.tokens for each in (both.problem, both.solution) if each]
        adam.zero_grad()
        torch.stack(means).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.2)
        adam.step()
        expected_rows.append([*(float(mean.detach()) for mean in means), float(norm)])
    for name, array in load_weights(store, final).items():
        expected = network.get_parameter(name).detach().numpy()
        if name.endswith("key_value.bias"):  # softmax is blind to a key's bias: its gradient is rounding
            array, expected = array[len(array) // 2 :], expected[len(array) // 2 :]
        np.testing.assert_allclose(array, expected, rtol=1e-3, atol=1e-4, err_msg=name)
    trained = {name for name, p in network.named_parameters() if any(p is each for each in parameters)}
    assert set(load_moments(store, final).exp_avg) == trained
    assert np.isnan(rows(store, "small", "I", ("solution_loss",))).all() == encoder
    names = ("problem_loss", *(() if encoder else ("solution_loss",)), "gradient_norm")
    np.testing.assert_allclose(rows(store, "small", "I", names), expected_rows, rtol=1e-3)


def test_bf16_changes_losses_only_slightly_and_weights_stay_fp32(store: Store, here: Here) -> None:
    for run, precision in (("full", "fp32"), ("half", "bf16")):
        train_phase(store, small_spec(run=run, precision=precision), "I", here())
    full, half = (rows(store, run, "I", ("problem_loss",)) for run in ("full", "half"))
    assert not np.array_equal(full, half)
    np.testing.assert_allclose(full, half, rtol=0.02)
    weights = load_weights(store, last(store, "half", "I"))
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}


def test_a_loss_that_is_not_finite_stops_the_phase(store: Store, here: Here) -> None:
    """The error has a remedy; no checkpoint has weights that are not finite."""
    phase = small_spec().phases[0].model_copy(update={"lr": 1e30, "passes": 8})
    with pytest.raises(McvrpError, match=r"not finite, at step \d+: .*with an lr below 1e"):
        train_phase(store, small_spec(phases=(phase,)), "I", here())
    state = latest_checkpoint(store, "small", "I")
    assert all(np.isfinite(a).all() for a in (load_weights(store, state) if state else {}).values())


def test_the_error_of_a_rank_reaches_the_user(store: Store, here: Here) -> None:
    """Weights that are corrupt when the ranks read them: one sentence, and the exit code of bad input."""
    spec = small_spec(ranks=1)
    train_phase(store, spec, "I", here())
    path = last(store, "small", "I").folder + "/weights.safetensors"
    store.put(path, store.get(path)[:-1] + b"\x7f")
    with pytest.raises(McvrpError, match=re.escape(f"{path} is corrupt")) as caught:
        train_phase(store, spec, "II")
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
