"""Variables that `prepare` sets for libraries."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcvrp.flows.config.settings import prepare
from mcvrp.model.errors import McvrpError


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment afterwards."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.mark.parametrize(
    ("lower", "upper", "wanted"),
    [
        ({}, {}, "127.0.0.1,localhost"),
        ({"no_proxy": "corp"}, {}, "corp,127.0.0.1,localhost"),
        ({}, {"NO_PROXY": "corp,localhost"}, "corp,localhost,127.0.0.1"),
    ],
)
def test_no_proxy_leads_to_our_own_servers(lower: dict[str, str], upper: dict[str, str], wanted: str) -> None:
    """A command would wait for its server without end; libraries read one of the two names."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ.pop(name, None)
    os.environ |= lower | upper
    for _ in range(2):
        prepare(verbose=False)
        assert (os.environ["no_proxy"], os.environ["NO_PROXY"]) == (wanted, wanted)


def test_a_user_without_home_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    with pytest.raises(McvrpError, match="no home folder: set HOME"):
        prepare(verbose=False)


def test_libraries_write_elsewhere_if_the_home_folder_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that is the user's alone, the same for the next command; a variable that is set is kept."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: place != Path.home() and access(place, mode))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name in ("PREFECT_HOME", "MPLCONFIGDIR", "RAY_AUTH_TOKEN", "RAY_ADDRESS"):
        os.environ.pop(name, None)
    os.environ["MCVRP_CACHE"] = "/given"
    for _ in range(2):
        prepare(verbose=False)
        own = Path(os.environ.pop("PREFECT_HOME")).parent
        assert own.parent == tmp_path
        assert own.stat().st_mode & 0o777 == 0o700
        assert os.environ["MCVRP_CACHE"] == "/given"
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert len(list(tmp_path.iterdir())) == 1
    own.rmdir()
    own.symlink_to("/")
    prepare(verbose=False)
    assert Path(os.environ["PREFECT_HOME"]).parent not in (own, Path("/"))
