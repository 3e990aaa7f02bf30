"""Tests of errors: what they say, in one line."""

from __future__ import annotations

import errno
import os

import pytest

from mcvrp.model.errors import McvrpError, reason


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("one\ntwo"), "one"),
        (McvrpError("\n  a line below an empty one"), "a line below an empty one"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/file"), os.strerror(errno.ENOSPC)),
        (TimeoutError(), "TimeoutError"),  # what says nothing is named by its kind
        (ValueError(" \n "), "ValueError"),
    ],
)
def test_the_reason_is_one_line_whatever_the_error(error: BaseException, said: str) -> None:
    """The first line with words in it, the system's own words before a path, and never nothing."""
    assert reason(error) == said
