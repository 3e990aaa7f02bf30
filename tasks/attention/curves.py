"""Plot of an attention model's training: mean costs by epoch."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mcvrp.storage.models.attention import AttentionCard
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREEN, GREY, ORANGE, in_unit, style

_LINES = (
    ("sampled", "training samples", ORANGE, "o"),
    ("greedy", "greedy, evaluation instances", BLUE, "s"),
    ("baseline", "baseline, greedy", GREEN, "D"),
)
_MARKS = 20  # markers per line, up to twice as many


def cost_curves(card: AttentionCard, unit: str) -> Figure:
    """Return the plot of mean costs by epoch, in ``unit``: of samples, greedy decoding and the baseline."""
    figure = Figure(figsize=(7, 4), dpi=DPI, layout="constrained")
    axis = figure.subplots()
    style(axis)
    epochs = [epoch.epoch for epoch in card.epochs]
    every = max(1, len(epochs) // _MARKS)
    for name, label, colour, marker in _LINES:
        costs = [getattr(epoch, name) for epoch in card.epochs]
        axis.plot(epochs, costs, color=colour, marker=marker, markersize=4, markevery=every, label=label)
    axis.axhline(card.untrained, color=GREY, linestyle=":", linewidth=1.4, label="untrained, greedy")
    axis.set_title(f"Attention model, {card.n} customers", fontsize=FONT)
    axis.set_xlabel("Epoch")
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_ylabel(f"Mean cost{in_unit(unit)}")
    axis.legend(frameon=False, fontsize=FONT - 2)
    return figure
