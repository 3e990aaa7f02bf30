"""Training of an attention model for one size, which resumes exactly where it was stopped.

Instances, random numbers of the samples and the learning rate are functions of the seed and the step.
All other state (weights, moments, baseline, two running means) is in the checkpoint.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mcvrp.model.attention_model import AttentionConfig, AttentionModel, Orders
from mcvrp.model.features import CityTable, TravelCosts
from mcvrp.model.instances import InstanceRows, InstanceStream, instance_rows
from mcvrp.model.problem import City
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.model.reinforce import DECAY, better, greedy_costs, surrogate
from mcvrp.storage.cities import city_parent
from mcvrp.storage.models.attention import (
    Arrays,
    AttentionCard,
    Epoch,
    TrainingState,
    publish_attention_model,
    save_training,
)
from mcvrp.storage.provenance import made
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import Origin
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.progress import Progress

logger = logging.getLogger(__name__)

Checkpoint = tuple[TrainingState, Arrays]
_CHECK_STEPS = 25  # between checks of costs and lease: reading a cost waits for the device
_TOKENS = 1 << 18  # per batch of evaluation instances on a GPU
_CPU_TOKENS = 1 << 13  # on a CPU, whose caches are small


def origin_of(city: City, spec: AttentionSpec, n: int) -> Origin:
    """Return the origin of the model for ``n`` customers: all that decides it."""
    return Origin(city.city_id, "", spec.network.model_dump(), spec.recipe(n), "")


class Training:
    """Training of one size: the network, its baseline, and the counters.

    ``spec`` has the ranges of ``city``. The lease is confirmed before every write.
    """

    def __init__(
        self, store: Store, city: City, spec: AttentionSpec, n: int, stored: Checkpoint | None, lease: Lease
    ) -> None:
        self.store, self.spec, self.n, self.lease = store, spec, n, lease
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.table = CityTable.of(city, self.device)
        self.costs = TravelCosts.of(city, self.table)
        # Disjoint streams: the baseline is tested on instances that are never trained on.
        rules = spec.rules_in(city)
        self.train, self.valid = (InstanceStream(city, spec.seed, s, rules) for s in ("train", "valid"))
        self.draws = philox_key("attention", str(spec.seed), city.city_id, str(n))
        with torch.random.fork_rng(devices=[]):  # leaves the random state of the process as it is
            torch.manual_seed(spec.seed)
            self.model = AttentionModel(AttentionConfig(**spec.network.model_dump())).to(self.device).train()
        self.baseline = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.networks = nn.ModuleDict({"model": self.model, "baseline": self.baseline})
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=spec.lr)
        # Of the costs, on the device: their exponential moving average, and their sum in this epoch.
        self.mean = torch.full((), torch.nan, dtype=torch.float64, device=self.device)
        self.total = torch.zeros_like(self.mean)
        self.began = self.saved = time.monotonic()
        if stored:
            self.state = stored[0]
            self._restore(stored[1])
        else:
            untrained = float(self._evaluated(self.model, 0).mean())
            self.state = TrainingState(origin_of(city, spec, n), 0, 0, untrained, (), 0.0)

    def run(self) -> AttentionCard:
        """Train to the end, or until a cost is not finite; publish and return the card."""
        total, batches = self.spec.steps(self.n), self.spec.batches(self.n)
        label = f"attention model, n={self.n}"
        divergence: str | None = None
        step = self.state.step
        with Progress(label, total, "steps", done=step, note=self._note()) as progress:
            for orders, uniforms in self._batches():
                norm = self._step(orders, uniforms)
                step = self.state.step + 1
                self.state, epoch_ended = replace(self.state, step=step), step % batches == 0
                # Rarely, as reading a number waits for the device; always before a checkpoint.
                if step % _CHECK_STEPS == 0 or epoch_ended:
                    self.lease.check()
                    if not math.isfinite(float(norm)) or not math.isfinite(float(self.total)):
                        epoch = -(-step // batches)
                        divergence = f"step {step:,} (epoch {epoch}): a cost or gradient is not finite"
                        break
                    if epoch_ended:
                        self._end_epoch()
                    if epoch_ended or time.monotonic() - self.saved > self.spec.checkpoint_seconds:
                        self._save()
                progress.advance(note=self._note())
        return self._publish(divergence)

    def _step(self, orders: Orders, uniforms: Tensor) -> Tensor:
        spec, epoch = self.spec, self.state.step // self.spec.batches(self.n)
        for group in self.optimizer.param_groups:
            group["lr"] = spec.lr * spec.lr_decay**epoch
        if epoch >= spec.warmup_epochs:  # before, a frozen copy is no better than random
            baseline = greedy_costs(self.baseline, self.costs, orders)
        else:
            baseline = self.mean.nan_to_num(0.0).float().reshape(1)
        loss, cost = surrogate(self.model, self.costs, orders, uniforms, baseline)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), spec.clip)
        self.optimizer.step()
        mean = cost.mean(dtype=torch.float64)
        self.total += mean
        self.mean = torch.where(self.mean.isnan(), mean, DECAY * self.mean + (1 - DECAY) * mean)
        return norm

    def _batches(self) -> Iterator[tuple[Orders, Tensor]]:
        """Yield instances and random numbers of the remaining steps; the next batch is prefetched."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self._drawn, self.state.step)
            for step in range(self.state.step + 1, self.spec.steps(self.n) + 1):
                rows, uniforms = future.result()
                future = pool.submit(self._drawn, step)
                yield Orders.of(self.table, rows), torch.from_numpy(uniforms).to(self.device)

    def _drawn(self, step: int) -> tuple[InstanceRows, NDArray[np.float64]]:
        batch, paths = self.spec.batch_of(self.n), self.spec.paths
        # Functions of the step, so that a resumed training has the same samples as an uninterrupted one.
        uniforms = philox_uniforms(self.draws, (step, 0), batch * paths * 2 * self.n)
        rows = instance_rows(self.train, self.n, step * batch, (step + 1) * batch)
        return rows, uniforms.reshape(batch, paths, 2 * self.n)

    def _end_epoch(self) -> None:
        """Compare network and baseline on the evaluation instances; a better network becomes the baseline."""
        state, spec = self.state, self.spec
        costs, baseline = (self._evaluated(model, state.first) for model in (self.model, self.baseline))
        replaced, batches = better(costs, baseline, spec.alpha), spec.batches(self.n)
        if replaced:
            self.baseline.load_state_dict(self.model.state_dict())
        epoch = Epoch(
            epoch=state.step // batches,
            step=state.step,
            sampled=self.costs.unit * float(self.total) / batches,
            greedy=float(costs.mean()),
            baseline=float(baseline.mean()),
            replaced=replaced,
        )
        self.total.zero_()
        # A new baseline is tested on new instances, as the old ones have selected it.
        first = state.first + spec.evaluation * replaced
        self.state = replace(state, first=first, epochs=(*state.epochs, epoch))

    def _evaluated(self, model: AttentionModel, first: int) -> NDArray[np.float64]:
        """Return greedy costs of ``model`` on the evaluation instances from ``first``, in the city's unit."""
        tokens = _CPU_TOKENS if self.device.type == "cpu" else _TOKENS
        size, stop = max(1, tokens // (self.n + 1)), first + self.spec.evaluation
        costs = []
        for start in range(first, stop, size):
            rows = instance_rows(self.valid, self.n, start, min(start + size, stop))
            costs.append(greedy_costs(model, self.costs, Orders.of(self.table, rows)).double().cpu().numpy())
        return self.costs.unit * np.concatenate(costs)

    def _note(self) -> str:
        epochs, untrained = self.state.epochs, f"untrained {self.state.untrained:.3f}"
        return f"epoch {epochs[-1].epoch}, greedy {epochs[-1].greedy:.3f}" if epochs else untrained

    def _save(self) -> None:
        tensors = dict(self.networks.state_dict())
        for name, parameter in self.model.named_parameters():
            tensors |= {f"adam.{key}.{name}": value for key, value in self.optimizer.state[parameter].items()}
        tensors |= {"mean": self.mean, "total": self.total}
        self.lease.confirm()
        state = replace(self.state, seconds=self._seconds())
        save_training(self.store, str(self.spec.model), self.n, state, _arrays(tensors))
        self.saved = time.monotonic()

    def _restore(self, arrays: Arrays) -> None:
        tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
        self.networks.load_state_dict({name: tensors[name] for name in self.networks.state_dict()})
        for name, parameter in self.model.named_parameters():
            # PyTorch keeps Adam's step on the CPU.
            self.optimizer.state[parameter] = {
                key: tensors[f"adam.{key}.{name}"].to("cpu" if key == "step" else self.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.mean, self.total = (tensors[name].to(self.device) for name in ("mean", "total"))

    def _seconds(self) -> float:
        return self.state.seconds + time.monotonic() - self.began

    def _publish(self, divergence: str | None) -> AttentionCard:
        state, origin = self.state, self.state.origin
        machine = f"{torch.get_num_threads()} threads of {hardware()}"
        if self.device.type == "cuda":
            machine = f"one {torch.cuda.get_device_name(self.device)}"
        card = AttentionCard(
            name=str(self.spec.model),
            n=self.n,
            city_id=origin.city_id,
            network=origin.network,
            recipe=origin.recipe,
            steps=state.step,
            untrained=state.untrained,
            epochs=state.epochs,
            seconds=self._seconds(),
            hardware=machine,
            diverged=divergence,
            provenance=made([city_parent(self.store, origin.city_id)]),
        )
        if divergence:
            logger.warning("attention model, n=%d: diverged at %s", self.n, divergence)
        self.lease.confirm()
        return publish_attention_model(self.store, card, _arrays(self.model.state_dict()))


def _arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
