"""History of a benchmarked model, as far as it is in the store: labels, training phases, settings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import CheckpointState, latest_checkpoint
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.label.spec import LabelSpec, stored_spec
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.train.card import Phase, begun_phases

_TO_STORE = "../.."  # from the folder of a benchmark


@dataclass(frozen=True)
class History:
    """Model card, manifest and spec of the labels, last checkpoints and metrics of the training phases."""

    card: ModelCard | None
    manifest: Mapping[str, Any] | None
    labels: LabelSpec | None
    checkpoints: Mapping[str, CheckpointState]
    losses: Sequence[Phase]
    links: Sequence[tuple[str, str]]

    def stages(self, city: City) -> Iterator[tuple[str, str]]:
        """Yield name and summary of the stages before the benchmark."""
        costs = "straight lines" if city.matrix is None else "costs from a matrix"
        yield "City", f"{city.customers:,} customers and a depot, {costs}; id {city.city_id}"
        if self.manifest:
            yield "Labels", _labels(self.manifest)
        for phase, frame in self.losses:
            yield f"Phase {phase}", _phase(frame)

    def labelled_by(self, sizes: Iterable[int]) -> dict[int, str]:
        """Return the configuration of the solver of the labels by size; {} if unknown."""
        spec = self.labels
        if spec is None or (solver := SOLVERS.get(spec.solver)) is None:
            return {}
        with contextlib.suppress(McvrpError):  # the solver is not installed on this machine
            options = {n: budget_for(spec.chosen_budget, n).options() for n in sizes}
            return {n: solver.make(**options[n], fleet=spec.fleet).configuration for n in options}
        return {}

    def configuration(self, spec: BenchmarkSpec) -> str:
        """Return all settings as JSON."""
        settings: dict[str, Any] = {}
        if self.manifest and self.manifest.get("spec"):
            settings["label"] = self.manifest["spec"]
        if self.card:
            phases = {name: dict(state.origin.recipe) for name, state in self.checkpoints.items()}
            settings["train"] = {"network": dict(self.card.network), "phases": phases}
        settings["benchmark"] = spec.model_dump(mode="json")
        return json.dumps(settings, indent=2)


def read_history(store: Store, card: ModelCard | None) -> History:
    if card is None:
        return History(None, None, None, {}, (), ())
    path = layout.manifest(card.dataset)
    manifest = store.get_json(path) if store.exists(path) else None
    phases = {
        name: state
        for name in _phases(store, card.run)
        if (state := latest_checkpoint(store, card.run, name))
    }
    losses = begun_phases(store, card.run, list(phases))
    links = _links(store, card, [name for name, _ in losses])
    return History(card, manifest, _label_spec(store, card.dataset), phases, losses, links)


def _label_spec(store: Store, dataset: str) -> LabelSpec | None:
    """Return the spec of the labels, None if they have no spec, as a night's."""
    if not store.exists(layout.label_spec(dataset)):
        return None
    try:
        return stored_spec(store, dataset)[0]
    except StoreError:
        raise
    except McvrpError:  # optional in a report
        return None


def _links(store: Store, card: ModelCard, phases: Sequence[str]) -> list[tuple[str, str]]:
    of_labels = (layout.card, layout.manifest, layout.label_spec)
    paths = [
        *(f"{card.folder}/{name}" for name in ("README.md", "model.json", "model.safetensors")),
        *(path(card.dataset) for path in of_labels),
        layout.run_losses(card.run),
        *(layout.phase_metrics(card.run, phase) for phase in phases),
    ]
    return [(f"{_TO_STORE}/{quote(path)}", path) for path in paths if store.exists(path)]


def _phases(store: Store, run: str) -> list[str]:
    """Return the names of a run's phases; I, II-A, II-B, II-C sort in order."""
    depth = layout.run_dir(run).count("/") + 1
    return sorted(
        {path.split("/")[depth] for path in store.list(layout.run_dir(run)) if path.count("/") > depth}
    )


def _labels(manifest: Mapping[str, Any]) -> str:
    spec = manifest.get("spec") or {}
    text = f"{manifest['rows']:,} solved instances"
    if "smallest" in spec and "largest" in spec:
        text += f" of {spec['smallest']} to {spec['largest']} customers"
    if spec.get("solver"):
        text += f" by {spec['solver']}"
    if spec.get("budget"):
        text += f", budget {spec['budget']}"
    elif spec.get("iterations"):
        text += f", {spec['iterations']} iterations without improvement"
    elif spec.get("time_limit"):
        text += f", {spec['time_limit']:g} s each"
    return f"{text}; {manifest['bytes'] / 1e6:,.1f} MB"


def _phase(frame: pd.DataFrame) -> str:
    last = frame.iloc[-1]
    text = f"{int(last['step']):,} steps; "
    parts = [
        f"{stream} tokens: loss {last[f'{stream}_loss']:.3f}, "
        f"accuracy {100 * last[f'{stream}_accuracy']:.1f} %"
        for stream in ("problem", "solution")
        if pd.notna(last[f"{stream}_loss"])
    ]
    return text + "; ".join(parts)
