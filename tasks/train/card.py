"""The card of a training run: README.md, spec and where each phase stands, with the picture of the losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, PercentFormatter
from numpy.typing import NDArray

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.markdown import table
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.storage.training.metrics import StepMetrics, read_metrics
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREEN, GREY, ORANGE, png, style
from mcvrp.tasks.train.spec import TrainSpec

_FILES = {
    "spec.json": "what the run was asked to do, as a preset has it",
    "metrics.json": "the figures above for programs",
    "losses.png": "the picture above",
    "PHASE/metrics.parquet": "losses, accuracies, learning rate, speed, a row a logged step",
    "PHASE/step-…/": "checkpoints: weights and Adam's moments (safetensors), `state.json` written last",
    "PHASE/events.out.tfevents.…": "the same metrics for TensorBoard, which is given this folder",
    "lease.json": "who is training just now, where somebody is",
}
# Of a row of metrics: name, heading, format.
_SHOWN = (
    ("problem_loss", "Problem loss", ".3f"),
    ("solution_loss", "Solution loss", ".3f"),
    ("greedy_gap", "Held-out gap (%)", ".2f"),
    ("tokens_per_second", "Tokens/s", ",.0f"),
)


@dataclass(frozen=True)
class PhaseState:
    """Where a phase stands by its last checkpoint: ``metrics`` is the row of its last step, {} before it."""

    phase: str
    step: int
    steps: int | None
    metrics: Mapping[str, Any]


def write_run_card(store: Store, city: City, spec: TrainSpec) -> None:
    """Write README.md, spec, metrics and the picture of the losses of the run of ``spec``."""
    states = phase_states(store, spec)
    write_loss_grid(store, spec.run, [phase.name for phase in spec.phases])
    store.put_json(layout.run_spec(spec.run), spec.model_dump(mode="json"))
    document = {"city_id": city.city_id, "phases": [asdict(state) for state in states]}
    store.put_json(layout.run_figures(spec.run), document)
    pictured = store.exists(layout.run_losses(spec.run))
    store.put(layout.run_card(spec.run), run_text(city, spec, states, pictured=pictured).encode())


def phase_states(store: Store, spec: TrainSpec) -> list[PhaseState]:
    """Return where each phase of ``spec`` stands, in their order."""
    states = [(phase.name, latest_checkpoint(store, spec.run, phase.name)) for phase in spec.phases]
    return [
        PhaseState(name, state.step, state.steps, state.metrics) if state else PhaseState(name, 0, None, {})
        for name, state in states
    ]


def run_text(city: City, spec: TrainSpec, states: Sequence[PhaseState], *, pictured: bool) -> str:
    """Return the card as Markdown; the picture is a link relative to it."""
    finished = all(state.step == state.steps for state in states)
    state = "Finished" if finished else "Not finished: the same command goes on from the last checkpoint"
    network = spec.network
    rows = [
        ["city", f"`{city.city_id}`"],
        ["labels", f"dataset `{spec.dataset}`"],
        ["model", f"`{spec.model}`" + (f", from `{spec.base}`" if spec.base else "")],
        [
            "network",
            f"{network.encoder_layers} + {network.decoder_layers} layers of {network.dim}, "
            f"{network.heads} heads, ff {network.ff}",
        ],
        ["batch", f"{spec.batch:,} samples, seed {spec.seed}"],
    ]
    if spec.held_out:
        rows.append(["watched by", f"dataset `{spec.held_out}`, every {spec.held_out_every:,} steps"])
    header = ["Phase", "Trains", "Customers", "Steps", "Learning rate", *(title for _, title, _ in _SHOWN)]
    phases = [
        [
            phase.name,
            "encoder" if phase.trains == "encoder" else "encoder and decoder",
            f"{spec.smallest} to {phase.last}",
            _steps(state),
            f"{phase.schedule}, {phase.lr:g}",
            *(_figure(state.metrics, name, form) for name, _, form in _SHOWN),
        ]
        for phase, state in zip(spec.phases, states, strict=True)
    ]
    parts = [f"# Training run `{spec.run}`", f"{state}.", table(["", ""], rows)]
    parts += ["## Phases", table(header, phases, right=True)]
    parts += ["Of the last step each; losses are nats a token."]
    parts += ["![Losses and held-out gap](losses.png)"] if pictured else []
    parts += ["## Files", table(["File", "Holds"], [[f"`{file}`", text] for file, text in _FILES.items()])]
    return "\n\n".join(parts) + "\n"


def _steps(state: PhaseState) -> str:
    if state.steps is None:
        return "not begun"
    done = f"{state.step:,}"
    return done if state.step == state.steps else f"{done} of {state.steps:,}"


def _figure(metrics: Mapping[str, Any], name: str, form: str) -> str:
    value = metrics.get(name)
    return "–" if value is None else f"{value:{form}}"


# The picture of a run's losses as the paper draws them

Phase = tuple[str, Sequence[StepMetrics]]  # its name and its rows of metrics
_WIDTH, _HEIGHT, _DPI = 4.8, 2.9, 120  # inches a panel; four phases stay below 300 kB
_LOG_FROM = 3  # a loss that falls by less has a linear scale
_SMOOTHED = 40  # the thick line is the mean over one of so many parts of a phase
_STREAMS = (("problem", "Problem tokens", BLUE), ("solution", "Solution tokens", ORANGE))


def write_loss_grid(store: Store, run: str, phases: Sequence[str]) -> None:
    """Write the picture of the losses of ``phases`` so far into the run's folder, none before the first."""
    begun = begun_phases(store, run, phases)
    if begun:
        store.put(layout.run_losses(run), loss_grid(begun))


def begun_phases(store: Store, run: str, phases: Sequence[str]) -> list[Phase]:
    """Return those of ``phases`` that have metrics, with them."""
    read = [(name, read_metrics(store, run, name)) for name in phases]
    return [(name, rows) for name, rows in read if rows]


def loss_grid(phases: Sequence[Phase]) -> bytes:
    """Return `loss_figure` as PNG."""
    return png(loss_figure(phases))


def loss_figure(phases: Sequence[Phase]) -> Figure:
    """Return the training loss of each phase, and the held-out gap where measured (Sec. 6)."""
    figure = Figure(figsize=(2 * _WIDTH, _HEIGHT * len(phases) + 0.4), dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(phases), 2, squeeze=False)
    gaps = False
    for (name, rows), row in zip(phases, axes, strict=True):
        steps = np.array([metrics.step for metrics in rows])
        for (stream, title, colour), axis in zip(_STREAMS, row, strict=True):
            style(axis)
            axis.set_title(f"Phase {name}: {title.lower()}", fontsize=FONT)
            axis.set_xlabel("Training step")
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            _loss(axis, steps, np.array([getattr(m, f"{stream}_loss") for m in rows]), colour)
        gaps |= _gap(row[1], steps, np.array([metrics.greedy_gap for metrics in rows]))
    if gaps:
        handles, labels = next(a for a in figure.axes if a.get_ylabel() == _GAP).get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", frameon=False, fontsize=FONT - 1)
    return figure


_GAP = "Held-out gap (%)"


def _loss(axis: Axes, steps: NDArray[np.int64], loss: NDArray[np.float64], colour: str) -> None:
    if np.isnan(loss).all():
        axis.text(
            0.5, 0.5, "not trained in this phase", transform=axis.transAxes, ha="center", color="#666666"
        )
        axis.set_yticks([])
        axis.set_xlim(0, max(steps[-1], 1))
        return
    axis.set_ylabel("Loss per token (nats)")
    axis.plot(steps, loss, color=colour, alpha=0.3, linewidth=1)
    axis.plot(steps, _smooth(loss), color=colour, linewidth=2.2)
    if loss.max() > _LOG_FROM * loss.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter("{x:g}")


def _gap(axis: Axes, steps: NDArray[np.int64], gap: NDArray[np.float64]) -> bool:
    """Draw the gap where it was measured, on a scale of its own; return whether it was."""
    measured = ~np.isnan(gap)
    if measured.any():
        right = axis.twinx()
        right.plot(
            steps[measured],
            gap[measured],
            color=GREEN,
            marker="D",
            markersize=5,
            linewidth=1.4,
            label="greedy gap on the held-out set (right scale)",
        )
        right.set_ylabel(_GAP, color=GREEN, fontsize=FONT)
        right.set_ylim(0, 1.1 * max(gap[measured].max(), 1.0))
        right.spines["top"].set_visible(False)
        right.tick_params(labelsize=FONT - 1, labelcolor=GREEN)
    return bool(measured.any())


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centred running mean, over fewer values at the ends."""
    half = max(1, len(values) // _SMOOTHED) // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(places - half, 0), np.minimum(places + half + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def training_curves(phases: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    """Return loss and accuracy of both token streams over all phases' steps.

    Parameters
    ----------
    phases
        Name and metrics of each phase in order, with the columns step (from 1 in every
        phase), problem_loss, solution_loss, problem_accuracy, solution_accuracy (shares of
        1); what a phase does not train is NaN.
    """
    figure = Figure(figsize=(9, 6.4), dpi=DPI, layout="constrained")
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    starts = _phase_starts(phases)
    streams = (
        ("problem", "Problem tokens (encoder)", BLUE),
        ("solution", "Solution tokens (decoder)", ORANGE),
    )
    for axis, quantity in ((loss, "loss"), (accuracy, "accuracy")):
        style(axis)
        for stream, label, colour in streams:
            curves = [frame[f"{stream}_{quantity}"].to_numpy(np.float64) for _, frame in phases]
            steps = [s + f["step"].to_numpy(np.float64) for (_, f), s in zip(phases, starts, strict=False)]
            for k, (x, y) in enumerate(zip(steps, curves, strict=True)):
                axis.plot(x, y, color=colour, alpha=0.25, linewidth=1)
                smooth = pd.Series(y).rolling(max(1, len(y) // 40), min_periods=1, center=True).mean()
                axis.plot(x, smooth, color=colour, linewidth=2.2, label=label if k == 0 else None)
        for boundary in starts[1:-1]:
            axis.axvline(boundary, color=GREY, linestyle=":", linewidth=1.4)
    for (name, _), start, stop in zip(phases, starts, starts[1:], strict=False):
        if stop > start:
            place: dict[str, Any] = {
                "xycoords": ("data", "axes fraction"),
                "ha": "center",
                "va": "bottom",
                "color": GREY,
            }
            loss.annotate(name, ((start + stop) / 2, 1.01), fontsize=FONT, **place)
    loss.set_xlim(0, 1.02 * max(1, starts[-1]))  # else a phase with one row has no place for its name
    loss.set_yscale("log")
    loss.set_ylabel("Loss per token (nats)")
    accuracy.set_ylabel("Accuracy (%)")
    accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    accuracy.set_ylim(0, 1.03)
    accuracy.set_xlabel("Training step")
    handles, labels = accuracy.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 1)
    return figure


def _phase_starts(phases: Sequence[tuple[str, pd.DataFrame]]) -> list[int]:
    """Return the step at which each phase starts and, last, the step at which all ended."""
    lengths = [int(frame["step"].max()) if len(frame) else 0 for _, frame in phases]
    return [0, *np.cumsum(lengths).tolist()]
