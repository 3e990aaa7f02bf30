"""Weights of a finished model: one safetensors file beside the cards, which know its checksum."""

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
    """Return the weights in ``folder`` of ``store``, by parameter name, as arrays that may be changed.

    Raises
    ------
    McvrpError
        If they have not the checksum ``sha256``, or are no arrays; ``hint`` says how to make them again.
    """
    path = posixpath.join(folder, MODEL_WEIGHTS)
    data = store.get(path)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise McvrpError(
            f"{store.url(path)} is corrupt: its checksum is {found[:12]}, the card names {sha256[:12]}; "
            f"{hint}"
        )
    try:
        return {name: np.array(array) for name, array in load(data).items()}
    except (SafetensorError, KeyError) as error:  # KeyError: a type that NumPy does not have
        raise McvrpError(f"{store.url(path)} is no safetensors file ({reason(error)}): {hint}") from error
