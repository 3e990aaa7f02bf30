"""Training of an attention model for one size, that goes on exactly where it was stopped.

What a step sees is a function of the seed and the step's number: instances, the draws of the
paths, the learning rate. What else there is (weights, moments, the baseline, two running means)
is in the checkpoint.
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
from mcvrp.model.errors import McvrpError
from mcvrp.model.features import CityTable, TravelCosts
from mcvrp.model.instances import InstanceRows, InstanceStream, instance_rows
from mcvrp.model.problem import City
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.model.reinforce import DECAY, better, diverged, greedy_costs, surrogate
from mcvrp.storage.layout import attention_training
from mcvrp.storage.models.attention import (
    Arrays,
    AttentionCard,
    Epoch,
    TrainingState,
    publish_attention_model,
    save_training,
)
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import Origin
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.progress import Progress

logger = logging.getLogger(__name__)

Checkpoint = tuple[TrainingState, Arrays]
_LOOK = 25  # steps between two looks at the costs, which wait for the device
_TOKENS = 1 << 18  # tokens of the evaluation instances that are routed together, on a GPU
_CPU_TOKENS = 1 << 13  # that stay near the core


def origin_of(city: City, spec: AttentionSpec, n: int) -> Origin:
    """Return what makes the model of ``n`` customers what it is."""
    return Origin(city.city_id, "", spec.network.model_dump(), spec.recipe(n), "")


class Training:
    """One size: the network, its baseline, and the counters.

    Parameters
    ----------
    spec
        With the ranges that hold in ``city``.
    found
        Where the training stands, None at its beginning.
    lease
        That this process holds: it is confirmed before anything is written.

    Raises
    ------
    McvrpError
        If ``found`` has other arrays than this program stores.
    """

    def __init__(
        self,
        store: Store,
        city: City,
        spec: AttentionSpec,
        n: int,
        found: Checkpoint | None,
        lease: Lease,
    ) -> None:
        self.store, self.spec, self.n, self.unit, self.lease = store, spec, n, city.unit, lease
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.table = CityTable.of(city, self.device)
        self.costs = TravelCosts.of(city, self.table)
        # Streams that share no number: the baseline is tested on instances that nothing was learnt from.
        rules = spec.rules_in(city)
        self.train, self.valid = (InstanceStream(city, spec.seed, s, rules) for s in ("train", "valid"))
        self.draws = philox_key("attention", str(spec.seed), city.city_id, str(n))
        with torch.random.fork_rng(devices=[]):  # the process goes on with the random numbers that it had
            torch.manual_seed(spec.seed)
            self.model = AttentionModel(AttentionConfig(**spec.network.model_dump())).to(self.device).train()
        self.baseline = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=spec.lr)
        self.mean = torch.full((), torch.nan, dtype=torch.float64, device=self.device)  # exponential
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)  # of the epoch's costs
        self.began = self.saved = time.monotonic()
        if found:
            self.state = found[0]
            self._restore(found[1])
        else:
            untrained = float(self._evaluated(self.model, 0).mean())
            self.state = TrainingState(origin_of(city, spec, n), 0, 0, untrained, (), 0.0)

    def run(self) -> AttentionCard:
        """Train to the end, or until it diverges; publish and return the card."""
        total, batches = self.spec.steps(self.n), self.spec.batches(self.n)
        label = f"attention model, n={self.n}"
        trouble = self._diverged()
        with Progress(label, total, "steps", done=self.state.step, note=self._note()) as progress:
            for orders, uniforms in self._batches():
                if trouble:
                    break
                norm = self._step(orders, uniforms)
                step = self.state.step + 1
                self.state = replace(self.state, step=step)
                # Reading a number waits for the device, so rarely; a step that saves has to be looked at.
                if step % _LOOK == 0 or step % batches == 0:
                    self.lease.check()
                    if not math.isfinite(float(norm)) or not math.isfinite(float(self.total)):
                        trouble = (
                            f"step {step:,} (epoch {-(-step // batches)}): a cost or gradient is not finite"
                        )
                        break
                    if step % batches == 0:
                        self._end_epoch()
                        trouble = self._diverged()
                    if step % batches == 0 or time.monotonic() - self.saved > self.spec.checkpoint_seconds:
                        self._save()
                progress.advance(note=self._note())
        return self._publish(trouble)

    def _step(self, orders: Orders, uniforms: Tensor) -> Tensor:
        """Update the network by one batch; return the norm of its gradient."""
        spec, epoch = self.spec, self.state.step // self.spec.batches(self.n)
        for group in self.optimizer.param_groups:
            group["lr"] = spec.lr * spec.lr_decay**epoch
        if epoch >= spec.warmup_epochs:  # before, a frozen copy would know no more than chance
            baseline = greedy_costs(self.baseline, self.costs, orders)
        else:
            baseline = self.mean.nan_to_num(0.0).float().reshape(1)
        loss, cost = surrogate(self.model, self.costs, orders, uniforms, baseline)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), spec.clip)
        self.optimizer.step()
        mean = cost.mean(dtype=torch.float64)
        self.total += mean  # on the device, as the running mean below
        self.mean = torch.where(self.mean.isnan(), mean, DECAY * self.mean + (1 - DECAY) * mean)
        return norm

    def _batches(self) -> Iterator[tuple[Orders, Tensor]]:
        """Yield instances and draws of each step that is left; the next are made while one is trained on."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self._drawn, self.state.step)
            for step in range(self.state.step + 1, self.spec.steps(self.n) + 1):
                rows, uniforms = future.result()
                future = pool.submit(self._drawn, step)
                yield Orders.of(self.table, rows), torch.from_numpy(uniforms).to(self.device)

    def _drawn(self, step: int) -> tuple[InstanceRows, NDArray[np.float64]]:
        batch, paths = self.spec.batch_of(self.n), self.spec.paths
        # All draws of a step, a function of its number: a resumed training draws what it would have drawn.
        uniforms = philox_uniforms(self.draws, (step, 0), batch * paths * 2 * self.n)
        rows = instance_rows(self.train, self.n, step * batch, (step + 1) * batch)
        return rows, uniforms.reshape(batch, paths, 2 * self.n)

    def _end_epoch(self) -> None:
        """Compare network and baseline on the evaluation instances; replace the baseline if it is beaten."""
        now, spec = self.state, self.spec
        ours = self._evaluated(self.model, now.first)
        theirs = self._evaluated(self.baseline, now.first)
        replaced = better(ours, theirs, spec.alpha)
        first = now.first
        if replaced:  # and new instances, lest it be good on these alone
            self.baseline.load_state_dict(self.model.state_dict())
            first += spec.evaluation
        batches, unit = spec.batches(self.n), self.costs.unit
        epoch = Epoch(
            epoch=now.step // batches,
            step=now.step,
            sampled=unit * float(self.total) / batches,
            greedy=float(ours.mean()),
            baseline=float(theirs.mean()),
            replaced=replaced,
        )
        self.total.zero_()
        self.state = replace(now, first=first, epochs=(*now.epochs, epoch))

    def _evaluated(self, model: AttentionModel, first: int) -> NDArray[np.float64]:
        """Return what ``model`` routes the evaluation instances from ``first`` for, in the city's unit."""
        tokens = _CPU_TOKENS if self.device.type == "cpu" else _TOKENS
        size, stop = max(1, tokens // (self.n + 1)), first + self.spec.evaluation
        found = []
        for start in range(first, stop, size):
            rows = instance_rows(self.valid, self.n, start, min(start + size, stop))
            found.append(greedy_costs(model, self.costs, Orders.of(self.table, rows)).double().cpu().numpy())
        return self.costs.unit * np.concatenate(found)

    def _diverged(self) -> str | None:
        """Return when and how the training came apart, None while it has not."""
        now, spec = self.state, self.spec
        means = [epoch.greedy for epoch in now.epochs]
        if not diverged(means, now.untrained, spec.diverged_factor, spec.diverged_after):
            return None
        return (
            f"step {now.step:,} (epoch {len(means)}): mean greedy cost {means[-1]:.4g}, "
            f"best {min(means):.4g}, untrained {now.untrained:.4g}"
        )

    def _note(self) -> str:
        if not self.state.epochs:
            return f"untrained {self.state.untrained:.3f}"
        last = self.state.epochs[-1]
        return f"epoch {last.epoch}, greedy {last.greedy:.3f}"

    def _networks(self) -> nn.ModuleDict:
        """Return both networks as one, whose parameters have names beginning with model and baseline."""
        return nn.ModuleDict({"model": self.model, "baseline": self.baseline})

    def _save(self) -> None:
        tensors = dict(self._networks().state_dict())
        for name, parameter in self.model.named_parameters():
            tensors |= {f"adam.{key}.{name}": value for key, value in self.optimizer.state[parameter].items()}
        tensors |= {"mean": self.mean, "total": self.total}
        state = replace(self.state, seconds=self._seconds())
        self.lease.confirm()
        save_training(self.store, str(self.spec.model), self.n, state, _arrays(tensors))
        self.saved = time.monotonic()

    def _restore(self, arrays: Arrays) -> None:
        tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
        networks = self._networks()
        try:
            networks.load_state_dict({name: tensors[name] for name in networks.state_dict()})
            for name, parameter in self.model.named_parameters():
                # Adam's own counter stays on the processor, as PyTorch has it.
                self.optimizer.state[parameter] = {
                    key: tensors[f"adam.{key}.{name}"].to("cpu" if key == "step" else self.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }
            self.mean, self.total = (tensors[name].to(self.device) for name in ("mean", "total"))
        except (KeyError, RuntimeError) as error:
            path = self.store.url(attention_training(str(self.spec.model), self.n))
            raise McvrpError(
                f"{path} is no checkpoint of this program ({type(error).__name__}): delete it, and "
                "mcvrp am begins this size again"
            ) from error

    def _seconds(self) -> float:
        return self.state.seconds + time.monotonic() - self.began

    def _publish(self, trouble: str | None) -> AttentionCard:
        from mcvrp.tasks.attention.curves import cost_curves
        from mcvrp.tasks.support.pictures import png

        now = self.state
        card = AttentionCard(
            name=str(self.spec.model),
            n=self.n,
            city_id=now.origin.city_id,
            network=now.origin.network,
            recipe=now.origin.recipe,
            steps=now.step,
            untrained=now.untrained,
            epochs=now.epochs,
            seconds=self._seconds(),
            hardware=_hardware(self.device),
            diverged=trouble,
        )
        if trouble:
            logger.warning("attention model, n=%d: diverged at %s", self.n, trouble)
        costs = png(cost_curves(card, self.unit)) if card.epochs else None
        self.lease.confirm()
        return publish_attention_model(self.store, card, _arrays(self.model.state_dict()), costs)


def _arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    return f"{torch.get_num_threads()} threads of {hardware()}"
