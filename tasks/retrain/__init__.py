"""Retraining on fresh routes (nights) or improved labels (rounds), with comparison and promotion."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.retrain.improve import run_round as run_round
    from mcvrp.tasks.retrain.nightly import run_night as run_night
    from mcvrp.tasks.retrain.spec import ImproveSpec as ImproveSpec, NightlySpec as NightlySpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
