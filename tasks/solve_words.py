"""What there is to say about a routed day: its figures, and what each file and column means."""

from __future__ import annotations

from model.problem import Solution, cost
from tasks.lengths import length_text
from tasks.progress import duration
from tasks.solve_day import Solved, SolveSummary

_POLISHED = {
    "none": "",
    "local-search": ", each polished by local search",
    "hgs": ", the best of them polished by HGS",
    "pyvrp": ", the best of them polished by PyVRP",
}

_FILES = """\
## Files

- `routes.csv`: a line a stop, for a vehicle in the order of driving. A route begins (stop 0) and ends
  at the depot. `customer` is what the city calls the address; `load_after` is the demand served on the
  route so far, this stop included (what is still on board of a delivery is the route's last
  `load_after` minus this one); `leg_cost` is the cost of the way from the stop before, `cumulative_cost`
  of the way since the depot. The cost of the day is the sum of all `leg_cost`.
- `routes.geojson`: each route as a LineString, each customer and the depot as a Point, for any map
  program. {coordinates}
  Lines between stops are straight, whatever the costs are made of.
- `map.png`: the same as a picture.
- `summary.json`: the figures above for programs, with more decimals.
- `spec.json`: what was asked for: model, samples, time, polish.
"""
_DEGREES = "Longitude and latitude (WGS 84), as RFC 7946 has it."
_OWN = (
    "The city has no longitude and latitude:\n  coordinates are its own x and y, not what RFC 7946 expects, "
    "and the document's member\n  `coordinates` says so."
)


def solve_readme(solved: Solved) -> str:
    """Return the README in Markdown."""
    summary, planned = solved.summary, solved.planned
    coordinates = _OWN if planned.addresses.lonlat is None else _DEGREES
    rows = "\n".join(f"| {name} | {value} |" for name, value in solve_figures(summary).items())
    notes = "".join(f"- {note}\n" for note in summary.notes)
    told = f"## To know\n\n{notes}\n" if notes else ""
    title = f"# Routes of {summary.orders}, city {summary.city}"
    return (
        f"{title}\n\n| | |\n|---|---|\n{rows}\n\n![The routes](map.png)\n\n{told}{route_table(solved)}\n\n"
        + _FILES.format(coordinates=coordinates)
    )


def route_table(solved: Solved) -> str:
    """Return the routes as a Markdown table, a row each: customers, load, cost."""
    city, instance, unit = solved.planned.city, solved.planned.day.instance, solved.summary.unit
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    lines = ["| Route | Customers | Load | Of a vehicle | Cost |", "|--:|--:|--:|--:|--:|"]
    for number, route in enumerate(solved.solution.routes, start=1):
        load = sum(demand[node] for node in route)
        share = f"{100 * load / instance.capacity:.0f} %"
        price = length_text(cost(city, Solution((route,))), unit)
        lines.append(f"| {number} | {len(route):,} | {load:,} | {share} | {price} |")
    return "\n".join(lines)


def solve_figures(summary: SolveSummary) -> dict[str, str]:
    """Return the figures of a day, in words."""
    seconds = summary.seconds
    fewest = -(-summary.demand // summary.capacity)
    figures = {
        "orders": f"{summary.lines:,}, of {summary.customers:,} customers who want {summary.demand:,} in all",
        "routes": f"{summary.routes:,} ({fewest:,} at least), {100 * summary.utilisation:.1f} % full "
        f"on average, a vehicle holds {summary.capacity:,}",
        "cost": length_text(summary.cost, summary.unit),
        "by": f"model {summary.model} version {summary.model_version}, "
        f"{summary.samples:,} samples{_POLISHED[summary.polish]} ({summary.device})",
    }
    if summary.polish != "none":
        figures["best sample"] = f"{length_text(summary.best_sample, summary.unit)} before polishing"
    if summary.compared:
        other = summary.compared
        figures[f"{other.label} in equal time"] = (
            f"{length_text(other.cost, summary.unit)}, {other.routes:,} routes; ours: {other.gap:+.2f} %"
        )
    figures["time"] = (
        f"{duration(seconds.start_up)} to start, {duration(seconds.decoding)} decoding, "
        f"{duration(seconds.polishing)} polishing"
    )
    if summary.compared:
        figures["time"] += f"; {duration(seconds.comparing)} {summary.compared.label}"
    return figures
