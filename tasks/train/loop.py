"""A phase of training as one of its ranks sees it: resume, step, log, save.

Every rank computes which samples are its own, so ranks exchange gradients and sums only. Who
started them does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.storage.training.checkpoints import CheckpointState, load_moments, load_weights, save_checkpoint
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.retry import StoreRetry
from mcvrp.tasks.train.batches import SampleStream
from mcvrp.tasks.train.distributed import JobClock, distributed
from mcvrp.tasks.train.engine import Engine, EngineOptions
from mcvrp.tasks.train.held_out import HeldOut, measured
from mcvrp.tasks.train.job import OF_ANY_RANK, RankJob, Report, refused
from mcvrp.tasks.train.log import TrainLog
from mcvrp.tasks.train.memory import is_out_of_memory


def take_part(job: RankJob, rank: int, cores: int, send: Report) -> McvrpError | None:
    """Train the phase of ``job`` as ``rank``, with the others; return the error if it was refused.

    Parameters
    ----------
    cores
        Of this machine, which its ranks share.
    send
        Takes the reports that are this rank's to make, a refusal among them.
    """

    def report(event: Mapping[str, Any]) -> None:
        if rank == 0 or event["event"] in OF_ANY_RANK:
            send(event)

    try:
        with prepare(job, report) as cache, distributed(cores) as device:
            run_rank(job, cache, rank, device, report)
    except McvrpError as error:
        refusal = error
    except Exception as error:
        if not is_out_of_memory(error):  # a bug, or a peer that is gone: the launcher reads the traceback
            raise
        refusal = McvrpError(
            "out of memory for weights, Adam's moments and what else is no micro-batch "
            f"({reason(error)}): train a smaller network, spread the moments over more ranks with "
            "--set train.zero=1, or use a machine with more memory"
        )
    else:
        return None
    report(refused(refusal))
    return refusal


def prepare(job: RankJob, report: Report) -> LabelCache:
    """Return this machine's copy of the labels of ``job``, made first if it is not there.

    To be called before ranks have anything to wait for each other: reading a large dataset
    takes longer than they do.

    Raises
    ------
    McvrpError
        If labels are missing, or there is no room for the copy.
    """
    counts = {n: rows for n, rows in zip(job.spec.sizes(job.phase), job.counts, strict=True) if rows}

    def told(done: int, sizes: int) -> None:
        report({"event": "preparing", "done": done, "sizes": sizes})

    def opened() -> LabelCache:
        return LabelCache.open(
            Path(job.cache), job.store, job.spec.dataset, job.origin.fingerprint, counts, told
        )

    return _store_retry(job, report).call(opened)


def run_rank(job: RankJob, cache: LabelCache, rank: int, device: torch.device, report: Report) -> None:
    """Train the phase of ``job`` from where it stands to its end, or to the job's; rank 0 saves and reports.

    torch.distributed is up when this begins.

    Raises
    ------
    McvrpError
        If the loss is no finite number or diverges, memory runs out, or something in the store
        is not what it should be.
    """
    spec, retry = job.spec, _store_retry(job, report)
    stream, table = _stream(job, cache), CityTable.of(job.city, device)
    engine = _engine(job, table, retry)  # every rank reads the checkpoint itself: none waits for another
    held_out = retry.call(lambda: _held_out(job))
    log, clock = retry.call(lambda: TrainLog(job)), JobClock(job.ends_at, device)
    done, steps = job.resumed.step if job.resumed else 0, stream.curriculum.steps
    schedule = spec.phase(job.phase).learning_rate()
    report({"event": "started", "step": done, "steps": steps})
    batches = stream.steps(done + 1, steps, rank, ahead=device.type == "cuda")
    for step, (batch, micro_batches) in enumerate(batches, done + 1):
        # Seeded anew each step: a resumed run drops out what it would have dropped out.
        torch.manual_seed(_seed("dropout", str(spec.seed), job.phase, str(step), str(rank)))
        lr = schedule(step, steps)
        sums = engine.step(micro_batches, batch.problem_tokens, batch.solution_tokens, lr)
        log.add(step, sums, batch)
        save = step == steps or step % spec.checkpoint_every == 0
        measure = held_out is not None and (step == steps or step % spec.held_out_every == 0)
        if not (save or measure or step % spec.log_every == 0):
            continue
        gap = math.nan
        if held_out is not None and measure:
            with log.clock_stopped():  # decoding is no training: the rate of tokens leaves it out
                gap = held_out.greedy_gap(engine.network, table, rank, job.ranks)
        row = log.close_row(lr, engine.gradient_norm(), gap)  # a row never spans a checkpoint
        report({"event": "step", **_plain(row)})
        over = clock.over()  # asked after every row, by all ranks alike
        if save or over:
            with clock.saving():
                log.start_clock(_save(job, rank, engine, log, steps, retry))
            report({"event": "saved", "step": step})
        if over:
            break


def _stream(job: RankJob, cache: LabelCache) -> SampleStream:
    spec = job.spec
    return SampleStream(
        spec.curriculum(job.phase, job.counts, job.origin.fingerprint),
        cache,
        spec.phase(job.phase).rotation,
        ranks=job.ranks,
        micro_batch=spec.micro_batch,
        micro_tokens=spec.micro_tokens,
    )


def _engine(job: RankJob, table: CityTable, retry: StoreRetry) -> Engine:
    """Return the engine with the weights and moments that the job starts from."""
    spec = job.spec
    options = EngineOptions(
        train_decoder=spec.phase(job.phase).trains == "both",
        zero=spec.zero,
        bf16=spec.precision == "bf16",
        weight_decay=spec.weight_decay,
        clip=spec.clip,
        compile=spec.compile,
    )
    engine = Engine(retry.call(lambda: _network(job)), table, options)
    if resumed := job.resumed:
        engine.restore(retry.call(lambda: load_moments(job.store, resumed)), resumed.adam_step)
    return engine


def _store_retry(job: RankJob, report: Report) -> StoreRetry:
    return StoreRetry(job.store, lambda text: report({"event": "waiting", "message": text}))


def _held_out(job: RankJob) -> HeldOut | None:
    spec = job.spec
    if spec.held_out is None or not measured(spec, job.phase):
        return None
    return HeldOut.load(job.store, job.city, spec.held_out, spec.sizes(job.phase))


def _network(job: RankJob) -> FmMcvrp:
    torch.manual_seed(_seed("weights", str(job.spec.seed)))  # the same on every rank
    network = FmMcvrp(NetworkConfig(**job.origin.network))
    if job.start:
        weights = load_weights(job.store, job.start)
        network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in weights.items()})
    return network


def _save(
    job: RankJob, rank: int, engine: Engine, log: TrainLog, steps: int, retry: StoreRetry
) -> CheckpointState | None:
    """Save metrics and, once they are safe, the checkpoint that they lead to; None on ranks other than 0."""
    moments = engine.moments()  # every rank has a part of them
    if rank:
        return None
    run, row = job.spec.run, log.rows[-1]
    state = CheckpointState(run, job.phase, row.step, steps, engine.adam_step, job.origin, _plain(row))
    weights = engine.weights()
    # First the metrics: a resumed job drops rows beyond its checkpoint, but could not make up missing ones.
    retry.call(log.save)
    return retry.call(lambda: save_checkpoint(job.store, state, weights, moments, job.spec.keep))


def _plain(row: StepMetrics) -> dict[str, float | None]:
    """Return ``row`` for JSON, which knows no NaN."""
    return {name: None if math.isnan(value) else value for name, value in asdict(row).items()}


def _seed(*parts: str) -> int:
    return philox_key(*parts) % 2**63  # as large as PyTorch takes them
