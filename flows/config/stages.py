"""Table of stages: the command, the forms of the UI and the checks before work go by it.

It names code by its place, as prefect.yaml does, and imports none: `mcvrp --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcvrp.flows.config.spec import PipelineSpec


@dataclass(frozen=True)
class Stage:
    """A stage: a flow, what it is asked, and what there is to say of its result.

    Parameters
    ----------
    name
        Of the flow, of its file and function in `flows`, and of its deployment.
    command
        That runs it, and what the command does; "" where it has no command of its own.
    asks
        What a preset says about the flow's parameters: what a form begins with, and the command passes.
    check
        Function of `flows.config.preflight` of the flow's parameters; "" where nothing shows before.
    figures, tables, lacks
        Functions of `flows.figures` of the flow's result; "" for none.
    entrypoint
        Module and function of the flow where they are not its name.
    """

    name: str
    command: str
    text: str
    asks: Callable[[PipelineSpec], dict[str, Any]]
    check: str = ""
    figures: str = ""
    tables: str = ""
    lacks: str = ""
    entrypoint: str = ""

    def load_flow(self) -> Callable[..., Any]:
        """Import the flow; gigabytes of libraries come with it."""
        return _load(self.entrypoint or f"{self.name}:{self.name}")

    def load_check(self) -> Callable[..., Any]:
        """Import the check."""
        return _load(f"config.preflight:{self.check}")

    def load_figures(self) -> Callable[[Any], dict[str, str]]:
        """Import what gives the key figures of a result."""
        return _load(f"figures:{self.figures}")

    def load_tables(self) -> Callable[[Any], str]:
        """Import what gives the tables of a result as Markdown."""
        return _load(f"figures:{self.tables}") if self.tables else lambda result: ""

    def load_lacks(self) -> Callable[[Any], str]:
        """Import what says what a result lacks, "" where it is whole."""
        return _load(f"figures:{self.lacks}") if self.lacks else lambda result: ""


def _load(place: str) -> Callable[..., Any]:
    found: Callable[..., Any] = resolve_name(f"mcvrp.flows.{place}")
    return found


_TABLE = (
    Stage(
        "pipeline", "run", "the whole pipeline: city, labels, training, benchmark",
        lambda preset: {"spec": preset},
        "check_pipeline", "pipeline_figures", "pipeline_tables", "pipeline_lacks",
    ),
    Stage(
        "city", "city create", "create the preset's synthetic city",
        lambda preset: {"city": preset.city},
        figures="city_figures",
    ),
    Stage(
        "label", "label", "create the missing labels of the dataset",
        lambda preset: {"city": preset.city.name, "label": preset.label},
        "check_labels", "label_figures", lacks="label_lacks",
    ),
    Stage(
        "train", "train", "train, or resume training",
        lambda preset: {"city": preset.city.name, "train": preset.train},
        "check_training", "train_figures",
    ),
    Stage(
        "train-phase", "", "",  # `mcvrp train --phase`
        lambda preset: {"city": preset.city.name, "train": preset.train},
        "check_training", "phase_figures", entrypoint="train:train_phase_alone",
    ),
    Stage(
        "attention", "am", "train the attention models of the benchmark",
        lambda preset: {"city": preset.city.name, "attention": preset.attention_models},
        "check_attention", "attention_figures",
    ),
    Stage(
        "benchmark", "benchmark", "fill in the tables",
        lambda preset: {
            "city": preset.city.name, "benchmark": preset.comparison, "model": preset.train.model
        },
        "check_benchmark", "benchmark_figures", "benchmark_tables",
    ),
    Stage(
        "nightly", "nightly",
        "ingest driven routes, fine-tune the champion, compare, promote or report why not",
        lambda preset: {"city": preset.city.name, "nightly": preset.night},
        "check_trial", "night_figures", "night_tables",
    ),
    Stage(
        "improve", "improve",
        "improve labels with the champion, fine-tune it, compare, promote or report why not",
        lambda preset: {"city": preset.city.name, "improve": preset.improvement},
        "check_trial", "improve_figures", "improve_tables",
    ),
    Stage(
        "solve", "", "",  # `mcvrp solve` needs no server: it has no flow, the form has
        lambda preset: {"city": preset.city.name, "model": preset.train.model, "solve": preset.solve},
    ),
)  # fmt: skip
STAGES = {stage.name: stage for stage in _TABLE}
