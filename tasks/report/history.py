"""History of a benchmarked model, as far as it is in the store: settings, solver of its labels, files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.parsing import parse_json
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.registry import SOLVERS

_TO_STORE = "../.."  # from the folder of a benchmark


def labelled_by(store: Store, card: ModelCard | None, sizes: Iterable[int]) -> dict[int, str]:
    """Return the configuration of the solver of the model's labels by size; {} if it is unknown.

    It is unknown without a model, if its labels have no spec, as those of a night, if the spec is damaged, or
    if the solver is not installed on this machine.
    """
    if card is None or not store.exists(layout.label_spec(card.dataset)):
        return {}
    try:
        spec, _ = stored_spec(store, card.dataset)
        solver = SOLVERS[spec.solver]  # KeyError: of a plugin that is not installed here
        options = {n: budget_for(spec.chosen_budget, n).options() for n in sizes}
        return {n: solver.make(**options[n], fleet=spec.fleet).configuration for n in options}
    except StoreError:
        raise
    except (McvrpError, KeyError):
        return {}


def configuration(store: Store, card: ModelCard | None, spec: BenchmarkSpec) -> str:
    """Return the specs of labels, training and benchmark as JSON; those that are missing are left out."""
    paths = {"label": layout.label_spec(card.dataset), "train": layout.run_spec(card.run)} if card else {}
    settings: dict[str, Any] = {}
    for name, path in paths.items():
        with contextlib.suppress(ValueError):  # damaged, which a report can do without
            if data := store.find(path):
                settings[name] = parse_json(data)
    return json.dumps(settings | {"benchmark": spec.model_dump(mode="json")}, indent=2)


def files_of(store: Store, card: ModelCard | None) -> list[tuple[str, str]]:
    """Return address, relative to the benchmark, and path of the files that tell of the model's origin."""
    if card is None:
        return []
    paths = (
        *(f"{card.folder}/{name}" for name in ("README.md", "model.json", "model.safetensors")),
        *(path(card.dataset) for path in (layout.card, layout.manifest, layout.label_spec)),
        *(path(card.run) for path in (layout.run_card, layout.run_spec, layout.run_losses)),
    )
    return [(f"{_TO_STORE}/{quote(path)}", path) for path in paths if store.exists(path)]
