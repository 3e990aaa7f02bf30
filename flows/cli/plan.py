"""`mcvrp plan`: estimated cost of a run from scratch, from its spec and measured rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from mcvrp.flows.cli.app import Outcome, WithPreset
from mcvrp.flows.cli.output import asking, plain, size_text, table
from mcvrp.flows.cli.stage import preset_of
from mcvrp.flows.config.preflight import planned_city
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.network import NetworkConfig
from mcvrp.model.problem import City
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.label.spec import seconds_per_instance
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import rough

STARTUP = 10.0  # seconds of the command, and of each part: processes, imports (preset smoke)
# Measured (BENCHMARKS.md); they tell days from hours, not hours from minutes.
FLOPS_PER_CORE, FLOPS_PER_GPU = 2.3e10, 1e14  # of a core of the 2020s and one H200, training small networks
STOPS = 1.1  # of a day per customer, with the depot (Table 1: 1.07 to 1.16)
BYTES_PER_PARAMETER = 12  # of a checkpoint: fp32 weights and two moments


@dataclass(frozen=True)
class Cost:
    """Cost of a part of a run: networks take either the core-hours or, if they have any, the GPU-hours."""

    part: str
    count: int  # instances, or samples of training
    core_hours: float
    gpu_hours: float = 0.0
    bytes: float = 0.0

    def row(self) -> tuple[str, ...]:
        hours = [rough(h) if h >= 10 else f"{h:.2g}" for h in (self.core_hours, self.gpu_hours)]
        size = size_text(self.bytes) if self.bytes else ""
        return self.part, f"{self.count:,}" if self.count else "", *hours, size


def plan_run(common: WithPreset) -> Outcome:
    """Return the cost of a run of the preset as a table."""
    preset = preset_of(common)
    spec = preset.spec(common.overrides)
    costs, cores = make_plan(spec, planned_city(asking(common), spec).city), local_cores()
    sums = (sum(getattr(cost, field) for cost in costs) for field in ("core_hours", "gpu_hours", "bytes"))
    total = Cost("in all", 0, *sums)
    rows = [cost.row() for cost in (*costs, total)]
    header = "part", "instances", "core-hours", "or GPU-hours", "disk"
    time = duration(wall_seconds(costs, cores))
    last = f"{preset.name}: about {time} on the {cores} cores of this machine, if they are idle"
    document = {"preset": preset.name, "parts": plain(costs), "total": plain(total)}
    return Outcome(document, f"{table(header, rows, range(1, 5))}\n\n{last}")


def make_plan(spec: PipelineSpec, city: City | None = None) -> list[Cost]:
    """Return the cost of each part of a run; ``city`` is the city, if it is not the synthetic one."""
    customers = city.customers if city else spec.city.customers
    classes = city.classes if city else customers + 1
    network = NetworkConfig(classes=classes, **spec.train.network.model_dump())
    labels = [(part, n) for part in spec.label.datasets for n in part.sizes]
    hours = sum(part.count * seconds_per_instance(part, n) for part, n in labels) / 3600
    files = ((n, -(-part.count // part.file_rows), part.count) for part, n in labels)
    stored = sum(count * file_bytes(customers, n, rows // count) for n, count, rows in files)
    costs = [Cost("labels", sum(part.count for part, _ in labels), hours, bytes=stored)]
    kept = (spec.train.keep + (spec.train.held_out is not None)) * BYTES_PER_PARAMETER * network.parameters()
    costs += [_training(spec, network, phase.name, kept) for phase in spec.train.phases]
    if spec.compares_attention:
        costs.append(_attention(spec.attention_models))
    counts, methods = spec.benchmark.counts, spec.benchmark.methods
    searching = sum(counts[n] * spec.benchmark.seconds_of(method, n) for method in methods for n in counts)
    encoder, decoder = _per_token(network)
    decoded = sum(counts[n] * n * _paths(spec, method) for method in methods for n in counts)
    decoding = 2 * (encoder + decoder * STOPS) * decoded
    benchmark = Cost("benchmark: searches", sum(counts.values()), searching / 3600)
    return [*costs, benchmark, _computed("benchmark: networks", sum(counts.values()), decoding)]


def wall_seconds(costs: Sequence[Cost], cores: int) -> float:
    """Return the estimated duration of a run with these ``costs`` on ``cores`` idle cores."""
    return STARTUP * (1 + len(costs)) + 3600 * sum(cost.core_hours for cost in costs) / cores


def file_bytes(customers: int, n: int, rows: int) -> float:
    """Return the approximate bytes of a file of ``rows`` labels of size ``n``, a fit to measured ones."""
    return 4800.0 + rows * (25.0 + n * (0.41 * log2(customers + 1) - 0.2))


def _computed(part: str, count: int, flops: float, size: float = 0.0) -> Cost:
    return Cost(part, count, flops / FLOPS_PER_CORE / 3600, flops / FLOPS_PER_GPU / 3600, size)


def _training(spec: PipelineSpec, network: NetworkConfig, name: str, size: float) -> Cost:
    phase, encoder, decoder = spec.train.phase(name), *_per_token(network)
    labels = spec.curriculum(name).samples if phase.policy is None or phase.policy.labels else 0
    draws = phase.policy.steps * phase.policy.instances if phase.policy else 0
    if phase.policy:  # one batch of labels per step, so that the last pass may be incomplete
        labels = min(labels, phase.policy.steps * spec.train.batch)
    n = (spec.train.smallest + (phase.first + phase.last) // 2) // 2  # mean of growing sets
    # 2 operations forward and 4 backward per parameter and token; sampling is another forward pass
    flops = 6.0 * encoder * (labels + draws) * (n + 1)
    if phase.trains != "encoder":
        samples = phase.policy.samples if phase.policy else 0
        flops += decoder * STOPS * n * (6 * labels + 8 * draws * samples)
    return _computed(f"phase {name}", draws or labels, flops, size)


def _attention(am: AttentionSpec) -> Cost:
    instances, dim, flops = am.epochs * am.epoch_instances, am.network.dim, 0.0
    for n in am.sizes or ():
        encoding = am.network.layers * (n + 1) * (4 * dim**2 + 2 * dim * am.network.ff)
        path = STOPS * n * 3 * (n + 1) * dim  # two products of the glimpse, one of the scores
        # forward and backward of the network (3), the rollout of samples, and the baseline's
        flops += 2 * instances * (4 * encoding + (4 * am.paths + 1) * path)
    return _computed("attention models", len(am.sizes or ()) * instances, flops)


def _per_token(network: NetworkConfig) -> tuple[int, int]:
    """Return the parameters applied per problem token and per solution token, with the output layer."""
    attention, mlp, output = 4 * network.dim**2, 2 * network.dim * network.ff, network.classes * network.dim
    encoder, decoder = attention + mlp, 2 * attention + mlp
    return network.encoder_layers * encoder + output, network.decoder_layers * decoder + output


def _paths(spec: PipelineSpec, name: str) -> float:
    """Return the number of decoded solutions per instance."""
    return sum(spec.benchmark.samples_of(name)) if name in spec.benchmark.neural else 0
