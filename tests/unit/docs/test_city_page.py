"""The recipe of docs/city.md runs as printed, against a server that answers as OSRM's table does."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import import_city
from mcvrp.tasks.city.spec import AddressFile
from tests.unit.docs.pages import DOCS, examples

PLACES = [(45.0 + k / 1000, 4.0 + (k * k % 61) / 1000) for k in range(61)]  # more than a block
CUT_OFF = 45.06  # a latitude without a road, if ``cut_off``


class Table(BaseHTTPRequestHandler):
    cut_off = False

    def do_GET(self) -> None:
        """Answer one request; a server of OSRM takes 100 places."""
        url = urlsplit(self.path)
        points = [tuple(map(float, point.split(","))) for point in url.path.rsplit("/", 1)[-1].split(";")]
        query = parse_qs(url.query)
        sources, destinations = (
            [points[int(k)] for k in query[name][0].split(";")] for name in ("sources", "destinations")
        )
        assert len(points) <= 100
        rows = [[self.seconds(a, b) for b in destinations] for a in sources]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"code": "Ok", "durations": rows}).encode())

    @classmethod
    def seconds(cls, a: tuple[float, ...], b: tuple[float, ...]) -> float | None:
        if cls.cut_off and b[1] == CUT_OFF and a != b:
            return None
        north = b[1] - a[1]
        return round(1e4 * (abs(b[0] - a[0]) + max(north, -north / 2)), 1)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests free of requests."""


def test_the_recipe_makes_a_matrix_of_driving_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are put together in the order of rows; what no road joins is named by the import."""
    (code,) = (text for text in examples(DOCS / "city.md", "python") if text.startswith("# table.py"))
    rows = "".join(f"p{k},{lat:.6f},{lon:.6f},{int(k == 0)}\n" for k, (lat, lon) in enumerate(PLACES))
    addresses, out = tmp_path / "addresses.csv", tmp_path / "matrix.npy"
    addresses.write_text("id,lat,lon,depot\n" + rows)
    server = HTTPServer(("127.0.0.1", 0), Table)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    spec = AddressFile(file=str(addresses), matrix=str(out), unit="s")
    monkeypatch.setattr(
        sys, "argv", ["table.py", f"http://127.0.0.1:{server.server_port}", str(addresses), str(out)]
    )
    try:
        exec(code, {})
        city = import_city(Store.open(tmp_path), spec).city
        points = [(lon, lat) for lat, lon in PLACES]
        expected = np.array([[Table.seconds(a, b) for b in points] for a in points], dtype=float)
        assert city.matrix is not None
        np.testing.assert_allclose(city.matrix, expected, atol=0.11)
        assert not city.symmetric
        monkeypatch.setattr(Table, "cut_off", True)
        exec(code, {})
        with pytest.raises(McvrpError, match="the cost from 'p0' to 'p60' is nan"):
            import_city(Store.open(tmp_path), spec)
    finally:
        server.shutdown()
        server.server_close()
