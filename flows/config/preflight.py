"""What is looked at before a stage begins: by the command, and by a flow that a deployment started."""

from __future__ import annotations

from mcvrp.flows.config import settings
from mcvrp.flows.config.spec import PipelineSpec, contradictions, require_sizes
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import planned_city
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.train.spec import TrainSpec


def check_cores(
    label: LabelSpec | None = None,
    train: TrainSpec | None = None,
    benchmark: BenchmarkSpec | None = None,
) -> None:
    """Raise McvrpError where a spec asks for more cores than this machine has, and no cluster is named."""
    if settings.ray_address():
        return
    asked = {
        "label.workers": label.workers if label else None,
        "benchmark.workers": benchmark.workers if benchmark else None,
        "train.ranks": train.ranks if train and train.launcher == "ray" else None,
    }
    for field, count in asked.items():
        if count is not None and count > local_cores():
            raise McvrpError(
                f"{field} = {count}, this machine has {local_cores()} cores: ask for no more, "
                "or name a Ray cluster in RAY_ADDRESS"
            )


def check_labels(store: Store, city: City, spec: LabelSpec) -> None:
    """Raise McvrpError where the labels of ``spec`` cannot be made: another dataset, no cluster, no core."""
    from mcvrp.tasks.label.stage import labels_missing
    from mcvrp.tasks.support.ray_session import require_answer

    check_cores(label=spec)
    address = settings.ray_address()
    missing = [labels_missing(store, city, part) for part in spec.datasets]
    if any(missing) and address:
        require_answer(address)


def check_training(store: Store, city: City, spec: TrainSpec) -> None:
    """Raise McvrpError where ``spec`` does not go with what earlier runs have left."""
    from mcvrp.tasks.train.phases import check_training as check

    check_cores(train=spec)
    check(store, city, spec)


def check_attention(store: Store, city: City, spec: AttentionSpec) -> None:
    """Raise McvrpError where attention models of ``spec`` do not go with what earlier runs have left."""
    from mcvrp.tasks.attention.train import check_attention_models

    check_attention_models(store, city, spec)


def check_benchmark(store: Store, city: City, spec: BenchmarkSpec, model: str | None) -> None:
    """Raise McvrpError where a model is needed and there is none of that name, or one of another city."""
    from mcvrp.storage.models.attention import attention_models
    from mcvrp.storage.models.models import model_card

    check_cores(benchmark=spec)
    for card in attention_models(store, spec.attention) if spec.attention and "am" in spec.methods else ():
        card.require_city(city)
    if not spec.neural:
        return
    if model is None:
        raise McvrpError("model is missing: a method of the benchmark needs one")
    model_card(store, model).require_city(city)


def check_pipeline(store: Store, spec: PipelineSpec) -> None:
    """Raise McvrpError where a stage would not begin, as far as that can be seen before the first."""
    errors = contradictions(spec)
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise McvrpError(f"{errors[0].text}{more}")
    check_cores(spec.label, spec.train, spec.benchmark)
    city = planned_city(store, spec.city)
    require_sizes(spec, city)
    check_labels(store, city, spec.label)
    check_training(store, city, spec.train)
    if spec.compares_attention:
        check_attention(store, city, spec.attention_models)
