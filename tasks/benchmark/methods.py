"""What each method of a benchmark is made of: its program, what decides its answers, the size of a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.models.attention import AttentionCard, attention_card, attention_failure
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block, Identity
from mcvrp.tasks.benchmark.spec import FINISHERS, HEURISTICS, NEURAL, BenchmarkSpec, MethodName
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.warm_start import HGS_STARTS

PROGRAMS = (*HEURISTICS, "hgs-equal", "pyvrp-equal")  # methods without a network: a sample is a run
WARM_STARTED = ("fm-hgs", "fm-pyvrp")  # a program that goes on from a network's samples
DECODED = tuple(method for method in NEURAL if method not in WARM_STARTED)
_PART_SECONDS = 60.0  # what a kill may cost where the time of a run is known
_PART_RUNS = 20  # runs of a program in a part where it is not
_PART_PATHS, _PART_INSTANCES = 4096, 256  # decoded in a part

Sampling = tuple[str | int | float | None, ...]


def make_block(
    store: Store, city: City, spec: BenchmarkSpec, method: MethodName, card: ModelCard | None
) -> Block:
    """Return the block of ``method``, for which nothing has been looked up yet.

    A program that is not installed, or a size without an attention model, is the reason why it has no
    answers there.
    """
    program, failures, weights = None, dict[int, str](), dict[int, str]()
    if method in PROGRAMS:
        try:
            program = heuristic(spec, method)
        except McvrpError as error:
            failures = dict.fromkeys(spec.sizes, str(error))
    elif method == "am":
        cards = attention_cards(store, spec)
        failures = {n: why for n in spec.sizes if (why := attention_failure(cards.get(n), n))}
        weights = {n: model.weights_sha256 for n, model in cards.items()}
    elif card:
        weights = dict.fromkeys(spec.sizes, card.weights_sha256)
    finisher = heuristic(spec, method) if method in WARM_STARTED else program
    settings = finisher.configuration + finisher.version if finisher else ""
    settings = f"pyvrp {version('pyvrp')}" if method == "fm-ls" else settings
    identities = {
        n: Identity(
            city=city.city_id,
            seed=spec.seed,
            rules=(spec.rules.demand, spec.rules.capacity),
            settings=settings,
            model=weights.get(n, ""),
            sampling=sampling_of(spec, method, card),
        )
        for n in spec.sizes
        if n not in failures
    }
    return Block(
        store=store,
        run=spec.run,
        method=method,
        samples=spec.samples_of(method),
        seed=spec.seed,
        rules=spec.rules,
        counts=spec.counts,
        identities=identities,
        part_rows=_part_rows(spec, method),
        grows=method in PROGRAMS,
        program=program,
        failures=failures,
    )


def heuristic(spec: BenchmarkSpec, method: MethodName) -> Solver:
    """Return the program of ``method``, or the one that goes on from its samples, with what it may spend.

    Raises
    ------
    McvrpError
        If it is not installed; the message says how to get it.
    """
    limit, kind = spec.time_limit(method), FINISHERS.get(method, method)
    if kind == "hgs":
        from mcvrp.tasks.solvers.hgs import HGS

        if method in FINISHERS:
            return HGS(limit)
        return HGS(limit, spec.hgs_iterations if limit is None else None, spec.hgs_fleet)
    if kind == "pyvrp":
        from mcvrp.tasks.solvers.pyvrp import PyVRP

        return PyVRP(limit, spec.pyvrp_iterations if limit is None else None)
    from mcvrp.tasks.solvers.lkh3 import LKH3

    return LKH3(spec.lkh_max_trials, spec.lkh_runs)


def rotations(spec: BenchmarkSpec, card: ModelCard | None) -> int:
    """Return how many ways samples see the city turned: one where the model has not learned that."""
    return spec.rotations if card and card.rotation_trained else 1


def sampling_of(spec: BenchmarkSpec, method: MethodName, card: ModelCard | None) -> Sampling | None:
    """Return how ``method`` decodes and what it does with the samples, as identities have it."""
    if method not in NEURAL or method == "fm-gs":
        return None
    if method == "fm-bs":
        return ("beam", spec.beam_width)
    nucleus: Sampling = (spec.p, rotations(spec, card))
    if spec.top_k is not None or spec.temperature != 1:
        nucleus += (spec.top_k, spec.temperature)
    more: Mapping[MethodName, Sampling] = {
        "fm-ls": ("local search",),
        "fm-rrc": ("re-construction", spec.rounds, spec.part_customers, spec.part_samples),
        "fm-hgs": ("warm start", HGS_STARTS),
        "fm-pyvrp": ("warm start",),
    }
    return nucleus + more.get(method, ())


def attention_cards(store: Store, spec: BenchmarkSpec) -> dict[int, AttentionCard]:
    """Return the cards of the attention models of the sizes of ``spec``, where there are any."""
    if spec.attention is None:
        return {}
    cards = {n: attention_card(store, spec.attention, n) for n in spec.sizes}
    return {n: card for n, card in cards.items() if card}


def _part_rows(spec: BenchmarkSpec, method: MethodName) -> Callable[[int], int]:
    """Return how many instances with so many samples each are solved at once."""
    limit = spec.time_limit(method)
    runs = _PART_RUNS if limit is None else min(_PART_RUNS, int(_PART_SECONDS / limit))
    if method in PROGRAMS:
        return lambda samples: max(1, runs // samples)
    most = runs if method in WARM_STARTED else _PART_INSTANCES
    return lambda samples: max(1, min(most, _PART_PATHS // samples))
