"""Files of addresses for tests: a fictional city of a few hundred, as a delivery company would export it."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "data"
CITY, MORE = FOLDER / "rivermouth.csv", FOLDER / "rivermouth-more.csv"
CUSTOMERS, ADDED = 300, 25
