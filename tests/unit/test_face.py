"""The public names of mcvrp: every one is there, also for type checkers, and loads nothing until then."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mcvrp


def test_the_face_is_what_it_says() -> None:
    names = set(re.findall(r"\b(\w+) as \1\b", Path(mcvrp.__file__).read_text()))  # for type checkers
    assert names
    assert all(getattr(mcvrp, name) is not None for name in names)
    assert names <= set(dir(mcvrp))
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        getattr(mcvrp, "nothing_of_the_kind")  # noqa: B009


def test_the_package_is_imported_at_once() -> None:
    heavy = "{'torch', 'ray', 'prefect', 'pyarrow', 'numpy', 'pandas'}"
    code = f"import sys, mcvrp, mcvrp.tasks.label, mcvrp.storage; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
