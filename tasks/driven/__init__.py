"""Driven routes: ingestion, validation and storage by day."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.driven.take import take_routes as take_routes
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
