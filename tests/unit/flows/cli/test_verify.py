"""The end of `mcvrp verify`: what is wrong, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from mcvrp.flows.cli.verify import _text
from mcvrp.storage.labels.verification import FileFault, VerificationReport

CORRUPT = FileFault("a.parquet", "0" * 64, "no whole Parquet file")
UNLISTED = FileFault("b.parquet", "", "it is listed in shards.pq but does not exist")
SHARED = FileFault("a.parquet", "", "it is instance (n=20, i=7) of dataset 't'", 20, 0, 5)
REPAIR, REMOVE = "mcvrp label repairs dataset 'd'", "remove one of the datasets that share instances"


@pytest.mark.parametrize(
    ("found", "problems", "remedies"),
    [
        ({"faults": (CORRUPT, SHARED)}, "2 faults in 1 files", [REPAIR, REMOVE]),
        ({"faults": (UNLISTED,)}, "1 faults in 1 files", [REPAIR]),
        ({"faults": (SHARED,)}, "1 faults in 1 files", [REMOVE]),
        ({"missing": ((20, 0, 3),)}, "3 labels missing", [REPAIR]),
        ({"faults": (SHARED,), "missing": ((20, 0, 3),)}, "3 labels missing", [REPAIR, REMOVE]),
    ],
)
def test_a_remedy_is_for_what_is_wrong(found: dict[str, Any], problems: str, remedies: list[str]) -> None:
    """Labelling again keeps good rows, whatever other dataset has them, too."""
    report = VerificationReport("d", "", "", 10, 2, **{"faults": (), "missing": (), **found})
    last = _text(report, 1.0).splitlines()[-1]
    assert problems in last
    assert last.endswith(f": {'; '.join(remedies)}")
