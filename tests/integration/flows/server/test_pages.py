"""Test of the Prefect UI if Prefect is installed in a folder that is not writable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Workplace

PAGE = """
import os, urllib.request
access = os.access
os.access = lambda place, mode: "prefect/server" not in f"{place}/" and access(place, mode)
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from mcvrp.flows.server.server import prefect_server

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with prefect_server() as server:
    page = urllib.request.Request(server.page, headers={"Accept": "text/html"})
    print(direct.open(page, timeout=60).status)
"""


@pytest.mark.slow
def test_pages_are_served_from_a_folder_of_ours(tmp_path: Path) -> None:
    place = Workplace.new(tmp_path)
    done = place.python("-c", PAGE)
    assert (done.returncode, done.stdout.strip()) == (0, "200"), done.stderr
    assert list((place.prefect / "mcvrp-ui").glob("v?/index.html"))
