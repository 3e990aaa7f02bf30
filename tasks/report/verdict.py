"""What a model is worth, in sentences and one picture: gaps against time, by the methods' readable names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter, SymmetricalLogLocator

from mcvrp.model.problem import gap
from mcvrp.tasks.report.metrics import MethodRun, baseline_of, in_training, mean_and_error, paired
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREY, ORANGE, style
from mcvrp.tasks.support.text import format_seconds, listed

_MODEL = "FM-MCVRP"
_DECODING = {
    "GS": "greedy",
    "NS": "best of {s:,} samples",
    "BS": "beam of {s:,}",
    "VS": "best of {s:,} samples",
}
CODES = (
    "GS: greedy decoding; NS: nucleus sampling; BS: beam search; VS: sampling without a nucleus; "
    "s: answers, of which the best counts, or width of the beam"
)
PICTURE = "gap-time"  # name of the figure of `gaps_and_times`
_FEW = 100  # instances, below which a mean's error is rarely small
_LIMIT = re.compile(r", ([\d.e-]+) s, ")  # time limit of a search in its configuration
_BUSY, _OVERHEAD = 1.25, 1e-3  # times a time limit, and seconds more, until other processes had the cores
_LINEAR = 0.1  # percent, from which on the axis of gaps is logarithmic on both sides of zero
_MARKS = "osD^vP*X<>pd"
_ERRORS = 2  # standard errors, below which a difference is none


@dataclass(frozen=True)
class Score:
    """Mean gap to the baseline in percent with its standard error, and mean seconds of a device."""

    method: MethodRun
    gap: float
    error: float
    seconds: float
    device: str

    @property
    def has_model(self) -> bool:
        return self.method[0].startswith(_MODEL)

    @property
    def is_model(self) -> bool:
        """True if the model alone answers, without a search."""
        return self.has_model and "+" not in self.method[0]


def readable_name(method: MethodRun) -> str:
    """Return a method's name without codes: "model, beam of 16", "HGS, best of 4"."""
    label, samples = method
    if match := re.fullmatch(r"(FM-MCVRP|AM) \((GS|NS|BS|VS)\)(.*)", label):
        network, code, rest = match.groups()
        name = "model" if network == _MODEL else "attention model"
        how = _DECODING[code].format(s=samples).replace("best of 1 samples", "one sample")
        return f"{name}, {how}{rest}"
    return label if samples == 1 else f"{label}, best of {samples:,}"


def scores(results: pd.DataFrame) -> list[Score]:
    """Return the methods that share an instance with the baseline, the baseline included, quickest first."""
    base, found = baseline_of(results), []
    solved = results[results["cost"].notna()]
    groups: Any = solved.groupby(["method", "samples"], sort=False)  # keys of two columns are untyped
    for (label, samples), block in groups:
        method = str(label), int(samples)
        cost, reference = paired(results, None, method, base)
        if len(cost):
            mean, error = mean_and_error(gap(cost, reference))
            seconds, device = float(block["seconds"].mean()), listed(block["device"].unique())
            found.append(Score(method, mean, error, seconds, device))
    return sorted(found, key=lambda score: score.seconds)


def verdict(
    results: pd.DataFrame, labelled_by: Mapping[int, str], trained_up_to: int | None = None
) -> Iterator[str]:
    """Yield sentences on the model: against the baseline, the time of others and its labels, on larger sizes.

    ``labelled_by`` is the configuration of the solver of its labels by size (`history.labelled_by`),
    ``trained_up_to`` the largest size in its training (default: that of the results).
    """
    all_sizes, results = results, in_training(results, trained_up_to)
    every, base = scores(results), baseline_of(results)
    # By its name, not by its gap: the lowest of several gaps would be lower than a new measurement's.
    model = max((score for score in every if score.is_model), key=_effort, default=None)
    if model is None:
        return
    name, reference = readable_name(model.method).removeprefix("model, "), readable_name(base)
    needed = next(score for score in every if score.method == base)
    yield (
        f"Routes of the model ({name}) {_compared(model.gap, model.error, reference)} and take "
        f"{_time(model)} per instance, decoded together; {reference} takes {_time(needed)}."
    )
    yield _as_good(every, model)
    larger = all_sizes[all_sizes["n"] > results["n"].max()]
    cost, theirs = paired(larger, None, model.method, base)
    if len(cost):
        text = _compared(*mean_and_error(gap(cost, theirs)), reference)
        sizes = listed(sorted(larger["n"].unique().tolist()))
        yield f"With {sizes} customers, more than in training, the model's routes {text}."
    if not labelled_by:
        return
    solver = next((score for score in every if _configured(all_sizes, score.method, labelled_by)), None)
    if solver is None:
        by = "; ".join(dict.fromkeys(labelled_by.values()))
        yield f"Its labels are by a solver ({by}) that is no method of this benchmark."
    elif solver.method == base:
        yield f"Its labels are by {reference} with the same settings, on other instances."
    else:
        cost, theirs = paired(results, None, model.method, solver.method)
        if len(cost):
            text = _compared(*mean_and_error(gap(cost, theirs)), readable_name(solver.method))
            yield f"The model's routes {text}, which made its labels with equal settings, on other instances."


def _as_good(every: Sequence[Score], model: Score) -> str:
    """Return what the quickest method without the model is that is as good, and whether it is quicker.

    Of the same program, the next shorter time shows that this one is needed. Times, like the gaps, are means
    over the instances that the baseline solved.
    """
    others = [score for score in every if not score.has_model]
    k = next((k for k, score in enumerate(others) if score.gap <= model.gap), None)
    if k is None:
        return "No method without the model is as good in any time that was measured."
    found = f"{readable_name(others[k].method)}, {others[k].gap:.2f} % after {_time(others[k])}"
    if others[k].seconds <= model.seconds:
        return f"Without the model, a method is as good in as little time: {found}."
    shorter = [score for score in others[:k] if _program(score) == _program(others[k])]
    less = "no shorter time was measured"
    if shorter:
        less = f"it has {shorter[-1].gap:.2f} % after {_time(shorter[-1])}"
    return f"Without the model, the quickest that is as good is {found}; {less}."


def _program(score: Score) -> str:
    return score.method[0].split(" (")[0]


def _time(score: Score) -> str:
    return f"{format_seconds(score.seconds)} of {score.device}"


def _configured(results: pd.DataFrame, method: MethodRun, configurations: Mapping[int, str]) -> bool:
    """Return True if ``method`` is a single run with these ``configurations`` by size."""
    rows = results.loc[results["method"] == method[0], ["n", "configuration"]].drop_duplicates()
    own = {(int(n), text) for n, text in rows.itertuples(index=False)}
    return method[1] == 1 and own == set(configurations.items())


def _effort(score: Score) -> tuple[bool, int]:
    """Return the order of a model's ways of decoding: the widest beam is the last, else the most samples."""
    label, samples = score.method
    return "(BS)" in label, samples


def _compared(mean: float, error: float, other: str) -> str:
    if not np.isfinite(error):
        return f"differ by {mean:+.2f} % from {other} on a single instance"
    figure = f"{abs(mean):.2f} ± {error:.2f} %"
    if abs(mean) <= _ERRORS * error:
        return f"do not differ from {other} beyond the error ({mean:+.2f} ± {error:.2f} %)"
    return f"cost {figure} {'more' if mean > 0 else 'less'} than {other}"


def warnings(results: pd.DataFrame) -> Iterator[str]:
    """Yield why the figures may not hold elsewhere: few instances, a single size, a busy machine."""
    counts: Any = results.groupby("n")["index"].nunique()
    few = {int(n): int(count) for n, count in counts.items() if count < _FEW}
    if few:
        sizes = ", ".join(f"{count} of {n} customers" for n, count in few.items())
        yield f"Fewer than {_FEW} instances carry a figure ({sizes}): small differences are chance."
    if len(counts) == 1:
        yield f"All instances have {counts.index[0]} customers: other sizes may differ."
    took = results[results["samples"] == 1].groupby("configuration")["seconds"].mean().dropna()
    limits = {float(match[1]): text for text in took.index if (match := _LIMIT.search(str(text)))}
    longest = max(limits, default=0.0)
    if not limits:
        yield "No time limit (hgs-equal) tells whether the machine was busy: times may be too long."
    elif took[limits[longest]] > _BUSY * longest + _OVERHEAD:
        yield (
            f"The machine was busy: runs limited to {format_seconds(longest)} of a core took "
            f"{format_seconds(float(took[limits[longest]]))}. Times are too long."
        )


def _named(every: Sequence[Score], base: MethodRun) -> list[Score]:
    """Return the baseline, the model, what is better than all that is quicker, and of other programs all."""
    least = np.minimum.accumulate([np.inf, *(score.gap for score in every)])
    named = [
        score
        for score, quicker in zip(every, least, strict=False)
        if score.method == base or score.has_model or score.gap < quicker
    ]
    programs = {_program(score) for score in named}
    return named + [score for score in every if _program(score) not in programs]


def gaps_and_times(results: pd.DataFrame) -> Figure | None:
    """Return mean gaps against mean times with standard errors, named as in the table; None without any."""
    base = baseline_of(results)
    every = [score for score in scores(results) if score.seconds > 0]
    if len(every) < 2:
        return None
    rows = list(results[["method", "samples"]].drop_duplicates().itertuples(index=False, name=None))
    named = sorted(_named(every, base), key=lambda score: rows.index(score.method))
    others = [score for score in every if score not in named]
    marks = {colour: cycle(_MARKS) for colour in (ORANGE, BLUE, GREY)}
    figure = Figure(figsize=(9.6, 1.6 + 0.36 * max(len(named), 9)), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    axis.set_xscale("log")
    axis.set_yscale("symlog", linthresh=_LINEAR)  # before the points, so that the limits suit them
    axis.axhline(0, color=GREY, linewidth=1)
    for score in named:
        colour = GREY if score.method == base else ORANGE if score.has_model else BLUE
        axis.errorbar(
            score.seconds,
            score.gap,
            yerr=score.error if np.isfinite(score.error) else None,
            fmt=next(marks[colour]),
            color=colour,
            markersize=9,
            label=readable_name(score.method),
        )
    if others:
        seconds, gaps = [score.seconds for score in others], [score.gap for score in others]
        axis.errorbar(seconds, gaps, fmt=".", color=GREY, label="other settings, in the table")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())  # within two decades it would write over the others
    axis.set_xlabel("Time of one core or GPU per instance (s)")
    axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=_LINEAR, subs=(1, 3)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g} %"))
    axis.set_ylabel(f"Gap to {readable_name(base)}, linear within {_LINEAR:g} %")
    figure.legend(loc="outside right upper", frameon=False, fontsize=FONT - 1)
    return figure
