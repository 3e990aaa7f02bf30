"""Variables that `prepare` sets for libraries."""

from __future__ import annotations

import os

import pytest

from mcvrp.flows.config.settings import prepare


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
