"""The city of the preset `helsinki`: addresses on the roads of Helsinki's centre, with their travel times.

`python -m tests.benchmarks.helsinki STORE roads` makes it. OSRM and the extract are those of the wheels that
`tests.support.osrm` downloads.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

import numpy as np

from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import AddressFile, CitySpec, make_city
from mcvrp.tasks.city.osrm_server import Osrm, osrm
from mcvrp.tasks.city.roads import road_costs
from mcvrp.tasks.city.spec import RoadsSpec
from tests.support.osrm import EXTRACT, PROGRAMS, unpack

CUSTOMERS = 500
SEED = 1
_WEST, _SOUTH, _EAST, _NORTH = 24.9352, 60.1641, 24.9534, 60.1792  # of the extract's roads
_DRAWN = 1_200  # places, of which some are on courtyards or cut off


def write_addresses(path: Path, server: Osrm) -> None:
    """Write a depot near the middle and `CUSTOMERS` places on named streets that reach each other.

    They are those nearest to uniform places, the same in each call.
    """
    drawn = np.random.default_rng(SEED).uniform((_WEST, _SOUTH), (_EAST, _NORTH), (_DRAWN, 2))
    places: dict[tuple[float, float], str] = {}
    for place in drawn:
        (nearest,) = server.ask("nearest", place[None], number="1")["waypoints"]
        if nearest["name"]:
            places.setdefault(tuple(nearest["location"]), nearest["name"])
    lonlat, streets = np.array(list(places)), list(places.values())
    middle = int(np.abs(lonlat - np.median(lonlat, axis=0)).sum(axis=1).argmin())
    costs, _ = road_costs(server, lonlat, "time")
    connected = np.isfinite(costs[middle]) & np.isfinite(costs[:, middle])
    connected[middle] = False
    chosen = [middle, *np.flatnonzero(connected).tolist()][: CUSTOMERS + 1]
    assert len(chosen) == CUSTOMERS + 1, "draw more places"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "street", "lat", "lon", "depot"])
        for row, k in enumerate(chosen):
            lon, lat = lonlat[k].tolist()
            writer.writerow([f"H{row:03}" if row else "depot", streets[k], lat, lon, int(row == 0)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", help="store of the city")
    parser.add_argument("folder", type=Path, help="folder of addresses.csv, wheels and graph")
    given = parser.parse_args()
    folder: Path = given.folder
    if not (folder / EXTRACT).exists():
        folder.mkdir(parents=True, exist_ok=True)
        unpack(folder)
    os.environ["PATH"] = f"{folder / PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    addresses, extract = folder / "addresses.csv", str(folder / EXTRACT)
    with osrm(extract, "car", folder) as server:
        write_addresses(addresses, server)
    file = AddressFile(file=str(addresses), roads=RoadsSpec(source=extract))
    make_city(Store.open(given.store), CitySpec(name="helsinki", source="imported", addresses=file), folder)


if __name__ == "__main__":
    main()
