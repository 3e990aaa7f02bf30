"""Preflight: every error of input and installation that can be found before a stage starts.

The command runs it before a server is started. Flows of deployments, and those called in Python, run it
themselves (`config.inputs`).
"""

from __future__ import annotations

from importlib.util import find_spec

from mcvrp.flows.config import settings
from mcvrp.flows.config.spec import PipelineSpec, require_consistent
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import PlannedCity, plan_city
from mcvrp.tasks.label.spec import LabelSpec, Source
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.train.spec import TrainSpec

AnyCity = StoredCity | PlannedCity

_PIPELINE = ("prefect", "ray", "deepspeed", "asyncpg")


def _require_cores(field: str, count: int | None) -> None:
    """Raise McvrpError if ``count`` is more cores than this machine has, and there is no cluster."""
    if count is not None and count > local_cores() and not settings.ray_address():
        raise McvrpError(
            f"{field} = {count}, but this machine has {local_cores()} cores: request fewer, "
            "or name a Ray cluster in RAY_ADDRESS"
        )


def check_labels(store: Store, city: AnyCity, label: LabelSpec) -> None:
    """Raise McvrpError if labels cannot be made: another dataset, no cluster, too few cores."""
    from mcvrp.tasks.label.stage import labels_missing
    from mcvrp.tasks.support.ray_session import require_answer

    _require_cores("label.workers", label.workers)
    missing = [labels_missing(store, city.city, part) for part in label.datasets]
    if any(missing) and (address := settings.ray_address()):
        require_answer(address)


def check_training(store: Store, city: AnyCity, train: TrainSpec) -> None:
    """Raise McvrpError if training contradicts the results of earlier runs."""
    from mcvrp.tasks.train.phase_start import check_training as check

    if train.launcher == "ray":
        _require_cores("train.ranks", train.ranks)
    check(store, city.city, train)


def check_attention(store: Store, city: AnyCity, attention: AttentionSpec) -> None:
    """Raise McvrpError if attention models contradict the city or the results of earlier runs."""
    from mcvrp.tasks.attention.train import check_attention_models

    check_attention_models(store, city.city, attention)


def check_benchmark(store: Store, city: StoredCity, benchmark: BenchmarkSpec, model: str | None) -> None:
    """Raise McvrpError if a model is missing or of another city, or a size is impossible."""
    from mcvrp.storage.models.models import chosen_model
    from mcvrp.tasks.benchmark.prepare import attention_cards, require_sizes

    _require_cores("benchmark.workers", benchmark.workers)
    require_sizes(city.city, benchmark)
    name = benchmark.attention or city.name
    attention_cards(store, city.city, benchmark.model_copy(update={"attention": name}))
    if not benchmark.neural:
        return
    if model is None:
        raise McvrpError("model is missing: name one, because a method of the benchmark uses it")
    chosen_model(store, model, benchmark.version).require_city(city.city, city.name)


def check_pipeline(store: Store, spec: PipelineSpec) -> None:
    """Raise McvrpError if a stage would not start, as far as this is known before the first stage."""
    _require_cores("benchmark.workers", spec.benchmark.workers)
    planned = planned_city(store, spec)
    check_labels(store, planned, spec.label)
    check_training(store, planned, spec.train)


def planned_city(store: Store, spec: PipelineSpec) -> PlannedCity:
    """Return the city of a run; McvrpError if a stage could not run in it, on whatever machine."""
    from mcvrp.tasks.benchmark.prepare import require_sizes
    from mcvrp.tasks.label.solving import require_possible
    from mcvrp.tasks.train.phase_start import require_trainable

    require_consistent(spec)
    planned = plan_city(store, spec.city, settings.cache_dir())
    require_sizes(planned.city, spec.benchmark)
    for part in spec.label.datasets:
        require_possible(Source(part, planned.city))
    require_trainable(store, planned.city, spec.train)
    if spec.compares_attention:
        check_attention(store, planned, spec.attention_models)
    return planned


def require_pipeline() -> None:
    """Raise McvrpError if the extra `pipeline` is not installed."""
    if missing := [name for name in _PIPELINE if find_spec(name) is None]:
        raise McvrpError(
            f"this command needs the extra 'pipeline', but {missing[0]} is not installed: run "
            "pip install '.[pipeline]' in the source folder of mcvrp"
        )
