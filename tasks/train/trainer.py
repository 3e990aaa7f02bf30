"""Training of a phase as one of its ranks sees it: resume, step, log, measure, save.

Every rank computes which samples are its own, so that ranks exchange only gradients and sums.
How ranks are started is not known here: see `tasks.train.ranks`.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from itertools import repeat

import deepspeed
import deepspeed.ops
import numpy as np
import torch
import torch.distributed

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import Batch, CityTable, TravelCosts
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.random import philox_key
from mcvrp.model.strategies import Greedy, Nucleus
from mcvrp.storage.labels.cache import LabelCache, cached_labels
from mcvrp.storage.training.checkpoints import (
    Arrays,
    CheckpointState,
    Moments,
    best_checkpoint,
    checkpoints,
    load_moments,
    load_weights,
    save_checkpoint,
)
from mcvrp.tasks.train.batches import GlobalBatch, SampleStream
from mcvrp.tasks.train.engine import Engine, EngineOptions, MicroBatch, Totals
from mcvrp.tasks.train.held_out import HeldOut, measured
from mcvrp.tasks.train.job import (
    RankEvent,
    RankJob,
    Refused,
    Report,
    Started,
    Warned,
)
from mcvrp.tasks.train.log import TrainLog
from mcvrp.tasks.train.policy import PolicyStream

# Timeout of collectives. The other ranks wait while rank 0 saves, which may include
# outages of the store (`storage.store.s3.WORKING`), and while slower machines copy their labels.
COLLECTIVE_SECONDS = 1800


def run_rank(job: RankJob, rank: int, cores: int, send: Report) -> McvrpError | None:
    """Train the phase of ``job`` as ``rank``; return the error if it ended with one for the user.

    ``cores`` are shared by the ranks of this machine; ``send`` takes the events, a refusal among them.
    """

    def report(event: RankEvent) -> None:
        if rank == 0 or isinstance(event, Refused):
            send(event)

    try:
        # Labels first: reading a large dataset takes longer than ranks wait for each other.
        cache = prepare(job)
        with distributed(cores) as device:
            Trainer(job, cache, rank, device, report).run()
    except McvrpError as error:  # all others are read by the launcher, with their tracebacks
        report(Refused(str(error), error.exit_code))
        return error
    return None


def prepare(job: RankJob) -> LabelCache | None:
    """Return this machine's copy of the labels of ``job``, made on first use; None if the phase needs none.

    McvrpError if labels are missing, or the disk is too small for the copy.
    """
    if not job.spec.needs_labels(job.phase):
        return None
    counts = {n: rows for n, rows in zip(job.spec.sizes(job.phase), job.counts, strict=True) if rows}
    return cached_labels(job.cache, job.store, job.spec.dataset, job.origin.fingerprint, counts)


@contextmanager
def distributed(cores: int) -> Iterator[torch.device]:
    """Initialize torch.distributed and yield this rank's device; ranks of this machine share ``cores``.

    Expects RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
    environment, as `ranks.launch` and Ray Train set them.
    """
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(max(1, cores // int(os.environ["LOCAL_WORLD_SIZE"])))
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    # DeepSpeed would compile its shared-memory communication at the first start, which takes minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    initialized_here = not torch.distributed.is_initialized()
    backend, timeout = "nccl" if device.type == "cuda" else "gloo", timedelta(seconds=COLLECTIVE_SECONDS)
    deepspeed.init_distributed(backend, verbose=False, timeout=timeout)
    yield device
    # No `finally`: after an error the other ranks may never reach the barrier, which would block.
    torch.distributed.barrier()  # a rank that leaves early breaks the collectives of the others
    if initialized_here:
        torch.distributed.destroy_process_group()


class Trainer:
    """Training of one rank; `run` is the loop, and its steps follow in the order in which it takes them.

    torch.distributed has to be initialized. ``cache`` has the labels, see `prepare`.
    """

    def __init__(
        self, job: RankJob, cache: LabelCache | None, rank: int, device: torch.device, report: Report
    ) -> None:
        self.job, self.cache, self.rank, self.device, self.report = job, cache, rank, device, report
        self.spec, self.phase = job.spec, job.spec.phase(job.phase)
        self.steps, self.schedule = job.spec.steps(job.phase, job.counts), self.phase.learning_rate()
        self.table = CityTable.of(job.city, device, landmarks=job.origin.network.get("landmarks", 0))
        self.costs = TravelCosts.of(job.city, self.table) if self.phase.policy else None
        # Every rank reads the checkpoint itself, so that none waits for another.
        self.engine = self._load_engine()
        self.held_out = self._load_held_out()
        unit = self.costs.unit if self.costs else 1.0
        self.log = TrainLog(job, unit)

    def run(self) -> None:
        """Train from the last checkpoint to the end of the phase; rank 0 saves and reports.

        McvrpError if the loss is not finite, another process has taken over the run, or an artifact in the
        store is corrupt.
        """
        first = self.job.resumed.step + 1 if self.job.resumed else 1
        self.report(Started(first - 1, self.steps))
        if self.phase.policy and not self.job.resumed:
            # The weights that the phase starts from: `_keep_best` falls back to them.
            self.log.first_row(**self._held_out_gaps())
            self._save()
        for step, (batch, work) in enumerate(self._micro_batches(first), first):
            self._train_step(step, batch, work)
            measured, saved = self._measurement_due(step), self._checkpoint_due(step)
            if not (measured or saved or step % self.spec.log_every == 0):
                continue
            # A row is a collective: all ranks close it after the same steps.
            gaps = self._held_out_gaps() if measured else {}
            self.report(
                self.log.close_row(self.schedule(step, self.steps), self.engine.gradient_norm(), **gaps)
            )
            if saved:  # after a row, so that no row spans a checkpoint
                self._save()

    def _micro_batches(self, first: int) -> Iterator[tuple[GlobalBatch | None, list[MicroBatch]]]:
        """Yield the labels of each step from ``first``, if any, and this rank's micro-batches."""
        spec, job, policy = self.spec, self.job, self.phase.policy
        policy_stream = PolicyStream(job, self.cache) if policy else None
        batches: Iterator[tuple[GlobalBatch | None, list[Batch]]]
        if policy and not policy.labels:
            batches = repeat((None, []), self.steps - first + 1)
        else:
            assert self.cache is not None
            batches = SampleStream(
                spec.curriculum(job.phase, job.counts, job.origin.fingerprint),
                self.cache,
                self.phase.rotation,
                shuffled=self.phase.shuffled,
                ranks=job.ranks,
                micro_tokens=spec.micro_tokens,
            ).steps(first, self.steps, self.rank, ahead=self.device.type == "cuda")
        for step, (batch, labels) in enumerate(batches, first):
            groups = policy_stream.micro_batches(step, self.rank) if policy_stream else []
            yield batch, [*labels, *groups]

    def _train_step(self, step: int, batch: GlobalBatch | None, work: list[MicroBatch]) -> None:
        # Seeded for each step, so that a resumed run has the same dropout as an uninterrupted one.
        torch.manual_seed(_seed("dropout", str(self.spec.seed), self.job.phase, str(step), str(self.rank)))
        sums = self.engine.step(work, self._totals(batch), self.schedule(step, self.steps))
        self.log.add(step, sums, batch)  # the sums stay on the device until a row is due

    def _measurement_due(self, step: int) -> bool:
        return self.held_out is not None and (step == self.steps or step % self.spec.held_out_every == 0)

    def _checkpoint_due(self, step: int) -> bool:
        # A policy-gradient phase ends with its best measured weights, so each measured step is saved.
        measured_policy = self.phase.policy is not None and self._measurement_due(step)
        return step == self.steps or step % self.spec.checkpoint_every == 0 or measured_policy

    def _held_out_gaps(self) -> dict[str, float]:
        """Return the held-out gaps in % by their names in `StepMetrics`, {} without a held-out set."""
        if self.held_out is None:
            return {}
        network, samples = self.engine.network, self.spec.held_out_samples
        share = (self.rank, self.job.ranks)
        # decoding is not training: the rate of tokens excludes it
        with self.log.clock_stopped(), self.engine.options.precision(self.device.type):
            gaps = {"greedy_gap": self.held_out.gap(network, self.table, Greedy(), 1, *share)}
            if self.phase.policy:
                gaps["best_gap"] = self.held_out.gap(network, self.table, Nucleus(), samples, *share)
        return gaps

    def _save(self) -> None:
        """Save metrics and a checkpoint; every rank has to call this, rank 0 writes."""
        with self.log.clock_stopped():
            moments = self.engine.moments()  # a collective: with ZeRO every rank has a part of them
            if self.rank == 0:
                self._write(moments)

    def _write(self, moments: Moments) -> None:
        job, row = self.job, self.log.rows[-1]
        job.lease.confirm()
        # Metrics before the checkpoint: a resumed job drops rows beyond its checkpoint, but it could
        # not restore missing ones.
        self.log.save()
        # None instead of NaN, which JSON does not have
        metrics = {name: None if math.isnan(value) else value for name, value in asdict(row).items()}
        place = job.spec.run, job.phase, row.step, self.steps, self.engine.adam_step
        state = CheckpointState(*place, job.origin, metrics, provenance=job.provenance)
        weights = self.engine.weights()
        if state.complete and self.phase.policy and row.greedy_gap > self.log.rows[0].greedy_gap:
            state, weights = self._keep_best(state)
        save_checkpoint(job.store, state, weights, moments, job.spec.keep)

    def _keep_best(self, state: CheckpointState) -> tuple[CheckpointState, Arrays]:
        """Return ``state``, which ends a phase that increased the held-out gap, with its best weights."""
        job, rows = self.job, self.log.rows
        best = best_checkpoint(checkpoints(job.store, job.spec.run, job.phase))[0]
        weights = load_weights(job.store, best)
        warning = (
            f"phase {job.phase} increased the held-out gap from {rows[0].greedy_gap:.2f} to "
            f"{rows[-1].greedy_gap:.2f} %: it ends with the weights of step {best.step:,} "
            f"({best.metrics['greedy_gap']:.2f} %)"
        )
        self.report(Warned(warning))
        metrics = {**best.metrics, "step": state.step, "kept_step": best.step}
        return replace(state, metrics=metrics), weights

    def _load_engine(self) -> Engine:
        spec, resumed = self.spec, self.job.resumed
        options = EngineOptions(
            train_decoder=self.phase.trains != "encoder",
            zero=spec.zero,
            bf16=spec.precision == "bf16",
            weight_decay=spec.weight_decay,
            clip=spec.clip,
            compile=spec.compile,
            optimizer=spec.optimizer,
        )
        engine = Engine(self._load_network(), self.table, options, self.costs)
        if resumed:
            engine.restore(load_moments(self.job.store, resumed), resumed.adam_step)
        return engine

    def _load_network(self) -> FmMcvrp:
        torch.manual_seed(_seed("weights", str(self.spec.seed)))  # the same on every rank
        network = FmMcvrp(NetworkConfig(**self.job.origin.network))
        if weights := self.job.initial_weights():
            network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in weights.items()})
        return network

    def _load_held_out(self) -> HeldOut | None:
        job = self.job
        if self.spec.held_out is None or not measured(self.spec, job.phase):
            return None
        return HeldOut.load(job.store, job.city, self.spec.held_out, self.spec.sizes(job.phase))

    def _totals(self, batch: GlobalBatch | None) -> Totals:
        tokens = (batch.problem_tokens, batch.solution_tokens) if batch else (1, 1)
        policy = self.phase.policy
        if policy is None:
            return Totals(*tokens)
        paths = policy.instances * policy.samples
        return Totals(*tokens, paths=paths, label_weight=policy.labels, risk=policy.risk)


def _seed(*parts: str) -> int:
    return philox_key(*parts) % 2**63  # the range that torch.manual_seed accepts
