"""Preparation of a benchmark: the block of each method, with its program and what decides its answers."""

from __future__ import annotations

from collections.abc import Callable

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.models.attention import AttentionCard, attention_card, attention_failure
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block, Identity
from mcvrp.tasks.benchmark.methods import Method, all_methods
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver

_PART_SECONDS = 60.0  # what a kill may cost where the time of a run is known
_PART_RUNS = 20  # runs of a program in a part where it is not
_PART_STARTS = 1024  # quick runs of no program
_PART_PATHS, _PART_INSTANCES = 4096, 256  # decoded in a part


def make_block(store: Store, city: City, spec: BenchmarkSpec, name: str, card: ModelCard | None) -> Block:
    """Return the block of the method ``name``, for which nothing has been looked up yet.

    A program that is not installed, or a size without an attention model, is the reason why it has no
    answers there.
    """
    method = all_methods()[name]
    program, failures, weights = None, dict[int, str](), dict[int, str]()
    if method.network is None:
        try:
            program = heuristic(spec, name)
        except McvrpError as error:
            failures = dict.fromkeys(spec.sizes, str(error))
    elif method.network == "am":
        cards = attention_cards(store, spec)
        failures = {n: why for n in spec.sizes if (why := attention_failure(cards.get(n), n))}
        weights = {n: model.weights_sha256 for n, model in cards.items()}
    elif card:
        weights = dict.fromkeys(spec.sizes, card.weights_sha256)
    rules = spec.rules_in(city)
    finisher = heuristic(spec, name) if method.warm_started else program
    settings = finisher.configuration + finisher.version if finisher else ""
    identities = {
        n: Identity(
            city=city.city_id,
            seed=spec.seed,
            rules=(rules.demand, rules.capacity),
            settings=method.settings() if method.settings else settings,
            model=weights.get(n, ""),
            sampling=method.identity(spec, rotations(spec, card)) if method.identity else None,
        )
        for n in spec.sizes
        if n not in failures
    }
    return Block(
        store=store,
        run=spec.run,
        method=name,
        label=method.label,
        samples=spec.samples_of(name),
        seed=spec.seed,
        rules=rules,
        counts=spec.counts,
        identities=identities,
        part_rows=_part_rows(spec.time_limit(name), method),
        grows=method.grows,
        program=program,
        failures=failures,
    )


def heuristic(spec: BenchmarkSpec, method: str) -> Solver:
    """Return what ``method`` runs, alone or from its samples on, with what it may spend.

    Raises
    ------
    McvrpError
        If it is not installed; the message says how to get it.
    """
    if alone := all_methods()[method].alone:
        return alone()
    program = all_methods()[method].program
    assert program, f"{method} has no program"
    return SOLVERS[program].make(**spec.options_of(method))


def rotations(spec: BenchmarkSpec, card: ModelCard | None) -> int:
    """Return how many ways samples see the city turned: one where the model has not learned that."""
    return spec.rotations if card and card.rotation_trained else 1


def attention_cards(store: Store, spec: BenchmarkSpec) -> dict[int, AttentionCard]:
    """Return the cards of the attention models of the sizes of ``spec``, where there are any."""
    if spec.attention is None:
        return {}
    cards = {n: attention_card(store, spec.attention, n) for n in spec.sizes}
    return {n: card for n, card in cards.items() if card}


def _part_rows(limit: float | None, method: Method) -> Callable[[int], int]:
    """Return how many instances with so many samples each are solved at once."""
    runs = _PART_RUNS if limit is None else min(_PART_RUNS, int(_PART_SECONDS / limit))
    runs = _PART_STARTS if method.alone else runs
    if method.grows:
        return lambda samples: max(1, runs // samples)
    most = runs if method.warm_started else _PART_INSTANCES
    return lambda samples: max(1, min(most, _PART_PATHS // samples))
