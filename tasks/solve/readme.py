"""README of a routed day, its figures in words, and its table of routes."""

from __future__ import annotations

from pathlib import PurePath

from mcvrp.model.problem import Solution, cost
from mcvrp.storage import markdown
from mcvrp.tasks.files.cvrplib import SOLUTION
from mcvrp.tasks.solve.day import Planned, Solved, SolveSummary
from mcvrp.tasks.solve.spec import LOCAL_SEARCH
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text

_POLISHED = {"none": "", LOCAL_SEARCH: ", each polished by local search"}


def solve_readme(solved: Solved) -> str:
    """Return the README in Markdown."""
    return markdown.render(
        "mcvrp.tasks.solve",
        "day.md.j2",
        summary=solved.summary,
        figures=solve_figures(solved.summary),
        routes=route_table(solved),
        in_degrees=solved.planned.addresses.lonlat is not None,
        sol=sol_name(solved.planned),
    )


def sol_name(planned: Planned) -> str | None:
    """Return the name of the .sol of a day that is an instance of CVRPLIB."""
    return PurePath(planned.vrp.name).stem + SOLUTION if planned.vrp else None


def route_table(solved: Solved) -> str:
    """Return the routes as a Markdown table, a row each: customers, load, cost."""
    city, instance, unit = solved.planned.city, solved.planned.day.instance, solved.summary.unit
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    rows = []
    for number, route in enumerate(solved.solution.routes, start=1):
        load = sum(demand[node] for node in route)
        share = f"{100 * load / instance.capacity:.0f} %"
        price = length_text(cost(city, Solution((route,))), unit)
        rows.append([str(number), f"{len(route):,}", f"{load:,}", share, price])
    return markdown.table(["Route", "Customers", "Load", "Of a vehicle", "Cost"], rows, "rrrrr")


def _solved_by(summary: SolveSummary) -> str:
    if summary.model is None:
        return f"{SOLVERS[summary.polish].label}, without a model ({summary.device})"
    said = _POLISHED.get(summary.polish)
    if said is None:
        said = f", the best of them polished by {SOLVERS[summary.polish].label}"
    model = f"model {summary.model} version {summary.model_version}"
    return f"{model}, {summary.samples:,} samples{said} ({summary.device})"


def solve_figures(summary: SolveSummary) -> dict[str, str]:
    """Return the figures of a day, in words."""
    seconds = summary.seconds
    fewest = -(-summary.demand // summary.capacity)
    figures = {
        "orders": f"{summary.lines:,}, of {summary.customers:,} customers who want {summary.demand:,} in all",
        "routes": f"{summary.routes:,} ({fewest:,} at least), {100 * summary.utilisation:.1f} % full "
        f"on average, a vehicle holds {summary.capacity:,}",
        "cost": length_text(summary.cost, summary.unit),
        "by": _solved_by(summary),
    }
    if summary.best_sample is not None and summary.polish != "none":
        figures["best sample"] = f"{length_text(summary.best_sample, summary.unit)} before polishing"
    if summary.compared:
        other = summary.compared
        figures[f"{other.label} in equal time"] = (
            f"{length_text(other.cost, summary.unit)}, {other.routes:,} routes; ours: {other.gap:+.2f} %"
        )
    if summary.best_known:
        gap = 100 * (summary.cost / summary.best_known - 1)
        figures["best known"] = f"{length_text(summary.best_known, summary.unit)}; ours: {gap:+.2f} %"
    steps = [(seconds.start_up, "to start")]
    if summary.model is None:
        steps.append((seconds.polishing, "searching"))
    else:
        steps += [(seconds.decoding, "decoding"), (seconds.polishing, "polishing")]
    figures["time"] = ", ".join(f"{duration(spent)} {what}" for spent, what in steps)
    if summary.compared:
        figures["time"] += f"; {duration(seconds.comparing)} {summary.compared.label}"
    return figures
