"""A phase of training as one of its ranks sees it: resume, step, log, save.

Every rank computes which samples are its own, so ranks exchange gradients and sums only.
torch.distributed is up when this begins; who started it does not matter.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import torch

from model.features import CityTable
from model.network import FmMcvrp, NetworkConfig
from model.problem import philox_key
from storage.checkpoints import CheckpointState, load_moments, load_weights, save_checkpoint
from storage.metrics import StepMetrics, write_metrics
from tasks.train_engine import Engine, EngineOptions
from tasks.train_job import RankJob, Report
from tasks.train_log import TrainLog
from tasks.train_stream import SampleStream


def run_rank(job: RankJob, rank: int, device: torch.device, report: Report) -> None:
    """Train the phase of ``job`` from where it stands to its end; rank 0 saves and reports.

    Raises
    ------
    McvrpError
        If the loss is no finite number, or something in the store is not what it should be.
    """
    spec, phase = job.spec, job.spec.phase(job.phase)
    share = spec.batch // job.ranks
    micro = spec.micro_batch or share
    curriculum = spec.curriculum(job.phase, job.counts, job.origin.fingerprint)
    stream = SampleStream.load(job.store, spec.dataset, job.city, curriculum, phase.rotation)
    options = EngineOptions(
        micro_batch=micro,
        pieces=share // micro,
        train_decoder=phase.trains == "both",
        zero=spec.zero,
        bf16=spec.precision == "bf16",
        weight_decay=spec.weight_decay,
        clip=spec.clip,
    )
    engine = Engine(_network(job), CityTable.of(job.city, device), options)
    if job.resumed:
        engine.restore(load_moments(job.store, job.resumed), job.resumed.adam_step)
    done, steps = job.resumed.step if job.resumed else 0, curriculum.steps
    log = TrainLog(job, spec.batch // micro)
    schedule = phase.learning_rate()
    report({"event": "started", "step": done, "steps": steps})
    for step in range(done + 1, steps + 1):
        # Seeded anew each step: a resumed run drops out what it would have dropped out.
        torch.manual_seed(_seed("dropout", str(spec.seed), job.phase, str(step), str(rank)))
        batch = stream.global_batch(step)
        parts = (slice(at, at + micro) for at in range(rank * share, (rank + 1) * share, micro))
        micro_batches = (stream.tensors(batch, part) for part in parts)
        lr = schedule(step, steps)
        sums = engine.step(micro_batches, batch.problem_tokens, batch.solution_tokens, lr)
        log.add(step, sums, batch)
        save = step == steps or step % spec.checkpoint_every == 0
        if save or step % spec.log_every == 0:  # a row never spans a checkpoint
            row = log.close_row(lr, engine.gradient_norm())
            report({"event": "step", **_plain(row)})
        if save:
            log.start_clock(_save(job, rank, engine, log, steps))
            report({"event": "saved", "step": step})


def _network(job: RankJob) -> FmMcvrp:
    torch.manual_seed(_seed("weights", str(job.spec.seed)))
    network = FmMcvrp(NetworkConfig(**job.origin.network))
    if job.start:
        weights = load_weights(job.store, job.start)
        network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in weights.items()})
    return network


def _save(job: RankJob, rank: int, engine: Engine, log: TrainLog, steps: int) -> CheckpointState | None:
    moments = engine.moments()  # every rank has a part of them
    if rank:
        return None
    run, row = job.spec.run, log.rows[-1]
    write_metrics(job.store, run, job.phase, log.rows)
    state = CheckpointState(run, job.phase, row.step, steps, engine.adam_step, job.origin, _plain(row))
    return save_checkpoint(job.store, state, engine.weights(), moments)


def _plain(row: StepMetrics) -> dict[str, float | None]:
    """Return ``row`` for JSON, which knows no NaN."""
    return {name: None if math.isnan(value) else value for name, value in asdict(row).items()}


def _seed(*parts: str) -> int:
    return philox_key(*parts) % 2**63
