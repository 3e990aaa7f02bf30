"""The end of `mcvrp verify`: what is wrong, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from mcvrp.flows.cli.verify import _text
from mcvrp.tasks.label.verify import FileFault, VerificationReport

CORRUPT = FileFault("a.parquet", "is no whole Parquet file")
DELETE, LABEL, REMOVE = "mcvrp verify d --delete", "mcvrp label", "remove one of these datasets"


@pytest.mark.parametrize(
    ("found", "problems", "remedies"),
    [
        ({"faults": (CORRUPT,), "missing": ((20, 0, 3),)}, "1 bad files, 3 labels", [DELETE, LABEL]),
        ({"faults": (CORRUPT,), "missing": ((20, 0, 3),), "deleted": True}, "1 bad files deleted", [LABEL]),
        ({"shared": ("instance (n=20, i=7) is ...",)}, "two splits", [REMOVE]),
        ({"missing": ((20, 0, 3),)}, "3 labels missing", [LABEL]),
        ({"absent": 2}, "2 instances that no attempt has solved", []),
    ],
)
def test_a_remedy_is_for_what_is_wrong(found: dict[str, Any], problems: str, remedies: list[str]) -> None:
    report = VerificationReport("d", 10, 2, **found)
    assert not report.good
    last = _text(report, 1.0).splitlines()[-1]
    assert problems in last
    for remedy in (DELETE, LABEL, REMOVE):
        assert (remedy in last) == (remedy in remedies)
