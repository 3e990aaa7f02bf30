"""Weights of a published model: one safetensors file, whose checksum is in the card."""

from __future__ import annotations

import hashlib
import posixpath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.store.store import Store

MODEL_WEIGHTS = "model.safetensors"


def read_weights(store: Store, folder: str, sha256: str, hint: str) -> dict[str, NDArray[Any]]:
    """Return the weights in ``folder`` by parameter name, as writable arrays.

    Raises
    ------
    McvrpError
        If the file has not the checksum ``sha256``, or is not a safetensors file; ``hint`` is the remedy.
    """
    path = posixpath.join(folder, MODEL_WEIGHTS)
    data = store.get(path)
    checksum = hashlib.sha256(data).hexdigest()
    if checksum != sha256:
        raise McvrpError(
            f"{store.url(path)} is corrupt: its checksum is {checksum[:12]}, the card has {sha256[:12]}; "
            f"{hint}"
        )
    try:
        return {name: np.array(array) for name, array in load(data).items()}
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that NumPy does not have
        raise McvrpError(f"{store.url(path)} is not a safetensors file ({reason(error)}): {hint}") from error
