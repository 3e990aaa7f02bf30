"""Card of a training run: README.md with the progress of each phase, spec, and the plots of its losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.markdown import card, image, section, table
from mcvrp.storage.models.card import network_text
from mcvrp.storage.provenance import provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, latest_checkpoint
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, GREY, ORANGE, png, style
from mcvrp.tasks.train.spec import TrainSpec

# Name of a phase and its metrics, the fields of `StepMetrics`, one row per logged step. Steps start at 1
# in every phase; NaN: not trained or not measured.
Phase = tuple[str, pd.DataFrame]
_WIDTH, _HEIGHT, _DPI = 4.8, 2.9, 120  # inches per panel; four phases stay below 300 kB
_LOG_FROM = 3  # ratio of losses from which the scale is logarithmic
_SMOOTHED = 40  # the thick line is the moving average over 1/40 of a phase
_STREAMS = (("problem", BLUE), ("solution", ORANGE))
_GAP = "Held-out gap (%)"
_TRAINS = {"encoder": "encoder", "both": "encoder and decoder", "policy": "both, by policy gradient"}
_LAST = {  # columns of the card with the metrics of a phase's last step: their names and formats
    "Problem loss": ("problem_loss", ".3f"),
    "Solution loss": ("solution_loss", ".3f"),
    "Held-out gap (%)": ("greedy_gap", ".2f"),
    "Best of several (%)": ("best_gap", ".2f"),
    "Tokens/s": ("tokens_per_second", ",.0f"),
    "Kept step": ("kept_step", ","),
}


def write_run_card(store: Store, city: City, spec: TrainSpec) -> None:
    """Write README.md, spec and the plot of the losses (if any) of the run of ``spec``."""
    names = [phase.name for phase in spec.phases]
    states = [latest_checkpoint(store, spec.run, name) for name in names]
    begun = begun_phases(store, spec.run, names)
    if begun:
        store.put(layout.run_losses(spec.run), png(loss_figure(begun)))
    store.put_json(layout.run_spec(spec.run), spec.model_dump(mode="json"))
    made = [state.provenance for state in states if state]  # a later phase was made from the earlier ones
    line = provenance_line(made[-1], layout.run_dir(spec.run)) if made else ""
    text = run_text(city, spec, states, plotted=bool(begun), made=line)
    store.put(layout.run_card(spec.run), text.encode())


def run_text(
    city: City, spec: TrainSpec, states: Sequence[CheckpointState | None], *, plotted: bool, made: str = ""
) -> str:
    """Return the card as Markdown, with the last checkpoint of each phase, if there is one.

    ``plotted``: with the plot of the losses; ``made``: its provenance.
    """
    held_out = f"dataset `{spec.held_out}`, every {spec.held_out_every:,} steps"
    header = ["Phase", "Trains", "Customers", "Steps", "Learning rate", *_LAST]
    rows = [
        [
            *(phase.name, _TRAINS[phase.trains], f"{spec.smallest} to {phase.last}", _progress(state)),
            f"{phase.schedule}, {phase.lr:g}",
            *(
                "–" if state is None or (x := state.metrics.get(name)) is None else f"{x:{form}}"
                for name, form in _LAST.values()
            ),
        ]
        for phase, state in zip(spec.phases, states, strict=True)
    ]
    finished = all(state and state.complete for state in states)
    return card(
        f"Training run `{spec.run}`",
        {
            "city": f"`{city.city_id}`",
            "labels": f"dataset `{spec.dataset}`",
            "model": f"`{spec.model}`" + (f", fine-tuned from `{spec.base}`" if spec.base else ""),
            "network": network_text(spec.network.model_dump()),
            "batch size": f"{spec.batch:,} samples, seed {spec.seed}",
            **({"held-out set": held_out} if spec.held_out else {}),
        },
        section(
            "Phases",
            table(header, rows, "ll" + 9 * "r"),
            "Values at the last logged step; losses in nats per token. Kept step: that of the weights, "
            "if its last step had a larger held-out gap than its first.",
        ),
        image("Losses and held-out gap", "losses.png") if plotted else "",
        lead="Finished." if finished else "Not finished: the same command resumes from the last checkpoint.",
        files={
            "spec.json": "the spec of the run, as in a preset",
            "losses.png": "the plot above",
            "PHASE/metrics.parquet": "losses, accuracies, learning rate and speed, one row per logged step",
            "PHASE/step-…/": "checkpoints: weights and optimizer state (safetensors), `state.json` last",
        },
        made=made,
    )


def _progress(state: CheckpointState | None) -> str:
    """Return the steps done, and their total if the phase is not finished."""
    if state is None:
        return "not started"
    return f"{state.step:,}" if state.complete else f"{state.step:,} of {state.steps:,}"


def begun_phases(store: Store, run: str, phases: Sequence[str]) -> list[Phase]:
    """Return those of ``phases`` that have metrics, with them."""
    metrics = [(name, read_metrics(store, run, name)) for name in phases]
    return [(name, pd.DataFrame(map(asdict, rows))) for name, rows in metrics if rows]


def loss_figure(phases: Sequence[Phase]) -> Figure:
    """Return the training loss of each phase, and the held-out gap if measured (Sec. 6.1).

    For a policy-gradient phase, the cost of its samples replaces the loss on problem tokens.
    """
    figure = Figure(figsize=(2 * _WIDTH, _HEIGHT * len(phases) + 0.4), dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(phases), 2, squeeze=False)
    legend: tuple[list[Any], list[Any]] = [], []
    for (name, rows), row in zip(phases, axes, strict=True):
        for (stream, colour), axis in zip(_STREAMS, row, strict=True):
            style(axis)
            sampled = stream == "problem" and not rows["sampled_cost"].isna().all()
            axis.set_title(f"Phase {name}: {'samples' if sampled else f'{stream} tokens'}", fontsize=FONT)
            axis.set_xlabel("Training step")
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            if sampled:
                _draw_costs(axis, rows.dropna(subset="sampled_cost"))
            else:
                _draw_loss(axis, rows, f"{stream}_loss", colour)
        gap = rows.dropna(subset="greedy_gap")
        if len(gap):
            legend = max(legend, _draw_gap(row[1], gap).get_legend_handles_labels(), key=lambda x: len(x[0]))
    if legend[0]:
        figure.legend(*legend, loc="outside lower right", frameon=False, fontsize=FONT - 1)
    return figure


def _draw(
    axis: Axes, rows: pd.DataFrame, column: str, colour: str, label: str | None = None, alpha: float = 0.3
) -> None:
    """Draw the column, and its centred moving average, over fewer values at the ends."""
    steps, values, window = rows["step"], rows[column], len(rows) // _SMOOTHED
    smooth = values.rolling(max(1, window) // 2 * 2 + 1, min_periods=1, center=True).mean()
    axis.plot(steps, values, color=colour, alpha=alpha, linewidth=1)
    axis.plot(steps, smooth, color=colour, linewidth=2.2, label=label)


def _draw_loss(axis: Axes, rows: pd.DataFrame, column: str, colour: str) -> None:
    loss = rows[column]
    if loss.isna().all():
        text = "not trained in this phase"
        axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", color=GREY)
        axis.set_yticks([])
        axis.set_xlim(0, max(rows["step"].iloc[-1], 1))
        return
    axis.set_ylabel("Loss per token (nats)")
    _draw(axis, rows, column, colour)
    if loss.max() > _LOG_FROM * loss.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter("{x:g}")


def _draw_costs(axis: Axes, rows: pd.DataFrame) -> None:
    axis.set_ylabel("Mean cost per instance")
    _draw(axis, rows, "sampled_cost", BLUE, "mean of the samples")
    _draw(axis, rows, "best_cost", ORANGE, "best of the samples")
    axis.legend(frameon=False, fontsize=FONT - 1, loc="upper right")
    axis.margins(y=0.45)  # for the legend


def _draw_gap(axis: Axes, rows: pd.DataFrame) -> Axes:
    """Draw the held-out gaps on a second scale, and return its axes."""
    right = axis.twinx()
    for column, decoding, marker, fill in (
        ("greedy_gap", "greedy", "D", GREEN),
        ("best_gap", "best of several samples", "o", "white"),
    ):
        gap = rows.dropna(subset=column)
        if len(gap):
            label = f"gap on the held-out set, {decoding} (right scale)"
            (line,) = right.plot(gap["step"], gap[column], color=GREEN, ms=5, lw=1.4, label=label)
            line.set(marker=marker, mfc=fill)
    right.set_ylabel(_GAP, color=GREEN, fontsize=FONT)
    gaps = rows[["greedy_gap", "best_gap"]]  # negative where the model is better than its labels
    right.set_ylim(1.1 * min(gaps.min().min(), 0.0), 1.1 * max(gaps.max().max(), 1.0))
    right.spines["top"].set_visible(False)
    right.tick_params(labelsize=FONT - 1, labelcolor=GREEN)
    return right
