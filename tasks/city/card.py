"""README and map of a city."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from mcvrp.model.problem import DEPOT, City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, RoadFacts
from mcvrp.storage.markdown import card, code, image
from mcvrp.storage.provenance import Provenance, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import coordinate_unit
from mcvrp.tasks.support.pictures import BLUE, DPI, ORANGE, png, show_lengths, style
from mcvrp.tasks.support.text import length_text, unit_text

_INK, _SMALLEST, _LARGEST = 6000.0, 1.0, 16.0  # area in square points of all addresses, and of one


def write_city_card(
    store: Store,
    name: str,
    city: City,
    addresses: Addresses | None,
    provenance: Provenance | None = None,
    roads: RoadFacts | None = None,
) -> None:
    """Write the README and the map of the city ``name``; ``addresses`` is None for a synthetic one."""
    on_earth = addresses is not None and addresses.projection is not None
    store.put(layout.city_map(name), png(city_map(city, coordinate_unit(city, addresses), on_earth=on_earth)))
    text = card(
        f"City `{name}`",
        city_facts(city, addresses, roads),
        image("Map of the addresses", "map.png"),
        made=provenance_line(provenance),
    )
    store.put(layout.city_readme(name), text.encode())


def city_facts(city: City, addresses: Addresses | None, roads: RoadFacts | None = None) -> dict[str, str]:
    """Return the facts about a city, by name; ``roads`` if its costs are along roads."""
    unit = coordinate_unit(city, addresses)
    width, height = np.ptp(city.xy, axis=0).tolist()
    facts = {
        "customers": f"{city.customers:,}",
        "id": f"`{city.city_id}`",
        "extent": f"{length_text(width, unit).strip()} by {length_text(height, unit).strip()}",
        "costs": _costs(city, roads),
        "demand": "the paper's, 1 to 9" if city.demand is None else "{} to {}".format(*city.demand),
        "capacity": (
            "the paper's table, by size" if city.capacity is None else "{} to {}".format(*city.capacity)
        ),
        "output classes": f"{city.classes:,}, of them {city.spare:,} reserved for future addresses",
    }
    if roads is not None:
        facts["roads"] = code(roads.text)
    if addresses is not None:
        facts["depot"] = code(addresses.ids[DEPOT])
        if addresses.lonlat is not None:
            lon, lat = addresses.lonlat[DEPOT]
            facts["depot"] += f", latitude {lat:.4f}, longitude {lon:.4f}"
        facts["columns"] = ", ".join(map(code, addresses.further))
        facts["called"] = ", ".join(f"{name}: {code(title)}" for name, title in addresses.columns.items())
        facts["dates"] = addresses.dates or ""
    if city.extends:
        facts["extends"] = f"city `{city.ancestors[-1]}` of {city.extends[-1]:,} customers"
    return {name: text for name, text in facts.items() if text}


def _costs(city: City, roads: RoadFacts | None) -> str:
    if city.matrix is None:
        return f"straight lines, in {unit_text(city.unit)}"
    kind = "symmetric" if city.symmetric else "asymmetric"
    return f"{f'{roads.by} along roads' if roads else 'from a matrix'}, in {city.unit}, {kind}"


def city_map(city: City, unit: str, *, on_earth: bool = False) -> Figure:
    """Return a map of ``city``, coordinates in ``unit``; ``on_earth`` labels the axes East and North."""
    figure = Figure(figsize=(7, 7), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    size = min(_LARGEST, max(_SMALLEST, _INK / city.customers))
    first = city.original_customers + 1
    groups = (("Addresses", city.xy[1:first], BLUE), ("Added later", city.xy[first:], ORANGE))
    for label, xy, colour in groups:
        if len(xy):
            axis.scatter(
                xy[:, 0], xy[:, 1], s=size, color=colour, linewidths=0, label=f"{label} ({len(xy):,})"
            )
    axis.plot(*city.xy[DEPOT], "s", color="black", markeredgecolor="white", markersize=11, label="Depot")
    axis.set_aspect("equal")
    show_lengths(axis, city.scale, unit, ("East", "North") if on_earth else ("x", "y"))
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
