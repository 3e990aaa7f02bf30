"""Flow `pipeline`: from a city to a benchmarked model, each stage a flow of its own."""

from __future__ import annotations

from prefect import flow

from flows.am import am
from flows.benchmark import benchmark
from flows.city import city
from flows.label import label
from flows.spec import PipelineSpec
from flows.stages import flow_options
from flows.summary import PipelineSummary
from flows.train import train


@flow(name="pipeline", flow_run_name="pipeline {spec.city.name}", **flow_options())
def pipeline(spec: PipelineSpec, store: str | None = None) -> PipelineSummary:
    """Run all stages; what an earlier run has done is found in the store and not done again.

    Parameters
    ----------
    spec
        The specs of all stages.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    made = city(spec.city, store)
    labelled = label(made.name, spec.label, store)
    trained = train(made.name, spec.train, store)
    models = am(made.name, spec.attention, store) if spec.compares_am else None
    compared = benchmark(made.name, spec.benchmark, spec.train.model, store)
    return PipelineSummary(made, labelled, trained, compared, models)
