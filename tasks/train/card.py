"""Card of a training run: README.md, spec and where each phase stands, with the picture of the losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.markdown import render
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint
from mcvrp.tasks.train.curves import write_loss_grid
from mcvrp.tasks.train.spec import TrainSpec


@dataclass(frozen=True)
class PhaseState:
    """Progress of a phase by its last checkpoint: ``metrics`` is the row of its last step, {} before it."""

    phase: str
    step: int
    steps: int | None
    metrics: Mapping[str, Any]

    @property
    def progress(self) -> str:
        """The steps that are done, of how many where some are left."""
        if self.steps is None:
            return "not begun"
        return f"{self.step:,}" if self.step == self.steps else f"{self.step:,} of {self.steps:,}"


def write_run_card(store: Store, city: City, spec: TrainSpec) -> None:
    """Write README.md, spec, metrics and the picture of the losses of the run of ``spec``."""
    states = phase_states(store, spec)
    write_loss_grid(store, spec.run, [phase.name for phase in spec.phases])
    store.put_json(layout.run_spec(spec.run), spec.model_dump(mode="json"))
    document = {"city_id": city.city_id, "phases": [asdict(state) for state in states]}
    store.put_json(layout.run_figures(spec.run), document)
    pictured = store.exists(layout.run_losses(spec.run))
    store.put(layout.run_card(spec.run), run_text(city, spec, states, pictured=pictured).encode())


def phase_states(store: Store, spec: TrainSpec) -> list[PhaseState]:
    """Return where each phase of ``spec`` stands, in their order."""
    states = [(phase.name, latest_checkpoint(store, spec.run, phase.name)) for phase in spec.phases]
    return [
        PhaseState(name, state.step, state.steps, state.metrics) if state else PhaseState(name, 0, None, {})
        for name, state in states
    ]


def run_text(city: City, spec: TrainSpec, states: Sequence[PhaseState], *, pictured: bool) -> str:
    """Return the card as Markdown; the picture is a link relative to it."""
    return render(
        "mcvrp.tasks.train",
        "run.md.j2",
        city=city,
        spec=spec,
        phases=list(zip(spec.phases, states, strict=True)),
        finished=all(state.step == state.steps for state in states),
        pictured=pictured,
    )
