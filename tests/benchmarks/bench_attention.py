"""The attention model, trained on this machine for MINUTES, compared with the published figures at n = 20.

A run with the same folder resumes. The number of epochs follows from the time of a few steps. The city is
that of the preset `paper`, the instances are those of `mcvrp benchmark`.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time

import numpy as np

from mcvrp.model.problem import City
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.attention.train import train_attention
from mcvrp.tasks.solvers.attention import AttentionSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.support.progress import duration
from tests.benchmarks.common import PAPER_CITY as CITY, arguments, heading, instances_of, row

N, MINUTES = 20, 19.0
PUBLISHED = {1: 5.17, 100: 5.09, 1000: 5.08}  # Table 6 of the paper
SPEC = AttentionSpec(
    sizes=(N,), epoch_instances=6_400, batch=64, paths=8, lr=3e-4, evaluation=2_000, diverged_after=10
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", nargs="?", help="store of the model")
    parser.add_argument("instances", nargs="?", type=int, default=400)
    options = parser.parse_args()
    store = Store.open(options.folder or tempfile.mkdtemp())
    if not store.exists("spec.json"):
        store.put_json("spec.json", recipe(CITY).model_dump(mode="json"))
    spec = AttentionSpec.model_validate(store.get_json("spec.json"))
    print(spec.model_dump(exclude_defaults=True), flush=True)
    began, used = time.monotonic(), time.process_time()
    (card,) = train_attention(store, CITY, spec).cards
    seconds, used = time.monotonic() - began, time.process_time() - used
    print(f"{card.steps:,} steps in {duration(seconds)}, {used:,.0f} core-seconds, {card.hardware}")
    for epoch in card.epochs:
        print(dataclasses.asdict(epoch))
    evaluate(store, options.instances)


def evaluate(store: Store, count: int) -> None:
    model, _ = load_attention_model(store, "bench", N)
    instances = instances_of(CITY, N, count)
    solvers = (
        ("HGS", HGS(iterations=50), (1,)),
        ("greedy", AttentionSolver({N: model}, greedy=True), (1,)),
        ("sampling", AttentionSolver({N: model}), PUBLISHED),
    )
    titles = ("samples", "mean cost", "std. error", "published", "gap", "s per instance")
    heading(f"n = {N}, {count} held-out", *titles, texts=1)
    for name, solver, budgets in solvers:
        began = time.perf_counter()
        answers = list(solver.solve(CITY, instances, samples=max(budgets), seed=1))
        seconds = (time.perf_counter() - began) / count
        costs = np.stack([answer.costs for answer in answers])
        for samples in budgets:
            best = costs[:, :samples].min(1)
            mean, error = best.mean(), best.std(ddof=1) / count**0.5
            published = PUBLISHED[samples] if budgets is PUBLISHED else None
            gap = f"{100 * (mean / published - 1):.1f} %" if published else ""
            took = f"{seconds:.4f}" if samples == max(budgets) else ""
            row(name, samples, f"{mean:.3f}", f"{error:.3f}", published or "", gap, took)


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


if __name__ == "__main__":
    main()
