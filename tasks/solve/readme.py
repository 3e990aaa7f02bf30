"""README of a routed day: its stops, the table of its routes, and key figures as text."""

from __future__ import annotations

from pathlib import PurePath

from mcvrp.model.problem import gap
from mcvrp.storage import markdown
from mcvrp.tasks.files.cvrplib import SOLUTION
from mcvrp.tasks.solve.day import Planned, Solved, SolveSummary
from mcvrp.tasks.solve.spec import LOCAL_SEARCH
from mcvrp.tasks.solve.stops import further_columns, measure, stops_of
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text

_POLISHED = {"none": "", LOCAL_SEARCH: ", each improved by local search"}


def solve_readme(solved: Solved) -> str:
    """Return the README in Markdown."""
    return markdown.render(
        "mcvrp.tasks.solve",
        "day.md.j2",
        summary=solved.summary,
        figures=solve_figures(solved.summary),
        routes=route_table(solved),
        in_degrees=solved.planned.addresses.lonlat is not None,
        measure=measure(solved.planned.city),
        date=solved.planned.date,
        further=further_columns(solved.planned),
        sol=sol_name(solved.planned),
    )


def sol_name(planned: Planned) -> str | None:
    """Return the name of the .sol file of a CVRPLIB instance, None for other orders."""
    return PurePath(planned.vrp.name).stem + SOLUTION if planned.vrp else None


def route_table(solved: Solved) -> str:
    """Return the routes as a Markdown table: customers, load, utilization, cost."""
    capacity, unit = solved.planned.day.instance.capacity, solved.summary.unit
    rows = [
        [
            str(stops[0].route),
            f"{len(stops) - 2:,}",
            f"{stops[-1].load_after:,}",
            f"{100 * stops[-1].load_after / capacity:.0f} %",
            length_text(stops[-1].cumulative_cost, unit),
        ]
        for stops in stops_of(solved)
    ]
    cost = measure(solved.planned.city).capitalize()
    return markdown.table(["Route", "Customers", "Load", "Utilization", cost], rows, "rrrrr")


def _solved_by(summary: SolveSummary) -> str:
    if summary.model is None:
        return f"{SOLVERS[summary.polish].label}, without a model ({summary.device})"
    polish = _POLISHED.get(summary.polish)
    if polish is None:
        polish = f", the best of them improved by {SOLVERS[summary.polish].label}"
    model = f"model {summary.model} version {summary.model_version}"
    return f"{model}, {summary.samples:,} samples{polish} ({summary.device})"


def solve_figures(summary: SolveSummary) -> dict[str, str]:
    """Return the key figures of a day as text, by name."""
    seconds, unit, other = summary.seconds, summary.unit, summary.compared
    fewest = -(-summary.demand // summary.capacity)
    figures = {
        "orders": f"{summary.lines:,} orders of {summary.customers:,} customers, total demand "
        f"{summary.demand:,}",
        "routes": f"{summary.routes:,} (lower bound {fewest:,}), vehicle capacity {summary.capacity:,}, "
        f"average utilization {100 * summary.utilisation:.1f} %",
        "cost": length_text(summary.cost, unit),
        "found by": _solved_by(summary),
    }
    if summary.best_sample is not None and summary.polish != "none":
        figures["best sample"] = f"{length_text(summary.best_sample, unit)} before post-optimization"
    if other:
        second, by = other.cost, f"{other.label}, searching from scratch"
        if other.written:
            second, by, figures["found by"] = summary.own_cost, figures["found by"], by
        behind = gap(second, summary.cost) if summary.cost else 0.0
        figures["in equal time"] = f"{length_text(second, unit)} by {by} ({behind:+.2f} %)"
    if best := summary.best_known:
        figures["best known"] = f"{length_text(best, unit)}; our gap {gap(summary.cost, best):+.2f} %"
    steps = [(seconds.start_up, "start-up"), (seconds.decoding, "decoding"), (seconds.polishing, "search")]
    if other:
        steps.append((seconds.comparing, other.label))
    figures["time"] = ", ".join(
        f"{duration(spent)} {step}" for spent, step in steps if step != "decoding" or summary.model
    )
    return figures
