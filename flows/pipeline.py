"""Flow `pipeline`: from a city to a benchmarked model, each stage a flow of its own."""

from __future__ import annotations

from typing import Annotated

from mcvrp.flows.attention import attention
from mcvrp.flows.benchmark import benchmark
from mcvrp.flows.city import city
from mcvrp.flows.config.parameters import StoreUri, shown
from mcvrp.flows.config.preflight import check_pipeline, handing_on, has_looked
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.figures import PipelineSummary, pipeline_figures, pipeline_tables
from mcvrp.flows.label import label
from mcvrp.flows.server.artifacts import album, links, show_figures, showing_steps
from mcvrp.flows.server.stage import DAY, open_store, stage
from mcvrp.flows.train import train
from mcvrp.storage import layout
from mcvrp.storage.cities import stored_city
from mcvrp.storage.store.store import Store


@stage("pipeline", "pipeline {spec.city.name}", timeout=120 * DAY)
def pipeline(
    spec: Annotated[PipelineSpec, shown("Pipeline", "Specs of all stages, as in a preset")],
    store: StoreUri = None,
) -> PipelineSummary:
    """Run all stages; what an earlier run has done is found in the store and not done again.

    Parameters
    ----------
    spec
        The specs of all stages.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    there = open_store(store)
    if not has_looked():
        check_pipeline(there, spec)
    thing = f"pipeline {spec.city.name}"
    with showing_steps(thing, 4 + spec.compares_attention) as begin, handing_on(there):
        begin("city")
        made = city(spec.city, store)
        # from here on the city is there: every stage has it as it was read once
        with handing_on(there, stored_city(there, made.name)):
            begin("labels")
            labelled = label(made.name, spec.label, store)
            begin("training")
            trained = train(made.name, spec.train, store)
            models = None
            if spec.compares_attention:
                begin("attention models")
                models = attention(made.name, spec.attention_models, store)
            begin("benchmark")
            compared = benchmark(made.name, spec.comparison, spec.train.model, store)
    summary = PipelineSummary(made, labelled, trained, compared, models)
    body = pipeline_tables(summary), _pictures(there, summary), _links(there, summary)
    show_figures(thing, f"Pipeline {made.name}", pipeline_figures(summary), *body)
    return summary


def _pictures(store: Store, pipeline: PipelineSummary) -> str:
    """Return what shows most of each stage: where, learned how, how good."""
    figures = f"{layout.benchmark_dir(pipeline.benchmark.summary.run)}/figures"
    return album(
        store,
        {
            "Map of the addresses": layout.city_map(pipeline.city.name),
            "Losses": layout.run_losses(pipeline.train.run),
            "Gaps to HGS": f"{figures}/gaps.png",
            "A day routed": f"{figures}/solution.png",
        },
    )


def _links(store: Store, pipeline: PipelineSummary) -> str:
    model, run = pipeline.train.model, pipeline.benchmark.summary.run
    places = {
        "the city": layout.city_dir(pipeline.city.name),
        "the labels": layout.label_dir(pipeline.label.dataset),
        "the training": layout.run_dir(pipeline.train.run),
        "the model": model.folder,
        "the benchmark": layout.benchmark_dir(run),
        "the report": f"{layout.benchmark_dir(run)}/report.html",
    }
    if pipeline.attention:
        places["the attention models"] = layout.attention_dir(pipeline.attention.model)
    return links(store, places)
