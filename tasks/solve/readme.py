"""README of a routed day: its stops, the table of its routes, and key figures as text."""

from __future__ import annotations

from pathlib import PurePath

from mcvrp.model.problem import gap
from mcvrp.storage import markdown
from mcvrp.tasks.files.cvrplib import SOLUTION
from mcvrp.tasks.solve.day import Solved, SolveSummary
from mcvrp.tasks.solve.portfolio import Finding
from mcvrp.tasks.solve.stops import further_columns, measure, stops_of
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text


def solve_readme(solved: Solved, made: str = "") -> str:
    """Return the README in Markdown, with the line of provenance ``made``."""
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
        sol=sol_name(solved),
        drop=solved.planned.spec.drop,
        made=made,
    )


def sol_name(solved: Solved) -> str | None:
    """Return the name of the .sol file of a CVRPLIB instance, None for other or incomplete orders."""
    vrp = solved.planned.vrp
    return PurePath(vrp.name).stem + SOLUTION if vrp and not solved.summary.unserved else None


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


def solve_figures(summary: SolveSummary) -> dict[str, str]:
    """Return the key figures of a day as text, by name."""
    unit = summary.unit
    fewest = -(-summary.demand // summary.capacity)
    figures = {
        "orders": f"{summary.lines:,} orders of {summary.customers:,} customers, total demand "
        f"{summary.demand:,}",
        "routes": f"{summary.routes:,} (lower bound {fewest:,}), vehicle capacity {summary.capacity:,}, "
        f"average utilization {100 * summary.utilisation:.1f} %",
        "cost": length_text(summary.cost, unit) + (", straight-line distance" if summary.straight else ""),
        "found by": summary.found_by,
    }
    if left_out := summary.unserved:
        demand = sum(each.demand for each in left_out)
        figures["left out"] = f"{len(left_out):,} other customers, total demand {demand:,}"
    for finding in summary.findings:
        figures[finding.by] = _finding_text(finding, summary)
    if best := summary.best_known:
        figures["best known"] = f"{length_text(best, unit)}; our gap {gap(summary.cost, best):+.2f} %"
    seconds = summary.seconds
    figures["time"] = f"{duration(seconds.start_up)} start-up, {duration(seconds.search)} search"
    return figures


def _finding_text(finding: Finding, summary: SolveSummary) -> str:
    behind = gap(finding.cost, summary.cost) if summary.cost else 0.0
    text = f"{length_text(finding.cost, summary.unit)} ({behind:+.2f} %) after {duration(finding.seconds)}"
    if finding.best_sample is None:
        return text
    best = length_text(finding.best_sample, summary.unit)
    return f"{text}, {finding.samples:,} samples on {finding.device}, the best {best} before local search"
