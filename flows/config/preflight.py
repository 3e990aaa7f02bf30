"""Preflight: all that can be seen to be wrong with a stage, looked at once, before it begins.

The command looks before a server is started; a flow that was started from a deployment, or called in
Python, looks itself. What has been read is handed on to the flows that run in the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcvrp.flows.config import settings
from mcvrp.flows.config.errors import first_of
from mcvrp.flows.config.spec import PipelineSpec, contradictions, require_sizes
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, stored_city
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import refuse_earlier
from mcvrp.tasks.attention.spec import AttentionSpec
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import PlannedCity, plan_city
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.retrain.spec import TrialSpec
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.train.spec import TrainSpec

AnyCity = StoredCity | PlannedCity
# Cities that have been read, by store and name; None where nobody has looked so far.
_READ: ContextVar[Mapping[tuple[str, str], StoredCity] | None] = ContextVar("read", default=None)


def preflight(check: Callable[..., None], store: Store, city: str, *asked: Any) -> StoredCity:
    """Return the city of a stage, after ``check`` of what it is asked, unless somebody has looked before.

    Raises
    ------
    McvrpError
        If there is no such city, or as ``check`` does.
    """
    read = _READ.get()
    there = (read or {}).get((store.uri, city)) or stored_city(store, city)
    if read is None:
        check(store, there, *asked)
    return there


def has_looked() -> bool:
    """True where preflight is done for the flows of this context."""
    return _READ.get() is not None


@contextmanager
def handing_on(store: Store, *cities: StoredCity) -> Iterator[None]:
    """Let the flows of this context check nothing again, nor read ``cities``, which are in ``store``."""
    token = _READ.set({(store.uri, city.name): city for city in cities})
    try:
        yield
    finally:
        _READ.reset(token)


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


def check_labels(store: Store, there: AnyCity, label: LabelSpec) -> None:
    """Raise McvrpError where labels cannot be made: another dataset, no cluster, no core."""
    from mcvrp.tasks.label.stage import labels_missing
    from mcvrp.tasks.support.ray_cluster import require_answer

    check_cores(label=label)
    address = settings.ray_address()
    missing = [labels_missing(store, there.city, part) for part in label.datasets]
    if any(missing) and address:
        require_answer(address)


def check_training(store: Store, there: AnyCity, train: TrainSpec, phase: str | None = None) -> None:
    """Raise McvrpError where training does not go with what earlier runs have left, or has no ``phase``."""
    from mcvrp.tasks.train.phases import check_training as check

    if phase is not None:
        train.phase(phase)
    check_cores(train=train)
    check(store, there.city, train)


def check_attention(store: Store, there: AnyCity, attention: AttentionSpec) -> None:
    """Raise McvrpError where attention models do not go with the city, or what earlier runs have left."""
    from mcvrp.tasks.attention.train import check_attention_models

    check_attention_models(store, there.city, attention)


def check_benchmark(store: Store, there: StoredCity, benchmark: BenchmarkSpec, model: str | None) -> None:
    """Raise McvrpError where a model is needed and there is none of that name, or one of another city."""
    from mcvrp.storage.models.attention import attention_models
    from mcvrp.storage.models.models import model_card

    check_cores(benchmark=benchmark)
    if "am" in benchmark.methods:
        for card in attention_models(store, benchmark.attention or there.name):
            card.require_city(there.city)
    if not benchmark.neural:
        return
    if model is None:
        raise McvrpError("model is missing: name one, as a method of the benchmark needs it")
    compared = model_card(store, model)
    compared.require_city(there.city)
    refuse_earlier(store, layout.run_dir(compared.run))  # the report reads how the model was trained


def check_trial(store: Store, there: StoredCity, trial: TrialSpec) -> None:
    """Raise McvrpError where a night or round has no champion, or asks for sizes beyond the city."""
    from mcvrp.tasks.retrain.trial import check_trial as check

    check(store, there.city, trial)


def check_pipeline(store: Store, spec: PipelineSpec) -> None:
    """Raise McvrpError where a stage would not begin, as far as that can be seen before the first."""
    if errors := contradictions(spec):
        raise McvrpError(first_of(errors))
    check_cores(spec.label, spec.train, spec.benchmark)
    planned = plan_city(store, spec.city)
    require_sizes(spec, planned.city)
    check_labels(store, planned, spec.label)
    check_training(store, planned, spec.train)
    if spec.compares_attention:
        check_attention(store, planned, spec.attention_models)
