"""Run of a benchmark: every method solves the same held-out instances, only what is missing.

Programs run on Ray, one instance per core; networks are decoded by local single-threaded processes. Answers
are stored in parts named by everything that determines them. A killed run therefore resumes, and a changed
setting or another model recomputes only what depends on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import stored_parts, write_results
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.models.models import ModelCard, chosen_model, load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.part import WorkerContext
from mcvrp.tasks.benchmark.prepare import Models, attention_cards, make_block, require_sizes, rotations
from mcvrp.tasks.benchmark.solving import decode_missing, solve_heuristics
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.strategies import STRATEGIES
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.text import listed

if TYPE_CHECKING:
    import pandas as pd

    from mcvrp.tasks.solvers.attention import AttentionSolver
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BenchmarkResults:
    """Answers of all methods to the same held-out instances."""

    spec: BenchmarkSpec  # with the city's ranges of demand and capacity
    card: ModelCard | None  # None if no method needs a model
    table: pa.Table  # one row per instance, method and number of samples: storage.benchmarks.RESULTS

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Results without routes and costs of samples, the input of tables and figures."""
        return results_frame(self.table)


def results_frame(table: pa.Table) -> pd.DataFrame:
    """Return results without routes and costs of samples, with signed integers that can be subtracted."""
    frame: pd.DataFrame = table.drop_columns(["routes", "costs"]).to_pandas()
    return frame.astype({"n": "int64", "index": "int64", "samples": "int64", "workers": "int64"})


def run_benchmark(
    store: Store, city: City, spec: BenchmarkSpec, model_name: str | None = None
) -> BenchmarkResults:
    """Solve what is missing, write the results and return them.

    A method whose solver is not installed, or does not support the city, has rows with the reason only.
    The model is None if no method needs one. McvrpError, before anything is solved, if the city is too small,
    no capacity rule covers a size, the model is missing or belongs to another city, or a stored part is
    corrupt; IncompleteError if workers were lost, all other answers are then stored.
    """
    spec = spec.in_city(city)
    models = _checked_models(store, city, spec, model_name)
    blocks = [
        make_block(store, city, alone, method, models)
        for method in spec.methods
        for alone in all_methods()[method].specs(spec)
    ]
    stored = stored_parts(store, spec.run)
    for block in blocks:
        block.find(stored)
    sampler = _sampler(store, spec, models.card) if models.card else None
    lost = _solve_on_ray(store, city, spec, [block for block in blocks if block.method.from_scratch])
    # after the programs, because both need all cores while their time is measured
    with Pool(min(spec.workers or local_cores(), local_cores())) as pool:
        sampler = replace(sampler, pool=pool) if sampler else None
        _decode(WorkerContext(store, city, workers=1), spec, blocks, sampler, pool)
        table = write_results(store, spec.run, [row for block in blocks for row in block.rows()])
    if lost:
        raise IncompleteError(
            f"a benchmark worker was lost repeatedly on {listed(lost, 1)}: run the command again to solve "
            "what is missing"
        )
    return BenchmarkResults(spec, models.card, table)


def _sampler(store: Store, spec: BenchmarkSpec, card: ModelCard) -> FmMcvrpSolver:
    from mcvrp.tasks.solvers.devices import placed
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

    model, _ = load_model(store, card.name, card.version)
    strategy = STRATEGIES["ns"].make(spec.decoding)
    name = f"{card.name} version {card.version}"
    return FmMcvrpSolver(placed(model), strategy, rotations(spec, card), name)


def _solve_on_ray(store: Store, city: City, spec: BenchmarkSpec, blocks: Sequence[Block]) -> list[str]:
    """Solve what is missing of the methods that need no network; return the parts whose workers were lost."""
    if not any(True for block in blocks for _ in block.missing()):
        return []
    with ray_session(spec.workers) as workers:
        return solve_heuristics(WorkerContext(store, city, workers), blocks)


def _decode(
    context: WorkerContext,
    spec: BenchmarkSpec,
    blocks: Sequence[Block],
    sampler: FmMcvrpSolver | None,
    pool: Pool,
) -> None:
    """Solve what is missing of the methods that only decode a network."""
    for block in blocks:
        method = block.method
        if method.network == "am":
            if sizes := {part.n for part in block.missing()}:
                decode_missing(context, block, _attention(context.store, spec, sizes, pool))
        elif sampler and method.network == "fm":
            decoder = method.decoder(block.spec, sampler) if method.decoder else sampler
            decode_missing(context, block, decoder)


def _attention(store: Store, spec: BenchmarkSpec, sizes: Iterable[int], pool: Pool) -> AttentionSolver:
    import torch

    from mcvrp.tasks.solvers.attention import AttentionSolver

    name = spec.attention or ""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = {n: load_attention_model(store, name, n)[0].to(device) for n in sizes}
    return AttentionSolver(models, name, pool=pool)


def _checked_models(store: Store, city: City, spec: BenchmarkSpec, model_name: str | None) -> Models:
    require_sizes(city, spec)
    attention_models = attention_cards(store, city, spec)
    if not spec.neural:
        return Models(attention=attention_models)
    if model_name is None:
        raise McvrpError(
            f"methods {', '.join(spec.neural)} need a model: name one, or remove them from benchmark.methods"
        )
    card = chosen_model(store, model_name, spec.version)
    if not spec.version:
        logger.info("model %s: version %d, the champion or else the latest", card.name, card.version)
    card.require_city(city)
    return Models(card, attention_models)
