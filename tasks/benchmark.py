"""The stage that compares: every method on the same held-out instances, what is missing only.

Programs run on Ray, one instance a core; networks run in this process on all cores. Answers are
stored in parts that are named by what decides them, so a run that was killed goes on, and a changed
setting or another model redoes what it changes and no more.
"""

from __future__ import annotations

from model.errors import McvrpError
from model.problem import City
from storage.benchmarks import stored_parts, write_results
from storage.models import ModelCard, load_model, model_card
from storage.store import Store
from tasks.benchmark_heuristics import solve_heuristics
from tasks.benchmark_methods import PROGRAMS, make_block
from tasks.benchmark_networks import decode_missing, network, on_best_device, problem_accuracy
from tasks.benchmark_part import Workshop
from tasks.benchmark_spec import NEURAL, BenchmarkSpec
from tasks.benchmark_summary import BenchmarkSummary, summarise
from tasks.benchmark_unseen import require_unseen
from tasks.ray_cluster import ray_session


def run_benchmark(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None = None, version: int | None = None
) -> BenchmarkSummary:
    """Solve what is missing, then write results, tables and summary; return the summary.

    A method whose solver is not installed, or cannot take the city, keeps its rows, with the
    reason.

    Parameters
    ----------
    model_name, version
        The model, the latest version by default; None where no method needs one.

    Raises
    ------
    McvrpError
        If the city is too small, no capacity rule covers a size, the model is missing, another
        city's or trained on a test instance, or a stored part is damaged; nothing has been solved then.
    IncompleteError
        If workers were lost on the way; everything else is stored.
    """
    card = _check(store, city, spec, model_name, version)
    blocks = [make_block(store, city, spec, method, card) for method in spec.methods]
    stored = stored_parts(store, spec.run)
    for block in blocks:
        block.find(stored)
    model = on_best_device(load_model(store, card.name, card.version)[0]) if card else None
    programs = [block for block in blocks if block.method in PROGRAMS]
    if any(True for block in programs for _ in block.missing()):
        shared_bytes = 0 if city.matrix is None else city.matrix.nbytes
        with ray_session(spec.workers, shared_bytes=shared_bytes) as workers:
            solve_heuristics(Workshop(store, city, workers), programs)
    if model and card:
        for block in blocks:
            if block.method in NEURAL:
                solver = network(spec, block.method, model, card)
                decode_missing(Workshop(store, city, workers=1), block, solver)
    write_results(store, spec.run, [row for block in blocks for row in block.rows()])
    accuracy = problem_accuracy(model, city, spec) if model else None
    return summarise(
        store, spec.run, city, spec.rules, card=card, accuracy=accuracy, p=spec.p, samples=spec.samples[-1]
    )


def _check(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None, version: int | None
) -> ModelCard | None:
    for n in spec.sizes:
        if n > city.customers:
            raise McvrpError(f"benchmark size {n}: the city has {city.customers} customers, ask for no more")
        spec.rules.capacity_range(n)
    if not spec.neural:
        return None
    if model_name is None:
        raise McvrpError(f"methods {', '.join(spec.neural)} need a model: name one, or leave them out")
    card = model_card(store, model_name, version)
    card.require_city(city)
    require_unseen(store, city, spec, card.dataset)
    return card
