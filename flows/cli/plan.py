"""`mcvrp plan`: estimated cost of a run, from its spec and measured rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from mcvrp.flows.cli.output import aligned, size_text, table
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.curriculum import Curriculum
from mcvrp.model.instances import CAPACITY_TABLE
from mcvrp.model.network import NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.labels.mapped import expected_bytes
from mcvrp.tasks.attention.spec import AttentionNetworkSpec
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.label.spec import LabelSpec, seconds_per_instance
from mcvrp.tasks.solvers.budgets import BudgetName
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.progress import duration

# Measured on one core of a 2020s x86-64 machine; they tell days from hours, not hours from minutes.
FLOPS_PER_CORE = 2.3e10  # of training, small networks
START_SECONDS = 10.0  # of the Ray session and of every phase
BYTES_PER_PARAMETER = 12  # fp32 weights and two moments
CLUSTER_CORES = 384  # processes of the paper's labelling
# Hours of the paper's phases on its 16 GPUs (Sec. 5.2), by name and samples.
HOURS_OF_THE_PAPER = {
    ("I", 72_771_000): 52, ("II-A", 49_600_000): 59, ("II-B", 18_100_000): 26, ("II-C", 38_100_000): 96
}  # fmt: skip


@dataclass(frozen=True)
class LabelPlan:
    """Labelling of ``instances`` to train on and ``held_out`` ones; all other figures are of both."""

    instances: int
    held_out: int
    core_hours: float
    cores: int
    seconds: float
    cluster_cores: int
    cluster_seconds: float
    bytes: float
    cache_bytes: int  # of the local copy on each machine that trains
    by_budget: dict[str, float]  # core-hours of HGS's named budgets, if the spec has a time limit


@dataclass(frozen=True)
class PhasePlan:
    """Phase of training: ``seconds`` on the plan's cores, ``paper_hours`` on the paper's 16 GPUs."""

    phase: str
    trains: str
    samples: int
    steps: int
    tokens: int
    seconds: float
    paper_hours: float | None


@dataclass(frozen=True)
class AttentionPlan:
    """Attention models: number, training instances of each, wall-clock seconds of all."""

    models: int
    instances: int
    seconds: float


@dataclass(frozen=True)
class BenchmarkPlan:
    """Benchmark: instances, processor time of the heuristics, wall-clock seconds in all.

    Searches that start from a network's samples count as heuristics; local search of samples is not counted.
    """

    instances: int
    core_hours: float
    seconds: float
    by_method: dict[str, float]  # core-hours of each method that needs any


@dataclass(frozen=True)
class Plan:
    """Cost of a run of ``preset`` on ``cores`` processor cores."""

    preset: str
    cores: int
    customers: int
    parameters: int
    label: LabelPlan
    phases: tuple[PhasePlan, ...]
    attention: AttentionPlan | None
    benchmark: BenchmarkPlan
    bytes: float
    seconds: float


def make_plan(spec: PipelineSpec, preset: str, cores: int | None = None, city: City | None = None) -> Plan:
    """Return the cost of a run of ``spec`` from scratch on ``cores`` (default: all of this machine).

    ``city`` is the city, if it is not the synthetic one of ``spec``.
    """
    cores = cores or local_cores()
    customers = city.customers if city else spec.city.customers
    classes = city.classes if city else customers + 1
    network = NetworkConfig(classes=classes, **spec.train.network.model_dump())
    label, attention = _label(spec, customers, cores), _attention(spec, cores)
    benchmark = _benchmark(spec, network, cores)
    phases = tuple(_phase(spec, network, phase.name, cores) for phase in spec.train.phases)
    kept = spec.train.keep + (spec.train.held_out is not None)  # the last ones, and the best by held-out loss
    parameter_bytes = kept * BYTES_PER_PARAMETER * len(phases) + 4  # and the exported model
    return Plan(
        preset=preset,
        cores=cores,
        customers=customers,
        parameters=network.parameters(),
        label=label,
        phases=phases,
        attention=attention,
        benchmark=benchmark,
        bytes=label.bytes + parameter_bytes * network.parameters(),
        seconds=label.seconds
        + sum(phase.seconds for phase in phases)
        + (attention.seconds if attention else 0.0)
        + benchmark.seconds,
    )


def plan_text(plan: Plan) -> str:
    """Return ``plan`` as text for the terminal."""
    label, attention, benchmark = plan.label, plan.attention, plan.benchmark
    cores = f"on {plan.cores} core{'s' if plan.cores > 1 else ''}"
    held_out = f" and {label.held_out:,} held out" if label.held_out else ""
    models = attention and (
        f"{attention.models} of {attention.instances:,} instances each, "
        f"about {duration(attention.seconds)} {cores}"
    )
    kept, whole, own = map(size_text, (label.bytes, plan.bytes, label.cache_bytes))
    head = {
        "preset": plan.preset,
        "city": f"{plan.customers:,} customers",
        "labels": f"{label.instances:,} instances{held_out}, {_hours(label.core_hours)} core-hours",
        "": f"{duration(label.seconds)} on {label.cores} cores, "
        f"{duration(label.cluster_seconds)} on {label.cluster_cores} cores",
        **{
            f"  {name}": f"{_hours(hours)} core-hours (--set label.budget={name})"
            for name, hours in label.by_budget.items()
        },
        "network": f"{plan.parameters:,} parameters",
        **({"attention models": models} if attention else {}),
        "benchmark": f"{benchmark.instances:,} instances, {_hours(benchmark.core_hours)} core-hours of "
        f"heuristics, about {duration(benchmark.seconds)} {cores}",
        **{f"  {name}": f"{_hours(hours)} core-hours" for name, hours in benchmark.by_method.items()},
        "disk": f"{kept} of labels, {whole} in all; each machine that trains keeps {own} of its own",
        "in all": f"about {duration(plan.seconds)} {cores}",
    }
    titles = ("phase", "trains", "samples", "steps", "tokens", f"about, {cores}")
    rows = [
        (p.phase, p.trains, f"{p.samples:,}", f"{p.steps:,}", f"{p.tokens:,}", duration(p.seconds))
        for p in plan.phases
    ]
    parts = [aligned(head), table(titles, rows, range(2, 6))]
    if all(phase.paper_hours is not None for phase in plan.phases):
        hours = ", ".join(f"{phase.paper_hours:g} h ({phase.phase})" for phase in plan.phases)
        parts.append(f"The paper trained on 16 GPUs: {hours}.")
    return "\n\n".join(parts)


def _label(spec: PipelineSpec, customers: int, cores: int) -> LabelPlan:
    label = spec.label
    core_hours = _core_hours(label)
    used = min(cores, label.workers or cores)
    named = get_args(BudgetName) if "budget" in SOLVERS[label.solver].takes and label.time_limit else ()
    return LabelPlan(
        instances=label.count * len(label.sizes),
        held_out=label.held_out * len(label.sizes),
        core_hours=core_hours,
        cores=used,
        seconds=START_SECONDS + 3600 * core_hours / used,
        cluster_cores=CLUSTER_CORES,
        cluster_seconds=3600 * core_hours / CLUSTER_CORES,
        bytes=sum(part.count * row_bytes(customers, n) for part in label.datasets for n in part.sizes),
        cache_bytes=sum(expected_bytes(n, label.count) for n in label.sizes),
        by_budget={name: _core_hours(label.model_copy(update={"budget": name})) for name in named},
    )


def _core_hours(label: LabelSpec) -> float:
    parts = label.datasets
    return sum(part.count * seconds_per_instance(part, n) for part in parts for n in part.sizes) / 3600


def _phase(spec: PipelineSpec, network: NetworkConfig, name: str, cores: int) -> PhasePlan:
    phase, train = spec.train.phase(name), spec.train
    encoder, decoder = _parameters_met(network)
    problem = solution = drawn = samples = steps = 0
    if phase.policy is None or phase.policy.labels:
        curriculum = spec.curriculum(name)
        steps, samples = curriculum.steps, curriculum.samples
        problem, solution = _token_counts(curriculum)
    if policy := phase.policy:
        # one batch of labels per step, so that the last pass may be incomplete
        share = min(1.0, policy.steps / steps) if steps else 0.0
        problem, solution = round(share * problem), round(share * solution)
        steps, samples = policy.steps, policy.steps * policy.instances
        n = (train.smallest + phase.last) // 2  # the mean of growing sets
        problem += samples * (n + 1)
        drawn = samples * policy.samples * round(n + _mean_routes(n))
    decodes = phase.trains != "encoder"
    # 2 operations forward and 4 backward per parameter and token; sampling is another forward pass.
    flops = 6 * encoder * problem + (decoder * (6 * solution + 8 * drawn) if decodes else 0)
    return PhasePlan(
        phase=name,
        trains=phase.trains,
        samples=samples,
        steps=steps,
        tokens=problem + (solution + drawn if decodes else 0),
        seconds=START_SECONDS + flops / (FLOPS_PER_CORE * cores),
        paper_hours=HOURS_OF_THE_PAPER.get((name, samples)),
    )


def _attention(spec: PipelineSpec, cores: int) -> AttentionPlan | None:
    """Return the cost of the benchmark's attention models; None if it has none."""
    if not spec.compares_attention:
        return None
    am = spec.attention_models
    sizes = am.sizes or ()
    flops = 0.0
    for n in sizes:
        encoder, path = _attention_flops(am.network, n)
        # Forward and backward of the network (3), the rollout of samples, and the baseline's.
        step = am.batch_of(n) * (3 * encoder + 4 * am.paths * path + encoder + path)
        compared = (am.epochs + 1) * 2 * am.evaluation * (encoder + path)
        flops += am.steps(n) * step + compared
    return AttentionPlan(len(sizes), am.epochs * am.epoch_instances, flops / (FLOPS_PER_CORE * cores))


def _benchmark(spec: PipelineSpec, network: NetworkConfig, cores: int) -> BenchmarkPlan:
    benchmark = spec.benchmark
    counts = benchmark.counts.items()
    hours = {
        method: sum(count * benchmark.seconds_of(method, n) for n, count in counts) / 3600
        for method in benchmark.methods
    }
    decoding = sum(
        count * _paths(spec, method) * _path_flops(network, n)
        for method in benchmark.methods
        for n, count in counts
    )
    heuristics = sum(hours.values())
    return BenchmarkPlan(
        instances=sum(benchmark.counts.values()),
        core_hours=heuristics,
        seconds=START_SECONDS + 3600 * heuristics / cores + decoding / (FLOPS_PER_CORE * cores),
        by_method={method: spent for method, spent in hours.items() if spent},
    )


def _paths(spec: PipelineSpec, name: str) -> int:
    """Return the number of decoded solutions per instance; parts of a solution count as fractions."""
    method = all_methods()[name]
    if not method.decoded:
        return 0  # methods with a time limit, and the small attention model
    if method.paths:
        return method.paths(spec.benchmark)
    return sum(spec.benchmark.samples_of(name))  # each number of samples is decoded separately


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def row_bytes(customers: int, n: int) -> float:
    """Return the approximate bytes per label of size ``n`` in a large file, a fit to measured ones."""
    return 25.0 + n * (0.41 * math.log2(customers + 1) - 0.2)


def _token_counts(curriculum: Curriculum) -> tuple[int, int]:
    """Return the number of problem and of solution tokens in all samples of a phase."""
    rows = np.diff(curriculum.size_starts)
    sets = np.arange(curriculum.first, curriculum.last + 1)
    problem = solution = 0
    for n, count in enumerate(rows.tolist(), start=curriculum.smallest):
        shown = count * int((sets >= n).sum()) * curriculum.passes
        problem += shown * (n + 1)
        solution += shown * round(n + _mean_routes(n))
    return problem, solution


def _mean_routes(n: int) -> float:
    """Return the approximate number of routes for ``n`` customers (mean demand 5, Table 1, 10 % slack).

    Above the table, capacities are those of its last row.
    """
    *_, low, high = next((row for row in CAPACITY_TABLE if n <= row[1]), CAPACITY_TABLE[-1])
    return 1.1 * 5 * n / ((low + high) / 2)


def _parameters_met(network: NetworkConfig) -> tuple[int, int]:
    """Return the parameters applied per problem token and per solution token, with the output layer."""
    output = network.classes * network.dim
    attention, mlp = 4 * network.dim**2, 2 * network.dim * network.ff
    encoder = network.encoder_layers * (attention + mlp)
    decoder = network.decoder_layers * (2 * attention + mlp)
    return encoder + output, decoder + output


def _path_flops(network: NetworkConfig, n: int) -> float:
    """Return the operations per solution of an instance of ``n`` customers, with the encoder."""
    encoder, decoder = _parameters_met(network)
    return 2 * (decoder * (n + _mean_routes(n)) + encoder * n)


def _attention_flops(network: AttentionNetworkSpec, n: int) -> tuple[float, float]:
    """Return the operations of the encoder per instance and of the decoder per solution."""
    products = 4 * network.dim**2 + 2 * network.dim * network.ff
    encoder = 2 * network.layers * (n + 1) * (products + 2 * (n + 1) * network.dim)
    # two products of the glimpse and one of the scores, at each step of a path
    return encoder, 2 * (n + _mean_routes(n)) * 3 * (n + 1) * network.dim
