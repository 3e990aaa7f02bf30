"""Projection of degrees to metres: a transverse Mercator projection centred on the city.

It is true to scale along its central meridian. At x metres to the east or west, lengths are too large by
x^2 / 2 R^2 (R: radius of the Earth): 0.0003 % at 15 km, 0.03 % at 150 km, the edge of the widest city.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyproj import Transformer

WIDEST = 300.0  # maximum width of a city in kilometres
_CENTRE_DIGITS = 4  # decimals of the centre in degrees, about 10 m
_MILLIMETRES = 3  # decimals of a metre: beyond them versions of PROJ differ, and with them the city's id
_EARTH = 6371.0  # radius in kilometres


def centred(lonlat: NDArray[np.float64]) -> str:
    """Return the PROJ string of the projection centred on ``lonlat`` ``(N, 2)``."""
    lon, lat = lonlat.T
    east = _from(lon[0], lon)  # the city may cross the antimeridian
    lon_0 = (lon[0] + (east.min() + east.max()) / 2 + 180) % 360 - 180
    lat_0 = (lat.min() + lat.max()) / 2
    return (
        f"+proj=tmerc +lat_0={_degrees(lat_0)} +lon_0={_degrees(lon_0)} +k=1 +x_0=0 +y_0=0 "
        "+ellps=WGS84 +units=m +no_defs"
    )


def to_metres(projection: str, lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``lonlat`` ``(N, 2)`` in metres to the east and north, ``(N, 2)``, rounded to millimetres."""
    x, y = _transformer(projection).transform(lonlat[:, 0], lonlat[:, 1])
    return np.round(np.column_stack([x, y]), _MILLIMETRES) + 0.0  # no -0.0


def kilometres(lonlat: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances of ``lonlat`` ``(N, 2)`` from ``centre`` ``(2,)`` on a sphere, ``(N,)``."""
    lon, lat = np.radians(lonlat).T
    lon_0, lat_0 = np.radians(centre)
    half = np.sin((lat - lat_0) / 2) ** 2 + np.cos(lat) * np.cos(lat_0) * np.sin((lon - lon_0) / 2) ** 2
    return 2 * _EARTH * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def median_place(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median longitude and latitude of ``lonlat``, ``(2,)``."""
    lon = lonlat[:, 0]
    east = float(np.median(_from(lon[0], lon)))
    return np.array([(lon[0] + east + 180) % 360 - 180, float(np.median(lonlat[:, 1]))])


def _from(lon_0: float, lon: NDArray[np.float64]) -> NDArray[np.float64]:
    return (lon - lon_0 + 180) % 360 - 180


def _degrees(value: float) -> str:
    return f"{round(value, _CENTRE_DIGITS) + 0.0:.{_CENTRE_DIGITS}f}"


@lru_cache(maxsize=16)
def _transformer(projection: str) -> Transformer:
    from pyproj import CRS, Transformer  # slow import

    degrees = CRS.from_proj4("+proj=longlat +ellps=WGS84 +no_defs")
    return Transformer.from_crs(degrees, CRS.from_proj4(projection), always_xy=True)
