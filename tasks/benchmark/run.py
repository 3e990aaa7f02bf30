"""Run of a benchmark: every method on the same held-out instances, what is missing only.

Programs run on Ray, one instance a core; networks are decoded by processes of one thread each. Answers are
stored in parts that are named by what decides them, so a run that was killed goes on, and a changed
setting or another model redoes what it changes and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import stored_parts, write_results
from mcvrp.storage.labels.overlap import Keys, dataset_keys
from mcvrp.storage.models.models import ModelCard, load_model, model_card
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.networks import (
    attention,
    decode_missing,
    finish_missing,
    network,
    on_best_device,
    problem_accuracy,
    sampler,
)
from mcvrp.tasks.benchmark.on_ray import solve_heuristics
from mcvrp.tasks.benchmark.part import WorkerContext
from mcvrp.tasks.benchmark.prepare import attention_cards, make_block
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.ray_session import ray_session

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver


def run_benchmark(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None = None, version: int | None = None
) -> BenchmarkResults:
    """Solve what is missing, write the results and return them.

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
        city's or trained on a test instance, or a stored part is corrupt; nothing has been solved then.
    IncompleteError
        If workers were lost on the way; everything else is stored.
    """
    spec = spec.in_city(city)
    card = _check(store, city, spec, model_name, version)
    # all that can be refused has been, or is as parts are read, before anything is solved
    blocks = [make_block(store, city, spec, method, card) for method in spec.methods]
    stored = stored_parts(store, spec.run)
    for block in blocks:
        block.find(stored)
    model = on_best_device(load_model(store, card.name, card.version)[0]) if card else None
    _solve_on_ray(store, city, spec, blocks, sampler(spec, model, card) if model and card else None)
    # networks after the programs: either has all processors while its time counts
    here = WorkerContext(store, city, workers=1)
    with Pool(min(spec.workers or local_cores(), local_cores())) as pool:
        for block in blocks:
            if block.method == "am":
                if sizes := {part.n for part in block.missing()}:
                    decode_missing(here, block, attention(store, spec, sizes, pool))
            elif model and card and all_methods()[block.method].decoded:
                decode_missing(here, block, network(spec, block.method, model, card, pool))
        settings = [prefix for block in blocks for prefix in block.prefixes]
        table = write_results(store, spec.run, [row for block in blocks for row in block.rows()], settings)
        accuracy = problem_accuracy(model, city, spec, pool) if model else None
    return BenchmarkResults(spec, card, accuracy, table)


def _solve_on_ray(
    store: Store, city: City, spec: BenchmarkSpec, blocks: Sequence[Block], samples: FmMcvrpSolver | None
) -> None:
    """Solve what is missing of the methods that are a program, or end with one."""
    programs = [block for block in blocks if block.grows]
    finished = [block for block in blocks if all_methods()[block.method].warm_started]
    if not any(True for block in (*programs, *finished) for _ in block.missing()):
        return
    with ray_session(spec.workers, shared_bytes=0 if city.matrix is None else city.matrix.nbytes) as workers:
        context = WorkerContext(store, city, workers)
        solve_heuristics(context, programs)
        for block in finished:
            assert samples is not None  # a benchmark with such a method has a model: see _check
            finish_missing(context, block, samples, spec.equal_time)


def _check(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None, version: int | None
) -> ModelCard | None:
    for n in spec.sizes:
        if n > city.customers:
            raise McvrpError(f"benchmark size {n}: the city has {city.customers} customers, ask for no more")
        spec.rules_in(city).capacity_range(n)
    if "am" in spec.methods:
        for attention_card in attention_cards(store, spec).values():
            attention_card.require_city(city)
    if not spec.neural:
        return None
    if model_name is None:
        raise McvrpError(f"methods {', '.join(spec.neural)} need a model: name one, or leave them out")
    card = model_card(store, model_name, version)
    card.require_city(city)
    require_unseen(store, city, spec, card.dataset)
    return card


def require_unseen(store: Store, city: City, spec: BenchmarkSpec, dataset: str) -> None:
    """Compare the test instances of ``spec`` with those of ``dataset``, at the sizes that both have.

    Of the labels only customers, demands and capacities are read; where the dataset is no longer
    in the store there is nothing to compare with.

    Raises
    ------
    McvrpError
        Naming the first test instance that is in the dataset.
    """
    stream = InstanceStream(city, spec.seed, "test", spec.rules_in(city))
    for n, count in spec.counts.items():
        trained = dataset_keys(store, dataset, n)
        if not len(trained.index):
            continue
        tested = Keys.of((i, stream(n, i)) for i in range(count))
        ours, theirs = tested.shared(trained)
        if len(ours):
            first = int(ours.argmin())
            raise McvrpError(
                f"{len(ours):,} of {count:,} test instances of n={n} are in the training data, the first "
                f"is (n={n}, i={ours[first]}), instance (n={n}, i={theirs[first]}) of dataset {dataset!r}: "
                "train on another split, or give the benchmark another seed"
            )
