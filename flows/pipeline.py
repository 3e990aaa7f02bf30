"""Flow `pipeline`: from a city to a benchmarked model, each stage a flow of its own."""

from __future__ import annotations

from typing import Annotated

from flows.am import am
from flows.arguments import StoreUri, shown
from flows.artifacts import show_figures
from flows.benchmark import benchmark
from flows.checks import check_pipeline
from flows.city import city
from flows.label import label
from flows.spec import PipelineSpec
from flows.stages import DAY, deployed, open_store, stage
from flows.summary import PipelineSummary, benchmark_figures, times
from flows.train import train


@stage("pipeline", "pipeline {spec.city.name}", timeout=120 * DAY)
def pipeline(
    spec: Annotated[PipelineSpec, shown("Pipeline", "The specs of all stages, as presets have them")],
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
    if deployed():
        check_pipeline(open_store(store), spec)
    made = city(spec.city, store)
    labelled = label(made.name, spec.label, store)
    trained = train(made.name, spec.train, store)
    models = am(made.name, spec.attention, store) if spec.compares_am else None
    compared = benchmark(made.name, spec.benchmark, spec.train.model, store)
    summary = PipelineSummary(made, labelled, trained, compared, models)
    show_figures("pipeline", f"Pipeline {made.name}", _key_figures(summary), _stages(summary))
    return summary


def _key_figures(pipeline: PipelineSummary) -> dict[str, str]:
    """Return what matters of all stages: how much was learned from, how good it became."""
    benchmark = benchmark_figures(pipeline.benchmark)
    return {
        "city": f"{pipeline.city.name}, {pipeline.city.customers:,} customers",
        "labels": f"{pipeline.label.rows:,}",
        "model": f"{pipeline.train.model.name}, version {pipeline.train.model.version}",
        **{name: value for name, value in benchmark.items() if name not in ("model", "time")},
    }


def _stages(pipeline: PipelineSummary) -> str:
    rows = "\n".join(f"| {stage} | {time} |" for stage, time in times(pipeline).items())
    return f"| stage | time |\n|---|---|\n{rows}\n\n{pipeline.benchmark.summary.markdown}"
