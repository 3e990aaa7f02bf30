"""The pages of the Prefect UI where Prefect was installed by somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Workplace

PAGE = """
import os, urllib.request
asked = os.access
os.access = lambda place, mode: "prefect/server" not in f"{place}/" and asked(place, mode)
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
    """Another user's Prefect, in whose folder we may not write, serves the UI all the same."""
    place = Workplace.new(tmp_path)
    done = place.python("-c", PAGE)
    assert (done.returncode, done.stdout.strip()) == (0, "200"), done.stderr
    assert list((place.prefect / "mcvrp-ui").glob("v?/index.html"))
