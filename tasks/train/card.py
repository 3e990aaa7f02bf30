"""Card of a training run: README.md with the progress of each phase, spec, and the plot of its losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.markdown import card, image, table
from mcvrp.storage.provenance import provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, latest_checkpoint
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.support.pictures import BLUE, FONT, ORANGE, png, style
from mcvrp.tasks.train.spec import TrainSpec

# Name of a phase and its metrics, the fields of `StepMetrics`, one row per logged step. Steps start at 1
# in every phase; NaN: not trained or not measured.
Phase = tuple[str, pd.DataFrame]
_WIDTH, _HEIGHT, _DPI = 4.8, 2.9, 120  # inches per panel; four phases stay below 300 kB
_SMOOTHED = 40  # the thick line is the moving average over 1/40 of a phase
_LOSS = "Loss per token (nats)"
_PANELS = {  # of the plot, for each phase: axis, and metrics with their names in the legend
    _LOSS: {"problem_loss": "problem tokens", "solution_loss": "solution tokens"},
    "Held-out gap (%)": {"greedy_gap": "greedy", "best_gap": "best of several samples"},
    "Mean cost per instance": {"sampled_cost": "all samples", "best_cost": "best of the samples"},
}
_LAST = {  # columns of the card with the metrics of a phase's last step
    "Problem loss": "problem_loss",
    "Solution loss": "solution_loss",
    "Held-out gap (%)": "greedy_gap",
    "Best of several (%)": "best_gap",
}


def write_run_card(store: Store, city: City, spec: TrainSpec) -> None:
    """Write README.md, spec and the plot of the losses (if any) of the run of ``spec``."""
    names = [phase.name for phase in spec.phases]
    states = [latest_checkpoint(store, spec.run, name) for name in names]
    metrics = [(name, read_metrics(store, spec.run, name)) for name in names]
    begun = [(name, pd.DataFrame(map(asdict, rows))) for name, rows in metrics if rows]
    if begun:
        store.put(layout.run_losses(spec.run), png(loss_figure(begun)))
    store.put_json(layout.run_spec(spec.run), spec.model_dump(mode="json"))
    made = [state.provenance for state in states if state]  # a later phase was made from the earlier ones
    text = card(
        f"Training run `{spec.run}`",
        {
            "city": f"`{city.city_id}`",
            "labels": f"dataset `{spec.dataset}`",
            "model": f"`{spec.model}`" + (f", fine-tuned from `{spec.base}`" if spec.base else ""),
        },
        table(["Phase", "Steps", *_LAST], [*map(_row, names, states)], right=True),
        image("Losses and held-out gap", "losses.png") if begun else "",
        made=provenance_line(made[-1]) if made else "",
    )
    store.put(layout.run_card(spec.run), text.encode())


def _row(name: str, state: CheckpointState | None) -> list[str]:
    """Return the steps done and metrics of the phase ``name``."""
    if state is None:
        return [name, "not started", *(["–"] * len(_LAST))]
    values = [state.metrics.get(metric) for metric in _LAST.values()]
    steps = f"{state.step:,} of {state.steps:,}"
    return [name, steps, *("–" if value is None else f"{value:.3f}" for value in values)]


def loss_figure(phases: Sequence[Phase]) -> Figure:
    """Return losses, costs of samples and held-out gaps of each phase, as far as measured (Sec. 6.1)."""
    everything = pd.concat([rows for _, rows in phases])
    panels = {title: lines for title, lines in _PANELS.items() if everything[[*lines]].notna().any(axis=None)}
    size = _WIDTH * len(panels), _HEIGHT * len(phases)
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(phases), len(panels), squeeze=False)
    for (name, rows), row in zip(phases, axes, strict=True):
        for (title, metrics), axis in zip(panels.items(), row, strict=True):
            _draw(axis, rows, metrics)
            axis.set_title(f"Phase {name}", fontsize=FONT)
            axis.set_ylabel(title)
            if title == _LOSS:
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.yaxis.set_major_formatter("{x:g}")
                axis.yaxis.set_minor_formatter(NullFormatter())
    return figure


def _draw(axis: Axes, rows: pd.DataFrame, metrics: Mapping[str, str]) -> None:
    """Draw ``metrics``, each with its moving average, over fewer values at the ends."""
    style(axis)
    axis.set_xlabel("Training step")
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    for (metric, label), colour in zip(metrics.items(), (BLUE, ORANGE), strict=True):
        measured = rows.dropna(subset=metric)
        if len(measured):
            window = max(1, len(measured) // _SMOOTHED) // 2 * 2 + 1
            smooth = measured[metric].rolling(window, min_periods=1, center=True).mean()
            axis.plot(measured["step"], measured[metric], ".-", color=colour, alpha=0.3, linewidth=1)
            axis.plot(measured["step"], smooth, color=colour, linewidth=2.2, label=label)
    if axis.lines:
        axis.legend(frameon=False, fontsize=FONT - 2)
    else:
        axis.set_visible(False)
