"""Spec of the whole pipeline: the specs of its stages, and the constraints between them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from mcvrp.model.curriculum import Curriculum
from mcvrp.model.errors import InvalidFields, McvrpError
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import CitySpec
from mcvrp.tasks.gc.spec import RetentionSpec
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.spec import StrictSpec
from mcvrp.tasks.train.spec import TrainSpec


class PipelineSpec(StrictSpec):
    """Specs of a city, its labels, a model trained on them, and its benchmark."""

    city: CitySpec = Field(title="City", description="Addresses to serve")
    label: LabelSpec = Field(title="Labels", description="Dataset of labels")
    train: TrainSpec = Field(title="Training", description="Network and curriculum")
    benchmark: BenchmarkSpec = Field(
        title="Benchmark", description="Methods, instances and budgets of the benchmark"
    )
    attention: AttentionSpec = Field(
        AttentionSpec(),
        title="Attention models",
        description="Training of the attention models of the benchmark",
    )
    nightly: NightlySpec = Field(
        NightlySpec(), title="Night", description="Nightly fine-tuning on driven routes"
    )
    solve: SolveSpec = Field(SolveSpec(), title="Solve", description="Routing of a day's orders")
    gc: RetentionSpec = Field(RetentionSpec(), title="Retention", description="Retention of unused artifacts")

    @property
    def attention_models(self) -> AttentionSpec:
        """Training of the attention models, with the defaults of the city and the benchmark."""
        benchmark = self.benchmark
        return self.attention.filled(
            benchmark.attention or self.city.name, benchmark.sizes, benchmark.demand, benchmark.capacity
        )

    @property
    def comparison(self) -> BenchmarkSpec:
        """The benchmark, whose HGS has the fleet of the labels by default."""
        fleet = self.label.fleet if self.benchmark.hgs_fleet is None else self.benchmark.hgs_fleet
        return self.benchmark.model_copy(update={"hgs_fleet": fleet})

    @property
    def night(self) -> NightlySpec:
        """Spec of a night, by default of the trained model."""
        named = "model" in self.nightly.model_fields_set
        return self.nightly if named else self.nightly.model_copy(update={"model": self.train.model})

    @property
    def compares_attention(self) -> bool:
        """Whether the benchmark includes the attention models."""
        return "am" in self.benchmark.methods

    def curriculum(self, phase: str) -> Curriculum:
        """Return the curriculum of a phase if no label is missing; its sample order is not the real one.

        McvrpError if there are fewer labels than in one batch.
        """
        counts = [self.label.count] * (self.label.largest - self.train.smallest + 1)
        return self.train.curriculum(phase, counts)


def require_consistent(spec: PipelineSpec) -> None:
    """Raise InvalidFields if the stages of ``spec`` contradict each other, for a run of all."""
    if errors := [*_names(spec), *_phases(spec)]:
        raise InvalidFields(errors)


def _names(spec: PipelineSpec) -> Iterator[str]:
    if spec.train.dataset != (made := spec.label.dataset):
        yield f"train.dataset = {spec.train.dataset!r}, but labels are made in {made!r}: name the same"
    if spec.label.split != "train":
        yield f"label.split = {spec.label.split!r}: models must not be trained on instances of the benchmark"
    held_out, dataset = spec.label.held_out_dataset, spec.train.held_out
    if spec.label.held_out and dataset not in (None, held_out):
        yield f"train.held_out = {dataset!r} is not the held-out set of the labels: set {held_out!r}"
    if not spec.label.held_out and dataset == held_out:
        yield f"train.held_out = {dataset!r} is made with label.held_out: unset it (--set train.held_out=)"
    name = spec.benchmark.attention or spec.city.name
    if spec.attention.model not in (None, name):
        text = f"= {spec.attention.model!r}, but the benchmark uses {name!r}"
        yield f"attention.model {text}: set benchmark.attention to the same name"


def _phases(spec: PipelineSpec) -> Iterator[str]:
    labelled = f"labels are made for {spec.label.smallest} to {spec.label.largest} customers"
    if spec.train.smallest < spec.label.smallest:
        yield f"train.smallest = {spec.train.smallest}, but {labelled}"
        return
    for k, phase in enumerate(spec.train.phases):
        if phase.last > spec.label.largest:
            yield f"train.phases.{k}.last = {phase.last}, but {labelled}"
            continue
        if not spec.train.needs_labels(phase.name):
            continue
        try:
            spec.curriculum(phase.name)
        except McvrpError as error:
            yield f"train.phases.{k}: {error}"
