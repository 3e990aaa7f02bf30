"""A phase of training as one of its ranks sees it: resume, step, log, save.

Every rank computes which samples are its own, so ranks exchange gradients and sums only. Who
started them does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.features import Batch, CityTable, TravelCosts
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.paths import Group
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.storage.store.retry import StoreRetry
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    best_checkpoint,
    checkpoints,
    load_moments,
    load_weights,
    save_checkpoint,
)
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.train.batches import GlobalBatch, SampleStream
from mcvrp.tasks.train.distributed import JobClock, distributed
from mcvrp.tasks.train.engine import Engine, EngineOptions, Totals
from mcvrp.tasks.train.held_out import HeldOut, measured
from mcvrp.tasks.train.job import OF_ANY_RANK, RankJob, Report, refused
from mcvrp.tasks.train.log import TrainLog
from mcvrp.tasks.train.memory import is_out_of_memory
from mcvrp.tasks.train.policy import PolicyStream
from mcvrp.tasks.train.spec import PhaseSpec


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
            f"({reason(error)}): train a smaller network, spread AdamW's moments over more ranks with "
            "--set train.zero=1, or use a machine with more memory"
        )
    else:
        return None
    report(refused(refusal))
    return refusal


@contextmanager
def prepare(job: RankJob, report: Report) -> Iterator[LabelCache | None]:
    """Yield this machine's copy of the labels of ``job``, made first if it is not there.

    None where the phase has none.

    To be called before ranks have anything to wait for each other: reading a large dataset
    takes longer than they do.

    Raises
    ------
    McvrpError
        If labels are missing, or there is no room for the copy.
    """
    if not job.spec.needs_labels(job.phase):
        yield None
        return
    counts = {n: rows for n, rows in zip(job.spec.sizes(job.phase), job.counts, strict=True) if rows}

    def told(done: int, sizes: int) -> None:
        report({"event": "preparing", "done": done, "sizes": sizes})

    def opened() -> LabelCache:
        return LabelCache.open(
            Path(job.cache), job.store, job.spec.dataset, job.origin.fingerprint, counts, told
        )

    with _store_retry(job, report).call(opened) as cache:
        yield cache


def run_rank(job: RankJob, cache: LabelCache | None, rank: int, device: torch.device, report: Report) -> None:
    """Train the phase of ``job`` from where it stands to its end, or to the job's; rank 0 saves and reports.

    torch.distributed is up when this begins.

    Raises
    ------
    McvrpError
        If the loss is no finite number or diverges, memory runs out, or something in the store
        is not what it should be.
    """
    spec, phase, retry = job.spec, job.spec.phase(job.phase), _store_retry(job, report)
    table = CityTable.of(job.city, device)
    costs = TravelCosts.of(job.city, table) if phase.policy else None
    # Every rank reads the checkpoint itself: none waits for another.
    engine = _engine(job, table, costs, retry)
    held_out = retry.call(lambda: _held_out(job))
    log = retry.call(lambda: TrainLog(job, costs.unit if costs else 1.0))
    clock = JobClock(job.ends_at, device)

    def gaps() -> dict[str, float]:
        if held_out is None:
            return {}
        with log.clock_stopped():  # decoding is no training: the rate of tokens leaves it out
            found = {"greedy_gap": held_out.greedy_gap(engine.network, table, rank, job.ranks)}
            if phase.policy:
                k = spec.held_out_samples
                found["best_gap"] = held_out.best_gap(engine.network, table, k, rank, job.ranks)
        return found

    def save() -> None:
        with clock.saving():
            log.start_clock(_save(job, rank, engine, log, steps, retry, report))
        report({"event": "saved", "step": log.rows[-1].step})

    steps, schedule = spec.steps(job.phase, job.counts), phase.learning_rate()
    done = job.resumed.step if job.resumed else 0
    report({"event": "started", "step": done, "steps": steps})
    if phase.policy and not job.resumed:  # what it begins with is what it must not make worse
        log.first_row(**gaps())
        save()
    for step, (batch, work) in enumerate(_work(job, cache, rank, device, done + 1, steps), done + 1):
        # Seeded anew each step: a resumed run drops out what it would have dropped out.
        torch.manual_seed(_seed("dropout", str(spec.seed), job.phase, str(step), str(rank)))
        lr = schedule(step, steps)
        log.add(step, engine.step(work, _totals(phase, batch), lr), batch)
        last = step == steps
        measure = held_out is not None and (last or step % spec.held_out_every == 0)
        # The guard of a phase by policy goes back to a step that was measured.
        due = last or step % spec.checkpoint_every == 0 or (measure and phase.policy is not None)
        if not (due or measure or step % spec.log_every == 0):
            continue
        row = log.close_row(lr, engine.gradient_norm(), **(gaps() if measure else {}))
        report({"event": "step", **_plain(row)})
        over = clock.over()  # asked after every row, by all ranks alike
        if due or over:
            save()  # a row never spans a checkpoint
        if over:
            break


def _work(
    job: RankJob, cache: LabelCache | None, rank: int, device: torch.device, first: int, last: int
) -> Iterator[tuple[GlobalBatch | None, list[Batch | Sequence[Group]]]]:
    """Yield the labels of each step, if it has any, and the micro-batches that are ``rank``'s."""
    spec, phase = job.spec, job.spec.phase(job.phase)
    policy = _policy_stream(job, cache) if phase.policy else None
    if phase.policy and not phase.policy.labels:
        batches: Iterator[tuple[GlobalBatch | None, list[Batch]]] = repeat((None, []), last - first + 1)
    else:
        assert cache is not None
        batches = SampleStream(
            spec.curriculum(job.phase, job.counts, job.origin.fingerprint),
            cache,
            phase.rotation,
            shuffled=phase.shuffled,
            ranks=job.ranks,
            micro_batch=spec.micro_batch,
            micro_tokens=spec.micro_tokens,
        ).steps(first, last, rank, ahead=device.type == "cuda")
    for step, (batch, labels) in enumerate(batches, first):
        yield batch, [*labels, *(policy.micro_batches(step, rank) if policy else [])]


def _policy_stream(job: RankJob, cache: LabelCache | None) -> PolicyStream:
    spec, policy = job.spec, job.spec.phase(job.phase).policy
    assert policy is not None
    fingerprint = job.origin.fingerprint
    labelled = policy.source == "labels"
    return PolicyStream(
        spec=spec,
        phase=job.phase,
        city=job.city,
        rules=job.rules,
        data=fingerprint,
        curriculum=spec.policy_instances(job.phase, job.counts, fingerprint) if labelled else None,
        cache=cache if labelled else None,
        ranks=job.ranks,
    )


def _totals(phase: PhaseSpec, batch: GlobalBatch | None) -> Totals:
    """Return what the loss of a step is a mean over."""
    tokens = (batch.problem_tokens, batch.solution_tokens) if batch else (1, 1)
    if phase.policy is None:
        return Totals(*tokens)
    policy = phase.policy
    paths = policy.instances * policy.samples
    return Totals(*tokens, paths=paths, labels=policy.labels, risk=policy.risk)


def _engine(job: RankJob, table: CityTable, costs: TravelCosts | None, retry: StoreRetry) -> Engine:
    """Return the engine with the weights and moments that the job starts from."""
    spec = job.spec
    options = EngineOptions(
        train_decoder=spec.phase(job.phase).trains != "encoder",
        zero=spec.zero,
        bf16=spec.precision == "bf16",
        weight_decay=spec.weight_decay,
        clip=spec.clip,
        compile=spec.compile,
        optimizer=spec.optimizer,
    )
    engine = Engine(retry.call(lambda: _network(job)), table, options, costs)
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
    job: RankJob, rank: int, engine: Engine, log: TrainLog, steps: int, retry: StoreRetry, report: Report
) -> CheckpointState | None:
    """Save metrics and, once they are safe, the checkpoint that they lead to; None on ranks other than 0."""
    moments = engine.moments()  # every rank has a part of them
    if rank:
        return None

    def save_metrics() -> None:
        job.lease.confirm()  # at each try: after an outage another may have taken over
        log.save()

    run, row = job.spec.run, log.rows[-1]
    state = CheckpointState(run, job.phase, row.step, steps, engine.adam_step, job.origin, _plain(row))
    weights = engine.weights()
    # First the metrics: a resumed job drops rows beyond its checkpoint, but could not make up missing ones.
    retry.call(save_metrics)
    if state.complete and row.greedy_gap > log.rows[0].greedy_gap and job.spec.phase(job.phase).policy:
        best = retry.call(lambda: best_checkpoint(checkpoints(job.store, run, job.phase)))[0]
        weights = retry.call(lambda: load_weights(job.store, best))
        state = replace(state, metrics={**best.metrics, "step": row.step, "kept_step": best.step})
        message = (
            f"phase {job.phase} made the held-out gap worse, from {log.rows[0].greedy_gap:.2f} to "
            f"{row.greedy_gap:.2f} %: it ends with the weights of step {best.step:,} "
            f"({best.metrics['greedy_gap']:.2f} %)"
        )
        report({"event": "warning", "message": message})
    keep, confirm = job.spec.keep, job.lease.confirm
    return retry.call(lambda: save_checkpoint(job.store, state, weights, moments, keep, confirm))


def _plain(row: StepMetrics) -> dict[str, float | None]:
    """Return ``row`` for JSON, which knows no NaN."""
    return {name: None if math.isnan(value) else value for name, value in asdict(row).items()}


def _seed(*parts: str) -> int:
    return philox_key(*parts) % 2**63  # as large as PyTorch takes them
