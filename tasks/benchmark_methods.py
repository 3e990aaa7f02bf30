"""What each method of a benchmark is made of: its program, what decides its answers, the size of a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from model.errors import McvrpError
from model.problem import City
from storage.models import ModelCard
from storage.store import Store
from tasks.benchmark_blocks import Block, Identity
from tasks.benchmark_spec import FINISHERS, HEURISTICS, NEURAL, BenchmarkSpec, MethodName
from tasks.solvers import Solver

PROGRAMS = (*HEURISTICS, "hgs-equal", "pyvrp-equal")  # methods without a network: a sample is a run
WARM_STARTED = ("fm-hgs", "fm-pyvrp")
_PART_SECONDS = 60.0  # what a kill may cost where the time of a run is known
_PART_RUNS = 20  # runs of a program in a part where it is not
_PART_PATHS, _PART_INSTANCES = 4096, 256  # decoded in a part

Sampling = tuple[str | int | float | None, ...]


def make_block(
    store: Store, city: City, spec: BenchmarkSpec, method: MethodName, card: ModelCard | None
) -> Block:
    """Return the block of ``method``, for which nothing has been looked up yet.

    A program that is not installed is the reason why it has no answers.
    """
    program, failures = None, dict[int, str]()
    try:
        if method not in NEURAL:
            program = heuristic(spec, method)
    except McvrpError as error:
        failures = dict.fromkeys(spec.sizes, str(error))
    identity = Identity(
        city=city.city_id,
        seed=spec.seed,
        rules=(spec.demand, spec.capacity),
        settings=program.configuration + program.version if program else _finisher(spec, method),
        model=card.weights_sha256 if card and method in NEURAL else "",
        sampling=sampling_of(spec, method, card),
    )
    return Block(
        store=store,
        run=spec.run,
        method=method,
        samples=spec.samples_of(method),
        seed=spec.seed,
        rules=spec.rules,
        counts=spec.counts,
        identities={n: identity for n in spec.sizes if n not in failures},
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
        from tasks.solvers.hgs import HGS

        return HGS(limit, spec.hgs_iterations if limit is None else None, spec.hgs_fleet)
    if kind == "pyvrp":
        from tasks.solvers.pyvrp import PyVRP

        return PyVRP(limit, spec.pyvrp_iterations if limit is None else None)
    from tasks.solvers.lkh3 import LKH3

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
        "fm-rrc": ("re-construction", spec.rounds, spec.part_customers),
        "fm-hgs": ("warm start",),
        "fm-pyvrp": ("warm start",),
    }
    return nucleus + more.get(method, ())


def _finisher(spec: BenchmarkSpec, method: MethodName) -> str:
    if method not in WARM_STARTED:
        return ""
    program = heuristic(spec, method)
    return program.configuration + program.version


def _part_rows(spec: BenchmarkSpec, method: MethodName) -> Callable[[int], int]:
    """Return how many instances with so many samples each are solved at once."""
    limit = spec.time_limit(method)
    runs = _PART_RUNS if limit is None else min(_PART_RUNS, int(_PART_SECONDS / limit))
    if method in PROGRAMS:
        return lambda samples: max(1, runs // samples)
    most = runs if method in WARM_STARTED else _PART_INSTANCES
    return lambda samples: max(1, min(most, _PART_PATHS // samples))
