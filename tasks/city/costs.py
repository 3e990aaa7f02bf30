"""Travel costs of a city from a .npy file; all errors are reported together."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import MOST_COST, is_cost
from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.tasks.files.file_bytes import Faults


def read_costs(name: str, data: bytes, ids: Sequence[str]) -> NDArray[np.float64]:
    """Return the travel costs between ``ids``, float64 ``(N, N)``, in their order.

    ``data`` of the file ``name`` is an array in NumPy's format in the order of ``ids``. McvrpError if it has
    another shape, naming every invalid cost.
    """
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # NumPy parses a corrupt header as Python, with any exception
        raise McvrpError(
            f"{name} is not a numeric array ({reason(error)}): write it with numpy.save"
        ) from error
    if array.shape != (len(ids), len(ids)):
        shape = " x ".join(map(str, array.shape))
        raise McvrpError(
            f"{name} has the shape {shape}, not {len(ids)} x {len(ids)}: give one row and column per "
            "address, the depot included"
        )
    if array.dtype.kind not in "fiu":
        raise McvrpError(f"{name} has dtype {array.dtype}, not numbers: save it as float64")
    costs: NDArray[np.float64] = array.astype(np.float64, copy=False)
    faults, wrong = Faults(name), ~is_cost(costs)
    np.fill_diagonal(wrong, np.diag(costs) != 0)
    expected = {True: "not 0", False: f"not a number from 0 to {MOST_COST:g}"}
    for a, b in np.argwhere(wrong):
        cost = f"{costs[a, b]:g}, {expected[bool(a == b)]}"
        faults.add(f"the cost from {shown(ids[a])} to {shown(ids[b])} is {cost}")
    faults.check()
    return costs
