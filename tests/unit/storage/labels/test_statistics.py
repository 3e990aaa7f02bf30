"""Statistics of a size, merged from the samples of its files."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from mcvrp.storage.labels.statistics import Sample, Spread, merged_spread


def test_small_shards_give_the_spread_of_all_values() -> None:
    parts = [np.random.default_rng(k).gamma(2.0, size=size) for k, size in enumerate((512, 1, 0, 40))]
    assert merged_spread([Sample.of(part) for part in parts]) == Spread.of(
        np.concatenate([np.sort(part) for part in parts])
    )


@pytest.mark.parametrize("whole", [False, True])
def test_large_shards_keep_mean_deviation_and_extremes(whole: bool) -> None:
    """Percentiles have the rank of their name, to 0.2 %, also if files differ in size and scale."""
    rng = np.random.default_rng(1)
    parts = [rng.lognormal(k / 2, 1.0, size) * 10 for k, size in enumerate((25_000, 700, 9_000))]
    if whole:
        parts = [part.astype(np.int64) for part in parts]
    samples, values = [Sample.of(part) for part in parts], np.concatenate(parts)
    assert sum(len(sample.values) for sample in samples) < len(values) / 20
    merged, true = merged_spread(samples), Spread.of(values)
    for name in ("mean", "std", "min", "max"):
        assert getattr(merged, name) == pytest.approx(asdict(true)[name], rel=1e-12)
    assert sum(merged.counts) == len(values)
    for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        value = getattr(merged, name)
        assert (values < value).mean() - 0.002 <= share <= (values <= value).mean() + 0.002
