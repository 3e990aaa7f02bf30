"""OSRM: a server that is there, or one of an extract of OpenStreetMap for as long as it is needed.

The programs `osrm-extract`, `osrm-contract` and `osrm-routed` are those on the PATH or of the package
osrm-bindings. What they make of an extract is kept in a folder, by the extract's content and the profile.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.tasks.files.file_bytes import local_path
from mcvrp.tasks.support.processes import die_with_parent

_MOST_COORDINATES = 2_000  # of a request to a server that is started here
_ANSWER_SECONDS = 120.0
_LARGEST_ANSWER = 200_000_000  # bytes: ten times that of the largest table
_DIRECT = urllib.request.ProxyHandler({})  # loopback is behind no proxy
_WAITING = b"running and waiting for requests"
_GRAPH = "graph.osrm"


@dataclass(frozen=True)
class Osrm:
    """A server; if it was started here, with its extract's SHA-256."""

    url: str
    extract: str | None = None
    most: int = 100  # coordinates of a request; OSRM's own default for tables
    patience: float | None = None  # seconds in which it has to answer

    def ask(self, service: str, lonlat: NDArray[np.float64], **options: str) -> dict[str, Any]:
        """Return the document of ``service``, "table" or "route", for ``lonlat``, ``(N, 2)`` in degrees.

        It may be an error message. McvrpError if it does not answer, or not as an OSRM server does.
        """
        places = ";".join(f"{lon:.6f},{lat:.6f}" for lon, lat in lonlat)
        query = urllib.parse.urlencode(options, safe=";,")
        loopback = urllib.parse.urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1")
        opener = urllib.request.build_opener(*[_DIRECT] * loopback)
        try:
            address = f"{self.url}/{service}/v1/driving/{places}?{query}"
            with opener.open(address, timeout=self.patience or _ANSWER_SECONDS) as answer:
                data = answer.read(_LARGEST_ANSWER)
        except urllib.error.HTTPError as error:
            data = error.read(_LARGEST_ANSWER)
        except (OSError, ValueError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)  # an error in another
            raise McvrpError(
                f"no OSRM server answers at {self.url} ({reason(cause)}): start it, or correct the address"
            ) from error
        try:
            document: dict[str, Any] = json.loads(data)
        except (ValueError, RecursionError):
            document = {}
        if not isinstance(document, dict) or "code" not in document:
            raise McvrpError(f"{self.url} is no OSRM server: correct the address")
        return document


@contextmanager
def osrm(roads: str, profile: str, folder: Path) -> Iterator[Osrm]:
    """Yield the server at the address ``roads``, or one of the extract ``roads`` (.osm.pbf) on loopback.

    ``profile`` is that of the extract: "car", "bicycle" or "foot" of the package, or a .lua file. ``folder``
    keeps what is made of extracts. McvrpError if the file, the profile or a program is missing or fails.
    """
    if "://" in roads:
        yield Osrm(roads.rstrip("/"))
        return
    graph, digest = _graph(local_path(roads), profile, folder)
    with _started(graph, digest) as server:
        yield server


@contextmanager
def osrm_again(digest: str, profile: str, folder: Path) -> Iterator[Osrm]:
    """Yield a server of the extract with this SHA-256, as `osrm`, from what ``folder`` has kept of it.

    ``profile`` is that of `storage.cities.RoadFacts`. McvrpError if there is nothing.
    """
    graph = _kept(digest, profile, folder) / _GRAPH
    if not graph.parent.exists():
        raise McvrpError(f"{graph.parent}, which was made of the extract, is not there: give the extract")
    with _started(graph, digest) as server:
        yield server


@contextmanager
def _started(graph: Path, digest: str) -> Iterator[Osrm]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    routed = [_program("osrm-routed"), "-i", "127.0.0.1", "-p", str(port), "--mmap"]
    limits = [f"--max-{kind}-size={_MOST_COORDINATES}" for kind in ("table", "viaroute")]
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(
            [*routed, *limits, str(graph)], stdout=log, stderr=log, preexec_fn=die_with_parent
        ) as process,
    ):
        try:
            while _WAITING not in (said := Path(log.name).read_bytes()):
                if process.poll() is not None:
                    raise McvrpError(f"osrm-routed failed ({_last_line(said)}): delete {graph.parent}")
                time.sleep(0.02)
            yield Osrm(f"http://127.0.0.1:{port}", digest, _MOST_COORDINATES)
        finally:
            process.kill()


def _graph(extract: Path, profile: str, folder: Path) -> tuple[Path, str]:
    """Return the graph of ``extract``, made unless ``folder`` has it, and the extract's SHA-256."""
    lua, digest = _profile(profile), sha256_of(extract)
    made = _kept(digest, profile_text(profile), folder)
    made.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{made}.lock"):
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=made.parent, prefix=f"{made.name}-") as name:
                making = Path(name) / "made"
                making.mkdir()
                # its outputs are named by the link, and lie beside it
                (making / "graph.osm.pbf").symlink_to(extract.resolve())
                _run(extract, "osrm-extract", "-p", str(lua), str(making / "graph.osm.pbf"))
                _run(extract, "osrm-contract", str(making / _GRAPH))
                making.rename(made)
    return made / _GRAPH, digest


def _kept(digest: str, profile: str, folder: Path) -> Path:
    """Return the folder of the graph of the extract with this SHA-256, by this `profile_text`."""
    return folder / "roads" / f"{digest[:16]}-{profile}"


def profile_text(profile: str) -> str:
    """Return the name of a profile, of a .lua file with its checksum: "van-1f2e3d4c.lua"."""
    if not profile.endswith(".lua"):
        return profile
    file = local_path(profile)
    stem = re.sub(r"\W+", "-", file.stem)  # a part of paths, in which osrm-extract knows no spaces
    return f"{stem}-{sha256_of(file)[:8]}.lua"


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of an extract or a profile; McvrpError if it cannot be read."""
    try:
        status = file.stat()
        return _sha256(file.resolve(), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise McvrpError(
            f"{brief(str(file))} cannot be read ({reason(error)}): give an extract of OpenStreetMap "
            "(.osm.pbf) or the address of an OSRM server, and a profile that is there"
        ) from error


@lru_cache
def _sha256(file: Path, size: int, modified: int) -> str:
    """Return the SHA-256 of ``file`` as it is at ``modified``; a country's extract takes seconds."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _profile(profile: str) -> Path:
    if profile.endswith(".lua"):
        return local_path(profile)
    share = Path(_program("osrm-extract")).resolve().parents[1] / "share"
    for place in (share / "profiles", share / "osrm" / "profiles"):
        if (file := place / f"{profile}.lua").exists():
            return file
    raise McvrpError(f"OSRM has no profile {shown(profile)}: give car, bicycle, foot, or a .lua file")


def _program(name: str) -> str:
    """Return the path of an OSRM program, of the package if it is not on the PATH."""
    package = find_spec("osrm")
    places = (package.submodule_search_locations if package else None) or []
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(f"{each}/bin" for each in places))
    if found is None:
        raise McvrpError(
            f"an extract needs {name}: install osrm-bindings (Python 3.12 and up), put OSRM on the PATH, or "
            "give the address of an OSRM server"
        )
    return found


def _run(extract: Path, program: str, *arguments: str) -> None:
    done = subprocess.run([_program(program), *arguments], capture_output=True, check=False)
    if done.returncode:
        said = _last_line(done.stdout + done.stderr)
        raise McvrpError(f"{program} failed with {brief(str(extract))} ({said})")


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return brief(lines[-1]) if lines else "it says nothing"


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
