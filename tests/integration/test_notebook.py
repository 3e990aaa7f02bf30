"""docs/example.ipynb, executed by a kernel as it stands, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.command import Workplace
from tests.unit.docs.pages import DOCS

pytest_plugins = ["tests.support.osrm"]

NOTEBOOK = DOCS / "example.ipynb"


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 20_000
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def test_links_of_the_notebook_lead_to_pages() -> None:
    pages = re.findall(r"\]\(([^)]+)\)", NOTEBOOK.read_text())
    assert pages
    assert [page for page in pages if not (DOCS / page).exists()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("osrm_folder")  # the notebook downloads the same wheels
def test_the_notebook_runs_from_addresses_to_a_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell without an error; HGS and the model route all customers, along streets, side by side."""
    place = Workplace.new(tmp_path)
    for name, value in place.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MCVRP_STORE")  # the notebook names its store
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:  # fewer labels and steps than the page's, which take five minutes here
        few = cell.source.replace("count = 1_000", "count = 60")
        cell.source = few.replace("trunc = 500", "trunc = 30")
    resources = {"metadata": {"path": str(place.folder)}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    text = "".join(output.get("text", "") for output in outputs)
    together, alone = map(float, re.findall(r"([\d.]+) min (?:in \d+ routes|with a route)", text))
    assert 0 < together < alone
    assert re.search(r"^first route: C10\d{3}( C10\d{3})+$", text, re.MULTILINE)
    hgs, model = map(float, re.findall(r"HGS ([\d.]+) min, the model ([\d.]+) min", text)[0])
    assert hgs <= model < alone
    for folder in ("monday", "model"):
        lines = json.loads((place.folder / folder / "routes.geojson").read_text())["features"]
        assert any(len(line["geometry"]["coordinates"]) > 14 for line in lines)  # more than the stops
