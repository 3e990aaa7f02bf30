"""Settings and fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

# Several test processes share the cores: threads that spin while they wait take them from each other.
# Before anything imports torch or NumPy, which read it once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Ray's workers import the functions that tests hand them; the folder that the tests were started in is not
# on their path (`tasks.support.ray_session`).
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import pytest
from hypothesis import settings

from mcvrp.storage.store.store import Store
from tests.support.browser import browser
from tests.support.forked_members import forked_members
from tests.support.only_rank import only_rank
from tests.support.s3_proxy import proxy
from tests.support.s3_server import s3, s3_bucket, s3_uri
from tests.support.shared import shared_place

__all__ = ["browser", "forked_members", "only_rank", "proxy", "s3", "s3_bucket", "s3_uri", "shared_place"]

settings.register_profile("mcvrp", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("mcvrp")

# Whoever starts the tests in the background has Ctrl-C ignored, and so would all processes that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Minutes each: the test process that ended with such a file would keep the others waiting. The last one
# starts the S3 server, for which three processes would wait at once.
_FIRST = ("test_kills.py", "test_ui.py", "test_s3_settings.py")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


def pytest_collection() -> None:
    """Collect no garbage amid the imports, which leave none: the search takes a third of their time."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take longest, or start what others share, begin first."""
    folders = ("e2e", "integration", "properties", "unit")
    items.sort(key=lambda item: (item.path.name not in _FIRST, folders.index(item.nodeid.split("/")[1])))
    gc.freeze()
    gc.enable()
