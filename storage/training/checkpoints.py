"""Checkpoints of a training phase: weights and moments by parameter name, for any ranks and ZeRO stage.

A checkpoint has three files: `weights.safetensors`, `optimizer.safetensors` (both fp32) and `state.json`
with the checksums of the other two. `state.json` is written last: a folder without it is not a checkpoint.
Knows arrays, not networks.

Learning rate, order of the data, rotation and dropout are functions of the seed and the step, so they need
no state.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.provenance import Parent, Provenance
from mcvrp.storage.store.store import Store, StoreError

logger = logging.getLogger(__name__)

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_STEP = re.compile(r"step-(\d+)")

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Origin:
    """All that decides the result of a phase; training resumes from a checkpoint only if it is equal."""

    city_id: str
    fingerprint: str  # of the labels
    network: Mapping[str, Any]  # fields of the network's spec
    recipe: Mapping[str, Any]  # fields of the phase's spec, and of the run's that change the result
    parent: str  # checksum of the initial weights; "" for random ones

    def require(self, wanted: Origin, what: str, hint: str, section: str, fields: Container[str]) -> None:
        """Raise McvrpError, with the first difference, a field of ``section``, if this is not ``wanted``."""
        stored, current = _flat(self), _flat(wanted)
        names = [name for name in stored | current if stored.get(name) != current.get(name)]
        if names:
            name, more = names[0], f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            then, now = (values.get(name, "not set") for values in (stored, current))
            name = f"{section}.{name}" if name.split(".")[0] in fields else name
            raise McvrpError(f"{what} was trained with {name} = {then}, now it is {now}{more}: {hint}")


@dataclass(frozen=True)
class CheckpointState:
    """State of a phase after ``step`` of ``steps``; ``files`` has the checksum of each file."""

    run: str
    phase: str
    step: int
    steps: int
    adam_step: int
    origin: Origin
    metrics: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance | None = None

    @property
    def complete(self) -> bool:
        """True if the phase is finished."""
        return self.step == self.steps

    @property
    def folder(self) -> str:
        """Path of the checkpoint in the store."""
        return layout.checkpoint_dir(self.run, self.phase, self.step)

    @property
    def weights_sha256(self) -> str:
        """Checksum of the weights, which identifies them."""
        return self.files[WEIGHTS]

    @property
    def as_parent(self) -> Parent:
        """The phase with these weights, as the parent of an artifact."""
        return Parent(layout.phase_dir(self.run, self.phase), self.weights_sha256)


@dataclass(frozen=True)
class Moments:
    """Adam's first and second moments of every trained parameter."""

    exp_avg: Arrays
    exp_avg_sq: Arrays


def save_checkpoint(
    store: Store,
    state: CheckpointState,
    weights: Arrays,
    moments: Moments,
    keep: int = 2,
) -> CheckpointState:
    """Write a checkpoint, mark it complete, and return its state.

    The last ``keep`` checkpoints of the phase up to this one are kept, and the one with the lowest
    ``greedy_gap``. An interruption at any moment leaves the previous checkpoint. IncompleteError if the phase
    has a later checkpoint.
    """
    latest = latest_checkpoint(store, state.run, state.phase)
    if latest and latest.step > state.step:
        raise IncompleteError(
            f"{store.url(latest.folder)} has step {latest.step:,} of phase {state.phase} already, "
            f"so that step {state.step:,} is not saved: run again to resume from there"
        )
    named = {f"{f.name}.{name}": a for f in fields(moments) for name, a in getattr(moments, f.name).items()}
    arrays = {WEIGHTS: weights, OPTIMIZER: named}
    files = {name: _write(store, f"{state.folder}/{name}", a) for name, a in arrays.items()}
    state = replace(state, files=files)
    store.put_json(f"{state.folder}/{STATE}", asdict(state))
    _prune(store, state, keep)
    return state


def checkpoints(store: Store, run: str, phase: str) -> list[CheckpointState]:
    """Return the checkpoints of a phase, oldest first; folders without a valid state are ignored."""
    folder = layout.phase_dir(run, phase)
    paths = [path for path in store.list(folder) if path.endswith(f"/{STATE}")]
    states = [state for state in (_read_state(store, path) for path in paths) if state is not None]
    return sorted(states, key=lambda state: state.step)


def latest_checkpoint(store: Store, run: str, phase: str) -> CheckpointState | None:
    """Return the newest checkpoint of a phase, None without any."""
    return max(checkpoints(store, run, phase), key=lambda state: state.step, default=None)


def intact_checkpoint(store: Store, run: str, phase: str) -> CheckpointState | None:
    """Return the newest checkpoint whose files have their checksums, None without any.

    Newer ones are deleted, with a warning: only the owner of the run's lease may call this.
    """
    for state in reversed(checkpoints(store, run, phase)):
        try:
            for name in (WEIGHTS, OPTIMIZER):
                checkpoint_bytes(store, state, name)
            return state
        except StoreError:
            raise
        except McvrpError:
            logger.warning(f"{store.url(state.folder)} is corrupt: it is deleted, its predecessor counts")
            store.delete(f"{state.folder}/{STATE}")
            store.delete(state.folder)
    return None


def load_weights(store: Store, state: CheckpointState) -> Arrays:
    """Return the weights of a checkpoint; McvrpError if the file is corrupt."""
    return load(checkpoint_bytes(store, state, WEIGHTS))


def load_moments(store: Store, state: CheckpointState) -> Moments:
    """Return the optimizer's moments of a checkpoint; McvrpError if the file is corrupt."""
    arrays = load(checkpoint_bytes(store, state, OPTIMIZER))
    parts: dict[str, Arrays] = {f.name: {} for f in fields(Moments)}
    for key, array in arrays.items():
        kind, name = key.split(".", 1)
        parts[kind][name] = array
    return Moments(**parts)


def checkpoint_bytes(store: Store, state: CheckpointState, name: str) -> bytes:
    """Return the bytes of one file of a checkpoint, verified against its state."""
    path = f"{state.folder}/{name}"
    data = store.get(path)
    if (checksum := hashlib.sha256(data).hexdigest()) != state.files.get(name):
        raise McvrpError(
            f"{store.url(path)} is corrupt: its {len(data)} bytes have checksum {checksum[:12]}, not that of "
            f"{STATE}; delete {store.url(state.folder)} and run again to resume from the previous checkpoint"
        )
    return data


def _write(store: Store, path: str, arrays: Arrays) -> str:
    data = save({key: np.ascontiguousarray(a, dtype=np.float32) for key, a in arrays.items()})
    store.put(path, data)
    return hashlib.sha256(data).hexdigest()


def _read_state(store: Store, path: str) -> CheckpointState | None:
    try:
        state = read_document(store, path, CheckpointState, named="checkpoint", hint="remove it")
    except StoreError:  # a store that is silent may have the checkpoint
        raise
    except McvrpError:
        return None
    return state if path == f"{state.folder}/{STATE}" else None


def _prune(store: Store, newest: CheckpointState, keep: int) -> None:
    states = [s for s in checkpoints(store, newest.run, newest.phase) if s.step <= newest.step]
    kept = {state.folder for state in [*states[-keep:], *best_checkpoint(states)]}
    phase = layout.phase_dir(newest.run, newest.phase)
    steps = {f"{phase}/{m[0]}": int(m[1]) for m in map(_STEP.fullmatch, store.folders(phase)) if m}
    for folder in {folder for folder, step in steps.items() if step < newest.step} - kept:
        store.delete(f"{folder}/{STATE}")  # first, so that an interrupted deletion leaves no checkpoint
        store.delete(folder)


def best_checkpoint(states: Sequence[CheckpointState]) -> list[CheckpointState]:
    """Return the state with the lowest held-out gap, the newest of equals; [] if no gap was measured."""
    measured = [state for state in states if state.metrics.get("greedy_gap") is not None]
    return sorted(measured, key=lambda state: (state.metrics["greedy_gap"], -state.step))[:1]


def _flat(origin: Origin) -> dict[str, Any]:
    network = {f"network.{name}": value for name, value in origin.network.items()}
    values = {"fingerprint of the labels": origin.fingerprint, **network, **origin.recipe}
    return values | {"weights to start from": origin.parent}
