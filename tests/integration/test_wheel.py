"""The wheel: every file of the packages is in it, and it runs from where it is unpacked."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("model", "storage", "tasks", "flows")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"  # setuptools builds in the source's folder
    kept = ["src", *FLOORS, "pyproject.toml", "README.md", "LICENSE"]
    copy.mkdir()
    subprocess.run(["cp", "-a", *(str(ROOT / name) for name in kept), str(copy)], check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(copy)], check=True, capture_output=True)
    (wheel,) = folder.glob("mcvrp-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_every_file_of_the_packages_is_in_it(unpacked: Path) -> None:
    """Code, presets and templates; nothing of the tests, nothing beside `mcvrp`."""
    sources = [path for floor in FLOORS for path in (ROOT / floor).rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT)) for path in sources if "__pycache__" not in path.parts}
    package = unpacked / "mcvrp"
    packed = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    assert wanted <= packed
    assert packed - wanted == {"__init__.py", "face.py", "shared_array.py", "py.typed"}
    assert {path.name.split("-")[0] for path in unpacked.iterdir()} == {"mcvrp"}


def test_it_runs_from_where_it_is_unpacked(unpacked: Path, tmp_path: Path) -> None:
    code = "import mcvrp; print(mcvrp.__file__); from mcvrp.flows.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", code, "plan", "--preset", "paper"]
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    plan = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert plan.stdout.splitlines()[0] == str(unpacked / "mcvrp" / "__init__.py")
    assert "38,100,000" in plan.stdout
