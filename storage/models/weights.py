"""Weights of a published model (a safetensors file whose checksum is in the card) and the network of them."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.storage.documents import as_document
from mcvrp.storage.store.store import Store

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp

MODEL_WEIGHTS = "model.safetensors"
Arrays = dict[str, NDArray[Any]]
_SHOWN = 110  # characters of the difference in an error message


def read_weights(store: Store, folder: str, sha256: str, hint: str) -> Arrays:
    """Return the weights in ``folder`` by parameter name, as writable arrays.

    McvrpError, with the remedy ``hint``, if there are none, the checksum is not ``sha256``, or it is not a
    safetensors file.
    """
    path = posixpath.join(folder, MODEL_WEIGHTS)
    if (data := store.find(path)) is None:
        raise McvrpError(f"there is no {store.url(path)}: {hint}")
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


def network_of_weights(card: Mapping[str, Any], weights: Arrays, where: str, hint: str) -> FmMcvrp:
    """Return the network with the fields ``card``, read from ``where``, and the parameters ``weights``.

    McvrpError if a field is missing, unknown or out of range, or the parameters have other names, shapes or
    types than the network's, or are not finite.
    """
    import torch  # here: listing and exporting models needs no torch, whose import takes seconds

    from mcvrp.model.network import FmMcvrp, NetworkConfig

    config = as_document(card, NetworkConfig, where, named="model's card", hint=hint)
    try:
        stored = sum(array.size for array in weights.values())
        if config.parameters() != stored:  # before it is built: a card may describe a network of any size
            raise McvrpError(
                f"its network has {config.parameters():,} parameters, the weights have {stored:,}"
            )
        network = FmMcvrp(config)
        for name, array in weights.items():
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise McvrpError(f"{shown(name)} is not float32, or has weights that are not finite")
        network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except (McvrpError, RuntimeError) as error:  # the latter for parameters of other names and shapes
        why = brief(str(error).splitlines()[-1].strip(), _SHOWN)
        raise McvrpError(f"{where} is no model's card ({why}): {hint}") from error
    return network.eval()
