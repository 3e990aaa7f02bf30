"""Files of addresses for tests: a fictional city of a few hundred, as a delivery company would export it.

`python -m tests.support.address_files` writes the files in tests/data again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "data"
CITY, MORE = FOLDER / "rivermouth.csv", FOLDER / "rivermouth-more.csv"
CUSTOMERS, ADDED = 300, 25
_CENTRE = (47.3127, 8.0512)  # latitude, longitude; no such town is there
_STREETS = ("Mill", "Harbour", "Church", "Station", "Garden", "Market", "School", "Bridge", "Park", "Quarry")
_SUBURBS = ((0.0, 0.0, 1.1), (3.5, 1.8, 0.7), (-2.8, 3.1, 0.6), (1.2, -4.0, 0.9), (-4.4, -2.2, 0.5))  # km


def lonlat(count: int, seed: int) -> NDArray[np.float64]:
    """Return ``count`` places around five suburbs, in degrees, ``(count, 2)``."""
    rng = np.random.default_rng(seed)
    east, north, spread = np.array(_SUBURBS)[rng.integers(len(_SUBURBS), size=count)].T
    east, north = (axis + spread * rng.standard_normal(count) for axis in (east, north))
    lat = _CENTRE[0] + north / 111.2
    lon = _CENTRE[1] + east / (111.2 * np.cos(np.radians(_CENTRE[0])))
    return np.round(np.column_stack([lon, lat]), 6)


def lines(count: int, seed: int, first: int) -> list[str]:
    """Return rows of a file: id, street, lat, lon, depot."""
    rng = np.random.default_rng(seed)
    return [
        f"C{first + k:05d},{rng.choice(_STREETS)} Street {rng.integers(1, 120)},{lat:.6f},{lon:.6f},0"
        for k, (lon, lat) in enumerate(lonlat(count, seed).tolist())
    ]


def main() -> None:
    """Write both files; the depot is in the middle of the first, as exports are sorted by anything."""
    header, depot = (
        "id,street,lat,lon,depot",
        f"DEPOT,Quarry Road 1,{_CENTRE[0]:.6f},{_CENTRE[1] + 0.02:.6f},1",
    )
    city = lines(CUSTOMERS, seed=1, first=1)
    half = CUSTOMERS // 2
    CITY.write_text("\n".join([header, *city[:half], depot, *city[half:]]) + "\n", encoding="utf-8")
    MORE.write_text("\n".join([header, *lines(ADDED, seed=2, first=CUSTOMERS + 1)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
