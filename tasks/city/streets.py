"""Ways along streets, by an OSRM server: what is drawn of a route, and the time and length of its legs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.tasks.city.osrm import Osrm


@dataclass(frozen=True)
class Way:
    """A way by K places: its line, longitudes and latitudes ``(P, 2)``, and its K - 1 legs."""

    line: NDArray[np.float64]
    seconds: NDArray[np.float64]
    metres: NDArray[np.float64]


def way(server: Osrm, lonlat: NDArray[np.float64]) -> Way:
    """Return the way by ``lonlat``, ``(K, 2)`` in degrees, in their order.

    One request has at most `Osrm.most` places. McvrpError if the server does not answer, or knows no way.
    """
    most = server.most
    parts = [_part(server, lonlat[k : k + most]) for k in range(0, len(lonlat) - 1, most - 1)]
    return Way(
        *(np.concatenate([vars(part)[name] for part in parts]) for name in ("line", "seconds", "metres"))
    )


def _part(server: Osrm, lonlat: NDArray[np.float64]) -> Way:
    # at a stop a van may turn round, as tables have it
    options = {"overview": "full", "geometries": "geojson", "continue_straight": "false"}
    answer = server.ask("route", lonlat, **options)
    try:
        route = answer["routes"][0]
        line = np.array(route["geometry"]["coordinates"], dtype=np.float64).reshape(-1, 2)
        legs = np.array([(leg["duration"], leg["distance"]) for leg in route["legs"]], dtype=np.float64)
        legs = legs.reshape(len(lonlat) - 1, 2)
        if len(line) < 2 or not (np.isfinite(line).all() and np.isfinite(legs).all()):
            raise ValueError
    except (KeyError, IndexError, TypeError, ValueError):
        said = answer.get("message", answer["code"])
        raise McvrpError(f"{server.url} gives no way ({shown(said)}): check the server") from None
    return Way(line, legs[:, 0], legs[:, 1])
