"""Table of stages, from which the command, the forms of the UI and the preflight are built.

Code is given by its import path, and imported when it is used: `mcvrp --help` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from mcvrp.storage import layout

if TYPE_CHECKING:
    from mcvrp.flows.config.spec import PipelineSpec


@dataclass(frozen=True)
class Stage:
    """A stage: a flow, its parameters, and the summary of its result."""

    name: str  # of the flow, of its file and function in `flows`, and of its deployment
    command: str
    text: str  # help of the command; both are "" if there is none
    # Parameters of the flow for a preset: defaults of the form, arguments of the command.
    asks: Callable[[PipelineSpec], dict[str, Any]]
    check: str = ""  # of the flow's parameters, before it starts
    figures: str = ""  # functions of `flows.figures` with the flow's result
    tables: str = ""
    lacks: str = ""
    # Path in the store of what a command made, by the flow's result and parameters.
    place: Callable[[Any, dict[str, Any]], str] = lambda made, asked: ""

    def load_flow(self) -> Callable[..., Any]:
        """Import the flow, with gigabytes of libraries."""
        return _load(f"flows.{self.name}:{self.name}")

    def load_check(self) -> Callable[..., None]:
        return _load(self.check)

    def summary(self, part: str, result: Any) -> Any:
        """Return the ``part`` of the summary of ``result``: its figures, its tables, or what it lacks."""
        function = getattr(self, part)
        return _load(f"flows.figures:{function}")(result) if function else ""


def _load(path: str) -> Callable[..., Any]:
    return resolve_name(f"mcvrp.{path}")


def _night_folder(model: str, record: Any) -> str:
    return layout.night_dir(model, record.name) if record else layout.models_dir(model)


_TABLE = (
    Stage(
        "pipeline", "run", "the whole pipeline: city, labels, training, benchmark",
        lambda preset: {"spec": preset},
        "flows.config.preflight:check_pipeline", "pipeline_figures", "pipeline_tables", "pipeline_lacks",
        place=lambda made, asked: layout.benchmark_dir(made.benchmark.summary.run),
    ),
    Stage(
        "city", "city create", "create the preset's synthetic city",
        lambda preset: {"city": preset.city},
    ),
    Stage(
        "label", "label", "create the missing labels of the dataset",
        lambda preset: {"city": preset.city.name, "label": preset.label},
        "flows.config.preflight:check_labels", "label_figures", lacks="label_lacks",
        place=lambda made, asked: layout.label_dir(made.dataset),
    ),
    Stage(
        "train", "train", "train, or resume training",
        lambda preset: {"city": preset.city.name, "train": preset.train},
        "flows.config.preflight:check_training", "train_figures",
        place=lambda made, asked: made.model.folder,
    ),
    Stage(
        "attention", "am", "train the attention models of the benchmark",
        lambda preset: {"city": preset.city.name, "attention": preset.attention_models},
        "flows.config.preflight:check_attention", "attention_figures",
        place=lambda made, asked: layout.attention_dir(made.model),
    ),
    Stage(
        "benchmark", "benchmark", "fill in the tables",
        lambda preset: {
            "city": preset.city.name, "benchmark": preset.comparison, "model": preset.train.model
        },
        "flows.config.preflight:check_benchmark", "benchmark_figures", "benchmark_tables",
        place=lambda made, asked: layout.benchmark_dir(made.summary.run),
    ),
    Stage(
        "nightly", "nightly",
        "ingest driven routes, fine-tune the champion, compare, promote or report why not",
        lambda preset: {"city": preset.city.name, "nightly": preset.night},
        "tasks.retrain.trial:check_trial", "night_figures", "night_tables", "night_lacks",
        place=lambda made, asked: _night_folder(asked["nightly"].model, made.record),
    ),
    Stage(
        "solve", "", "",  # `mcvrp solve` needs no server: it has no flow, the form has
        lambda preset: {"city": preset.city.name, "model": None, **preset.solve.groups},
        lacks="solve_lacks",
    ),
)  # fmt: skip
STAGES = {stage.name: stage for stage in _TABLE}
