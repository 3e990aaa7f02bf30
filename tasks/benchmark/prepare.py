"""Preparation of a benchmark: its models, and the block of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import require_city
from mcvrp.storage.models.attention import AttentionCard, attention_card, attention_failure
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block, Identity
from mcvrp.tasks.benchmark.methods import Method, all_methods
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver

_PART_SECONDS = 60.0  # work that a kill may cost, if the time limit of a run is known
_PART_RUNS = 20  # runs of a program per part otherwise
_PART_STARTS = 1024  # runs per part of a method without a program, which are quick
_PART_PATHS, _PART_INSTANCES = 4096, 256  # decoded per part


@dataclass(frozen=True)
class Models:
    """Cards of the model under test, if any, and of the attention models by size."""

    card: ModelCard | None = None
    attention: Mapping[int, AttentionCard] = field(default_factory=dict)


NO_MODELS = Models()


def require_sizes(city: City, spec: BenchmarkSpec) -> None:
    """Raise McvrpError unless ``city`` has enough customers, and a rule of capacities, for each size."""
    for k, n in enumerate(spec.sizes):
        if n > city.customers:
            raise McvrpError(
                f"benchmark.sizes.{k} = {n} is more than the city has customers ({city.customers})"
            )
        try:
            spec.rules_in(city).capacity_range(n)
        except McvrpError as error:
            raise McvrpError(f"benchmark.sizes.{k} = {n}: {error}") from None


def make_block(store: Store, city: City, spec: BenchmarkSpec, name: str, models: Models = NO_MODELS) -> Block:
    """Return the block of method ``name``; stored answers have not been looked up yet.

    A program that is not installed, or a size without an attention model, becomes a failure.
    """
    method, rules = all_methods()[name], spec.rules_in(city)
    program, failures = None, dict[int, str]()
    if method.network is None:
        try:
            program = heuristic(spec, name)
        except McvrpError as error:
            failures = dict.fromkeys(spec.sizes, str(error))
    elif method.network == "am":
        reasons = {n: attention_failure(models.attention.get(n), n) for n in spec.sizes}
        failures = {n: reason for n, reason in reasons.items() if reason}
    sizes = [n for n in spec.sizes if n not in failures]
    return Block(
        store=store,
        spec=spec,
        name=name,
        method=method,
        samples=spec.samples_of(name),
        rules=rules,
        identities={n: _identity(city, spec, name, models, program, n) for n in sizes},
        part_rows=_part_rows(spec.time_limit(name), method, spec.samples_of(name)[-1]),
        program=program,
        failures=failures,
    )


def _identity(
    city: City, spec: BenchmarkSpec, name: str, models: Models, program: Solver | None, n: int
) -> Identity:
    method, rules = all_methods()[name], spec.rules_in(city)
    settings = f"{program.configuration}{program.version}{spec.time_limit(name)}" if program else ""
    network = {"fm": models.card, "am": models.attention.get(n), None: None}[method.network]
    return Identity(
        city=city.city_id,
        seed=spec.seed,
        rules=(rules.demand, rules.capacity),
        samples=spec.samples_of(name),
        settings=method.settings() if method.settings else settings,
        model=network.weights_sha256 if network else "",
        sampling=method.identity(spec, rotations(spec, models.card)) if method.identity else None,
    )


def heuristic(spec: BenchmarkSpec, method: str) -> Solver:
    """Return the solver that ``method`` runs, with its budget; McvrpError if it is not installed."""
    if alone := all_methods()[method].alone:
        return alone()
    program = all_methods()[method].program
    assert program, f"{method} has no program"
    return SOLVERS[program].make(**spec.options_of(method))


def rotations(spec: BenchmarkSpec, card: ModelCard | None) -> int:
    """Return the number of rotations of the city for samples; 1 if the model was trained without."""
    return spec.rotations if card and card.rotation_trained else 1


def attention_cards(store: Store, city: City, spec: BenchmarkSpec) -> dict[int, AttentionCard]:
    """Return the cards of the stored attention models for the sizes of ``spec``; all must be of ``city``."""
    name = spec.attention if "am" in spec.methods else None
    cards = {n: attention_card(store, name, n) for n in spec.sizes} if name is not None else {}
    models = {n: card for n, card in cards.items() if card}
    hint = "name the models of this city (benchmark.attention), or train some (mcvrp am)"
    for n, card in models.items():
        require_city(store, city, card.city_id, f"attention model {name!r} for n={n} is", hint)
    return models


def _part_rows(limit: float | None, method: Method, samples: int) -> int:
    """Return the maximum number of instances per part, given the largest number of samples of each."""
    runs = _PART_RUNS if limit is None else min(_PART_RUNS, int(_PART_SECONDS / limit))
    runs = _PART_STARTS if method.alone else runs
    if method.from_scratch:
        return max(1, runs // samples)
    return max(1, min(_PART_INSTANCES, _PART_PATHS // samples))
