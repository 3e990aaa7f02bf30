"""Store: a folder or a bucket whose files are written whole or not at all."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.storage.store.store import Store as Store
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
