"""What a dataset in the store says it is: its spec, and the city whose orders it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.work import LabelRecipe


@dataclass(frozen=True)
class Source:
    """The spec that a dataset was made from, and its city."""

    spec: LabelSpec
    city: City

    @cached_property
    def recipe(self) -> LabelRecipe:
        """What decides the labels."""
        return self.spec.recipe(self.city)

    @property
    def stream(self) -> InstanceStream:
        """The instances."""
        return InstanceStream(self.city, self.spec.seed, self.spec.split, self.spec.rules)


def stored_spec(store: Store, dataset: str) -> tuple[LabelSpec, str]:
    """Return the spec of the dataset ``dataset`` and the id of its city.

    Raises
    ------
    McvrpError
        If the spec is missing or corrupt.
    """
    path = layout.label_spec(dataset)
    there = store.get_json(path)
    try:
        fields = dict(there)
        city_id, _ = str(fields.pop("city_id")), fields.pop("schema_version")
        return LabelSpec.model_validate({**fields, "dataset": dataset}), city_id
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise McvrpError(
            f"{store.url(path)} is no spec of labels ({reason}): remove it, `mcvrp label` writes it again"
        ) from error
