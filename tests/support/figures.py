"""Pictures as arrays."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread

from mcvrp.tasks.support.pictures import png


def pixels(figure: Figure) -> np.ndarray:
    return imread(io.BytesIO(png(figure)), format="png")


def drawn(figure: Figure) -> float:
    """The share of pixels that are not white."""
    return float((pixels(figure)[..., :3].min(axis=-1) < 0.95).mean())
