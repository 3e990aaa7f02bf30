"""Checkpoints of a training phase: weights and moments by parameter name, whatever ranks and ZeRO stage.

Three files a checkpoint: `weights.safetensors`, `optimizer.safetensors` (both fp32) and
`state.json`, which holds the sizes and checksums of the other two and is written when these have
been read back: a folder without it is no checkpoint. Knows arrays, not networks.

The state's step is all there is to say about learning rate, order of the data, rotation and
dropout: each of them is a function of the seed and the step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.versions import CHECKPOINT, TooNew

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_PIECE = 2**24  # bytes of one request to verify a file; as a whole it may not fit beside the arrays
_STEP = re.compile(r"step-(\d+)")

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Origin:
    """Origin of a checkpoint: training goes on from it only where all of this is the same.

    ``network`` and ``recipe`` hold the fields of the network's and the phase's
    specification; ``parent`` is the checksum of the weights that the phase began with, ""
    for the first phase.
    """

    city_id: str
    fingerprint: str
    network: Mapping[str, Any]
    recipe: Mapping[str, Any]
    parent: str

    def require(self, wanted: Origin, city: City, what: str, hint: str) -> None:
        """Raise McvrpError if this, of ``what``, is not ``wanted``; names the first difference.

        What was trained for a city that ``city`` extends goes on for ``city``.
        """
        mine, theirs = _flat(self), _flat(wanted)
        if city.accepts(self.city_id):
            mine["city"] = wanted.city_id
        names = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
        if names:
            name, more = names[0], f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            then, now = (values.get(name, "not set") for values in (mine, theirs))
            raise McvrpError(f"{what} was trained with {name} = {then}, now it is {now}{more}: {hint}")


@dataclass(frozen=True)
class FileFacts:
    """Size and checksum of a file of a checkpoint."""

    bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.bytes} bytes with checksum {self.sha256[:12]}"


@dataclass(frozen=True)
class CheckpointState:
    """State of a phase after ``step`` of its ``steps``; ``files`` has the facts of each file."""

    run: str
    phase: str
    step: int
    steps: int
    adam_step: int
    origin: Origin
    metrics: Mapping[str, Any]
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    format: int = CHECKPOINT.version

    @property
    def complete(self) -> bool:
        """Return whether the phase is finished."""
        return self.step == self.steps

    @property
    def folder(self) -> str:
        """The checkpoint's path in the store."""
        return layout.checkpoint_dir(self.run, self.phase, self.step)

    @property
    def weights_sha256(self) -> str:
        """The checksum of the weights, which names them."""
        return self.files[WEIGHTS].sha256


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
    confirm: Callable[[], None] = lambda: None,
) -> CheckpointState:
    """Write a checkpoint, verify what the store has of it, mark it, and return its state.

    Of the phase's checkpoints up to this one the last ``keep`` stay, and the one with the lowest
    ``greedy_gap`` in its metrics; the others go. Whoever is stopped on the way leaves the
    checkpoint before.

    Parameters
    ----------
    confirm
        Raises if another has taken over (`Lease.confirm`); called before each change of the store,
        as writing gigabytes takes longer than a lease lasts.

    Raises
    ------
    IncompleteError
        If the phase has a later checkpoint.
    McvrpError
        If the store gives back other bytes than it took.
    """
    confirm()
    latest = latest_checkpoint(store, state.run, state.phase)
    if latest and latest.step > state.step:
        raise IncompleteError(
            f"{store.url(latest.folder)} has step {latest.step:,} of phase {state.phase} already, "
            f"so that step {state.step:,} is not saved: run again to go on from there"
        )
    names = {f"{f.name}.{name}": a for f in fields(moments) for name, a in getattr(moments, f.name).items()}
    written: dict[str, FileFacts] = {}
    for name, arrays in ((WEIGHTS, weights), (OPTIMIZER, names)):
        data = save({key: np.ascontiguousarray(a, dtype=np.float32) for key, a in arrays.items()})
        written[name] = _facts(data)
        confirm()
        store.put(f"{state.folder}/{name}", data)
        del data  # gigabytes
        # before the state vouches for them: a disk may have taken other bytes than it was given
        _verify_stored(store, f"{state.folder}/{name}", written[name])
    state = replace(state, files=written)
    confirm()
    store.put_json(f"{state.folder}/{STATE}", asdict(state))
    confirm()
    _prune(store, state, keep)
    return state


def checkpoints(store: Store, run: str, phase: str) -> list[CheckpointState]:
    """Return the checkpoints of a phase, oldest first; folders without a valid state are not among them.

    Raises
    ------
    TooNew
        If one was written by a newer version of this program.
    """
    folder = layout.phase_dir(run, phase)
    found = [path for path in store.list(folder) if path.endswith(f"/{STATE}")]
    states = [state for state in (_read_state(store, path) for path in found) if state is not None]
    return sorted(states, key=lambda state: state.step)


def latest_checkpoint(store: Store, run: str, phase: str) -> CheckpointState | None:
    """Return the newest checkpoint of a phase, None when there is none."""
    return next(iter(reversed(checkpoints(store, run, phase))), None)


def load_weights(store: Store, state: CheckpointState) -> Arrays:
    """Return the weights of a checkpoint.

    Raises
    ------
    McvrpError
        If the file is not the one that was written.
    """
    return load(checkpoint_bytes(store, state, WEIGHTS))


def load_moments(store: Store, state: CheckpointState) -> Moments:
    """Return Adam's moments of a checkpoint; raises as `load_weights` does."""
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
    if (found := _facts(data)) != state.files[name]:
        raise McvrpError(
            f"{store.url(path)} is corrupt: {found}, expected {state.files[name]}; delete "
            f"{store.url(state.folder)} and run again to go on from the checkpoint before it"
        )
    return data


def _facts(data: bytes) -> FileFacts:
    return FileFacts(len(data), hashlib.sha256(data).hexdigest())


def _verify_stored(store: Store, path: str, expected: FileFacts) -> None:
    digest = hashlib.sha256()
    with store.open_input(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
        found = FileFacts(stream.tell(), digest.hexdigest())
    if found != expected:
        raise McvrpError(
            f"{store.url(path)} does not hold what was written: {found}, expected {expected}; "
            "check the disk or the server, then run again to go on from the checkpoint before it"
        )


def _read_state(store: Store, path: str) -> CheckpointState | None:
    try:
        state = read_document(store, path, CheckpointState, CHECKPOINT, named="checkpoint", hint="remove it")
        whole = all(
            store.size(f"{state.folder}/{name}") == state.files[name].bytes for name in (WEIGHTS, OPTIMIZER)
        )
    except (StoreError, TooNew):  # no answer is not the answer that there is none
        raise
    except (McvrpError, KeyError):
        return None
    mine = state.format == CHECKPOINT.version and path == f"{state.folder}/{STATE}"
    return state if mine and whole else None


def _prune(store: Store, newest: CheckpointState, keep: int) -> None:
    states = [s for s in checkpoints(store, newest.run, newest.phase) if s.step <= newest.step]
    kept = {state.folder for state in [*states[-keep:], *best_checkpoint(states)]}
    phase = layout.phase_dir(newest.run, newest.phase)
    steps = {f"{phase}/{m[0]}": int(m[1]) for m in map(_STEP.fullmatch, store.folders(phase)) if m}
    for folder in {folder for folder, step in steps.items() if step < newest.step} - kept:
        store.delete(f"{folder}/{STATE}")  # first: what is left of a deletion is no checkpoint
        store.delete(folder)


def best_checkpoint(states: Sequence[CheckpointState]) -> list[CheckpointState]:
    """Return the state with the lowest held-out gap, of several the newest; [] where none has one."""
    measured = [state for state in states if state.metrics.get("greedy_gap") is not None]
    return sorted(measured, key=lambda state: (state.metrics["greedy_gap"], -state.step))[:1]


def _flat(origin: Origin) -> dict[str, Any]:
    values = {"city": origin.city_id, "fingerprint of the labels": origin.fingerprint}
    for group in ("network", "recipe"):
        values |= {f"{group}.{name}": value for name, value in getattr(origin, group).items()}
    return values | {"weights to start from": origin.parent}
