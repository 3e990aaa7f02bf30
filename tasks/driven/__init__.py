"""Driven routes: files of fresh routes taken in, checked, stored as days."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.driven.take import take_routes as take_routes
else:
    __getattr__, __dir__ = lazy(__name__, take="take_routes")
