"""The card of a training run: README.md, spec and where each phase stands, with the picture of the losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model.problem import City
from storage import layout
from storage.checkpoints import latest_checkpoint
from storage.store import Store
from tasks.markdown import table
from tasks.train_figures import write_loss_grid
from tasks.train_spec import TrainSpec

_FILES = {
    "spec.json": "what the run was asked to do, as a preset has it",
    "metrics.json": "the figures above for programs",
    "losses.png": "the picture above",
    "PHASE/metrics.parquet": "losses, accuracies, learning rate, speed, a row a logged step",
    "PHASE/step-…/": "checkpoints: weights and Adam's moments (safetensors), `state.json` written last",
    "PHASE/events.out.tfevents.…": "the same metrics for TensorBoard, which is given this folder",
    "lease.json": "who is training just now, where somebody is",
}
# Of a row of metrics: name, heading, format.
_SHOWN = (
    ("problem_loss", "Problem loss", ".3f"),
    ("solution_loss", "Solution loss", ".3f"),
    ("greedy_gap", "Held-out gap (%)", ".2f"),
    ("tokens_per_second", "Tokens/s", ",.0f"),
)


@dataclass(frozen=True)
class PhaseStanding:
    """Where a phase stands by its last checkpoint: ``metrics`` is the row of its last step, {} before it."""

    phase: str
    step: int
    steps: int | None
    metrics: Mapping[str, Any]


def write_run_card(store: Store, city: City, spec: TrainSpec) -> None:
    """Write README.md, spec, metrics and the picture of the losses of the run of ``spec``."""
    standings = run_standings(store, spec)
    write_loss_grid(store, spec.run, [phase.name for phase in spec.phases])
    store.put_json(layout.run_spec(spec.run), spec.model_dump(mode="json"))
    document = {"city_id": city.city_id, "phases": [asdict(standing) for standing in standings]}
    store.put_json(layout.run_figures(spec.run), document)
    pictured = store.exists(layout.run_losses(spec.run))
    store.put(layout.run_card(spec.run), run_text(city, spec, standings, pictured=pictured).encode())


def run_standings(store: Store, spec: TrainSpec) -> list[PhaseStanding]:
    """Return where each phase of ``spec`` stands, in their order."""
    states = [(phase.name, latest_checkpoint(store, spec.run, phase.name)) for phase in spec.phases]
    return [
        PhaseStanding(name, state.step, state.steps, state.metrics)
        if state
        else PhaseStanding(name, 0, None, {})
        for name, state in states
    ]


def run_text(city: City, spec: TrainSpec, standings: Sequence[PhaseStanding], *, pictured: bool) -> str:
    """Return the card as Markdown; the picture is a link relative to it."""
    finished = all(standing.step == standing.steps for standing in standings)
    state = "Finished" if finished else "Not finished: the same command goes on from the last checkpoint"
    network = spec.network
    rows = [
        ["city", f"`{city.city_id}`"],
        ["labels", f"dataset `{spec.dataset}`"],
        ["model", f"`{spec.model}`" + (f", from `{spec.base}`" if spec.base else "")],
        [
            "network",
            f"{network.encoder_layers} + {network.decoder_layers} layers of {network.dim}, "
            f"{network.heads} heads, ff {network.ff}",
        ],
        ["batch", f"{spec.batch:,} samples, seed {spec.seed}"],
    ]
    if spec.held_out:
        rows.append(["watched by", f"dataset `{spec.held_out}`, every {spec.held_out_every:,} steps"])
    header = ["Phase", "Trains", "Customers", "Steps", "Learning rate", *(title for _, title, _ in _SHOWN)]
    phases = [
        [
            phase.name,
            "encoder" if phase.trains == "encoder" else "encoder and decoder",
            f"{spec.smallest} to {phase.last}",
            _steps(standing),
            f"{phase.schedule}, {phase.lr:g}",
            *(_figure(standing.metrics, name, form) for name, _, form in _SHOWN),
        ]
        for phase, standing in zip(spec.phases, standings, strict=True)
    ]
    parts = [f"# Training run `{spec.run}`", f"{state}.", table(["", ""], rows)]
    parts += ["## Phases", table(header, phases, right=True)]
    parts += ["Of the last step each; losses are nats a token."]
    parts += ["![Losses and held-out gap](losses.png)"] if pictured else []
    parts += ["## Files", table(["File", "Holds"], [[f"`{file}`", text] for file, text in _FILES.items()])]
    return "\n\n".join(parts) + "\n"


def _steps(standing: PhaseStanding) -> str:
    if standing.steps is None:
        return "not begun"
    done = f"{standing.step:,}"
    return done if standing.step == standing.steps else f"{done} of {standing.steps:,}"


def _figure(metrics: Mapping[str, Any], name: str, form: str) -> str:
    value = metrics.get(name)
    return "–" if value is None else f"{value:{form}}"
