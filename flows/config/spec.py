"""Spec of the whole pipeline: the specs of its stages, and the constraints between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import Field, ValidationError, create_model

from mcvrp.flows.config.parameters import FieldError, field_errors
from mcvrp.model.curriculum import Curriculum
from mcvrp.model.errors import InvalidFields, McvrpError
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import CitySpec
from mcvrp.tasks.gc.spec import RetentionSpec
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.retrain.spec import ImproveSpec, NightlySpec, TrialSpec
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.spec import StrictSpec
from mcvrp.tasks.train.spec import TrainSpec

_Trial = TypeVar("_Trial", bound=TrialSpec)


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
    improve: ImproveSpec = Field(
        ImproveSpec(), title="Improvement", description="Rounds in which the model improves its own labels"
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
        return self._of_trained(self.nightly)

    @property
    def improvement(self) -> ImproveSpec:
        """Spec of improvement rounds, by default of the trained model."""
        return self._of_trained(self.improve)

    @property
    def compares_attention(self) -> bool:
        """Whether the benchmark includes the attention models."""
        return "am" in self.benchmark.methods

    def _of_trained(self, spec: _Trial) -> _Trial:
        named = "model" in spec.model_fields_set
        return spec if named else spec.model_copy(update={"model": self.train.model})

    def curriculum(self, phase: str) -> Curriculum:
        """Return the curriculum of a phase if no label is missing; its sample order is not the real one.

        McvrpError if there are fewer labels than in one batch.
        """
        counts = [self.label.count] * (self.label.largest - self.train.smallest + 1)
        return self.train.curriculum(phase, counts)


SECTIONS = tuple(PipelineSpec.model_fields)


def validated(
    data: Mapping[str, Any], sections: Collection[str] = SECTIONS
) -> tuple[PipelineSpec, list[FieldError]]:
    """Return the spec of ``sections`` in ``data``, and all their errors: it is only to be used without any.

    Other sections of ``data`` are not checked, and the spec does not have them.
    """
    fields = PipelineSpec.model_fields
    declared: dict[str, Any] = {name: (fields[name].annotation, fields[name]) for name in sections}
    given = {name: value for name, value in data.items() if name in sections or name not in fields}
    try:
        parsed = create_model("Sections", __base__=StrictSpec, **declared).model_validate(given)
    except ValidationError as error:
        errors = field_errors(error, PipelineSpec, given)
        faulty = {each.path[0] for each in errors}
        sound = [name for name in sections if name not in faulty]
        spec, others = validated({name: data[name] for name in sound if name in data}, sound)
        return spec, errors + others
    spec = PipelineSpec.model_construct(**{name: getattr(parsed, name) for name in sections})
    return spec, contradictions(spec, sections)


def contradictions(spec: PipelineSpec, sections: Collection[str] = SECTIONS) -> list[FieldError]:
    """Return the contradictions between ``sections`` of ``spec``, one sentence each."""
    errors: list[FieldError] = []
    if "city" in sections and spec.city.source == "synthetic":  # for an imported city see `require_sizes`
        errors += _sizes(spec, sections, spec.city.customers)
    if {"label", "train"} <= set(sections):
        errors += [*_names(spec), *_phases(spec)]
    if {"city", "benchmark", "attention"} <= set(sections):
        name = spec.benchmark.attention or spec.city.name
        if spec.attention.model not in (None, name):
            text = f"= {spec.attention.model!r}, but the benchmark uses {name!r}"
            errors.append(_error("attention.model", f"{text}: set benchmark.attention to the same name"))
    return errors


def require_sizes(spec: PipelineSpec, city: City) -> None:
    """Raise InvalidFields unless ``city`` has enough customers, and capacity ranges, for all sizes."""
    if errors := list(_sizes(spec, SECTIONS, city.customers, city)):
        raise InvalidFields([error.text for error in errors])


def _sizes(
    spec: PipelineSpec, sections: Collection[str], customers: int, city: City | None = None
) -> Iterator[FieldError]:
    fields: list[tuple[str, int, Rules]] = []
    if "label" in sections:
        rules = spec.label.rules_in(city)
        fields += [(f"label.{name}", getattr(spec.label, name), rules) for name in ("largest", "smallest")]
    if "benchmark" in sections:
        rules, sizes = spec.benchmark.rules_in(city), spec.benchmark.sizes
        fields += [(f"benchmark.sizes.{k}", n, rules) for k, n in enumerate(sizes)]
    if {"benchmark", "attention"} <= set(sections):
        rules, own = spec.attention_models.rules_in(city), spec.attention.sizes or ()
        fields += [(f"attention.sizes.{k}", n, rules) for k, n in enumerate(own)]
    for field, n, rules in fields:
        if n > customers:
            yield _error(field, f"= {n} is more than the city has customers ({customers})")
            continue
        try:
            rules.capacity_range(n)
        except McvrpError as error:
            yield _error(field, f"= {n}: {error}")


def _names(spec: PipelineSpec) -> Iterator[FieldError]:
    if spec.train.dataset != spec.label.dataset:
        text = f"= {spec.train.dataset!r} is not the dataset of label.dataset ({spec.label.dataset!r})"
        yield _error("train.dataset", text)
    if spec.label.split != "train":
        text = f"= {spec.label.split!r}: models must not be trained on the instances of the benchmark"
        yield _error("label.split", text)
    held_out, dataset = spec.label.held_out_dataset, spec.train.held_out
    if spec.label.held_out and dataset not in (None, held_out):
        yield _error("train.held_out", f"= {dataset!r} is not the held-out set of the labels ({held_out!r})")
    if not spec.label.held_out and dataset == held_out:
        text = f"= {dataset!r} is labelled only if label.held_out is at least 1"
        yield _error("train.held_out", f"{text}: set it, or unset this field (--set train.held_out=)")


def _phases(spec: PipelineSpec) -> Iterator[FieldError]:
    labelled = f"labels are made for {spec.label.smallest} to {spec.label.largest} customers"
    if spec.train.smallest < spec.label.smallest:
        yield _error("train.smallest", f"= {spec.train.smallest}, but {labelled}")
        return
    for k, phase in enumerate(spec.train.phases):
        if phase.last > spec.label.largest:
            yield _error(f"train.phases.{k}.last", f"= {phase.last}, but {labelled}")
            continue
        if not spec.train.needs_labels(phase.name):
            continue
        try:
            spec.curriculum(phase.name)
        except McvrpError as error:
            yield _error(f"train.phases.{k}:", str(error))


def _error(field: str, text: str) -> FieldError:
    parts = field.rstrip(":").split(".")
    path = tuple(int(part) if part.isdecimal() else part for part in parts)
    return FieldError(path, f"{field} {text}")
