"""The check that no instance of a benchmark is one that the model was trained on."""

from __future__ import annotations

from model.errors import McvrpError
from model.instances import InstanceStream
from model.problem import City
from storage.overlap import Keys, dataset_keys
from storage.store import Store
from tasks.benchmark_spec import BenchmarkSpec


def require_unseen(store: Store, city: City, spec: BenchmarkSpec, dataset: str) -> None:
    """Compare the test instances of ``spec`` with those of ``dataset``, at the sizes that both have.

    Of the labels only customers, demands and capacities are read; where the dataset is no longer
    in the store there is nothing to compare with.

    Raises
    ------
    McvrpError
        Naming the first test instance that is in the dataset.
    """
    stream = InstanceStream(city, spec.seed, "test", spec.rules)
    for n, count in spec.counts.items():
        trained = dataset_keys(store, dataset, n)
        if not len(trained.index):
            continue
        tested = Keys.of((i, stream(n, i)) for i in range(count))
        ours, theirs = tested.shared(trained)
        if len(ours):
            first = int(ours.argmin())
            raise McvrpError(
                f"{len(ours):,} of {count:,} test instances of n={n} are in the training data, the first "
                f"is (n={n}, i={ours[first]}), instance (n={n}, i={theirs[first]}) of dataset {dataset!r}: "
                "train on another split, or give the benchmark another seed"
            )
