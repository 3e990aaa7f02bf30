"""Flow `pipeline`: from a city to a benchmarked model, each stage a subflow."""

from __future__ import annotations

from typing import Annotated

from mcvrp.flows.attention import attention
from mcvrp.flows.benchmark import benchmark, benchmark_pictures
from mcvrp.flows.city import city
from mcvrp.flows.config.inputs import checked_before, is_checked, open_store
from mcvrp.flows.config.preflight import check_pipeline
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.validation import StoreUri, shown
from mcvrp.flows.figures import PipelineSummary, pipeline_figures, pipeline_tables
from mcvrp.flows.label import label
from mcvrp.flows.server.artifacts import album, links, show_figures
from mcvrp.flows.server.stage import DAY, stage
from mcvrp.flows.train import train
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store


@stage("pipeline", "pipeline {spec.city.name}", timeout=120 * DAY)
def pipeline(
    spec: Annotated[PipelineSpec, shown("Pipeline", "Specs of all stages, as in a preset")],
    store: StoreUri = None,
) -> PipelineSummary:
    """Run all stages. What an earlier run has finished is found in the store and not repeated."""
    opened = open_store(store)
    if not is_checked():
        check_pipeline(opened, spec)
    with checked_before():
        made = city(spec.city, store)
        labelled = label(made.name, spec.label, store)
        trained = train(made.name, spec.train, store)
        models = attention(made.name, spec.attention_models, store) if spec.compares_attention else None
        version = spec.benchmark.version or trained.model.version
        comparison = spec.comparison.model_copy(update={"version": version})
        compared = benchmark(made.name, comparison, spec.train.model, store)
    summary = PipelineSummary(made, labelled, trained, compared, models)
    body = pipeline_tables(summary), *_pictures_and_links(opened, summary)
    show_figures(f"pipeline {made.name}", f"Pipeline {made.name}", pipeline_figures(summary), *body)
    return summary


def _pictures_and_links(store: Store, pipeline: PipelineSummary) -> tuple[str, str]:
    folder = layout.benchmark_dir(pipeline.benchmark.summary.run)
    pictures = {
        "Map of the addresses": layout.city_map(pipeline.city.name),
        "Losses": layout.run_losses(pipeline.train.run),
        **benchmark_pictures(pipeline.benchmark.summary.run),
    }
    paths = {
        "the city": layout.city_dir(pipeline.city.name),
        "the labels": layout.label_dir(pipeline.label.dataset),
        "the training": layout.run_dir(pipeline.train.run),
        "the model": pipeline.train.model.folder,
        "the benchmark": folder,
        "the report": f"{folder}/report.html",
    }
    if pipeline.attention:
        paths["the attention models"] = layout.attention_dir(pipeline.attention.model)
    return album(store, pictures), links(store, paths)
