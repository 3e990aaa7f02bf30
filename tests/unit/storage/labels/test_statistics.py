"""Statistics of a size, joined from those of its files."""

from __future__ import annotations

import numpy as np
import pytest

from mcvrp.storage.labels.statistics import Moments


@pytest.mark.parametrize("sizes", [(25_000, 700, 9_000), (1, 2), (1,)])
def test_files_give_mean_and_deviation_of_all_values(sizes: tuple[int, ...]) -> None:
    """Also if files differ in size and scale."""
    rng = np.random.default_rng(1)
    parts = [rng.lognormal(k / 2, 1.0, size) * 10 for k, size in enumerate(sizes)]
    values = np.concatenate(parts)
    joined = Moments.joined([Moments.of(part) for part in parts])
    assert joined.rows == len(values)
    assert joined.mean == pytest.approx(values.mean(), rel=1e-12)
    assert joined.std == pytest.approx(values.std(ddof=1) if len(values) > 1 else 0.0, rel=1e-12)
