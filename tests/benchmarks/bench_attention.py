"""The attention model, trained on this machine for MINUTES, compared with the published figures at n = 20.

Run as `python -m tests.benchmarks.bench_attention`, optionally with a folder for the model and the number of
held-out instances: a run with the same folder resumes. Nothing gates on it. The number of epochs follows from
the time of a few steps. The city is that of the preset `paper`, the instances are those of `mcvrp benchmark`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
import time

import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.attention.train import train_attention
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.support.machine import busy_seconds
from mcvrp.tasks.support.progress import duration

N, MINUTES = 20, 19.0
PUBLISHED = {1: 5.17, 100: 5.09, 1000: 5.08}  # Table 6 of the paper
SPEC = AttentionSpec(
    sizes=(N,),
    epoch_instances=6_400,
    batch=64,
    paths=8,
    lr=3e-4,
    evaluation=2_000,
    diverged_after=10,
)


def main() -> None:
    """Train, evaluate, print."""
    city = City.uniform(10_000, seed=1)
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    store = Store.open(folder)
    if not store.exists("spec.json"):
        store.put_json("spec.json", recipe(city).model_dump(mode="json"))
    spec = AttentionSpec.model_validate(store.get_json("spec.json"))
    print(spec.model_dump(exclude_defaults=True), flush=True)
    began, busy, ours = time.monotonic(), busy_seconds(), time.process_time()
    (card,) = train_attention(store, city, spec).cards
    seconds, used = time.monotonic() - began, time.process_time() - ours
    everyone = (busy_seconds() or 0.0) - (busy or 0.0)
    print(
        f"{card.steps:,} steps of {spec.batch} instances with {spec.paths} paths each in "
        f"{duration(seconds)}, {card.hardware}: {used:,.0f} core-seconds of the {everyone:,.0f} that the "
        "machine worked"
    )
    for epoch in card.epochs:
        print(dataclasses.asdict(epoch))
    model, _ = load_attention_model(store, "bench", N)
    stream = InstanceStream(city, 1, "test")
    instances = [stream(N, i) for i in range(count)]
    print(f"\n| n = {N}, {count} held-out | mean cost | std. error | published | gap | s an instance |")
    print("|---|--:|--:|--:|--:|--:|")
    row("HGS", *solved(HGS(iterations=50), city, instances, 1)[1])
    row("greedy", *solved(AttentionSolver({N: model}, greedy=True), city, instances, 1)[1])
    costs, (*_, seconds) = solved(AttentionSolver({N: model}), city, instances, max(PUBLISHED))
    for samples, published in PUBLISHED.items():
        best = costs[:, :samples].min(1)
        row(f"s = {samples}", best.mean(), best.std(ddof=1) / count**0.5, published=published)
    print(f"\n{max(PUBLISHED):,} samples of an instance took {seconds:.3f} s")


def recipe(city: City) -> AttentionSpec:
    """Return the spec with as many epochs as fit into MINUTES, by a few steps timed now."""
    few = {"model": "trial", "epochs": 1, "epoch_instances": 64 * 50, "warmup_epochs": 0, "evaluation": 2}
    trial = SPEC.model_copy(update=few)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(folder)
        train_attention(store, city, trial)  # what only the first call pays
        second = train_attention(store, city, trial.model_copy(update={"model": "again"}))
    rate = second.cards[0].steps / second.seconds
    epochs = max(2, int(60 * MINUTES * rate / SPEC.batches(N)))
    print(f"{rate:.2f} steps/s with {os.cpu_count()} processors: {epochs} epochs")
    # The learning rate falls to a tenth over the run.
    return SPEC.model_copy(update={"model": "bench", "epochs": epochs, "lr_decay": 0.1 ** (1 / epochs)})


def solved(
    solver: Solver, city: City, instances: list[Instance], samples: int
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """Return all costs ``(instances, samples)``; mean, standard error and seconds of the best."""
    answers = list(solver.solve(city, instances, samples=samples, seed=1))
    costs = np.stack([answer.costs for answer in answers])
    best = costs.min(1)
    return costs, (best.mean(), best.std(ddof=1) / len(best) ** 0.5, answers[0].seconds)


def row(
    name: str, mean: float, error: float, seconds: float = np.nan, published: float | None = None
) -> None:
    """Print a row of the table."""
    gap = "" if published is None else f"{100 * (mean / published - 1):.1f} %"
    told = "" if np.isnan(seconds) else f"{seconds:.4f}"
    print(f"| {name} | {mean:.3f} | {error:.3f} | {published or ''} | {gap} | {told} |")


if __name__ == "__main__":
    main()
