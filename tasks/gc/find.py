"""Candidates of garbage collection: what in a store nobody needs any more; decides and removes nothing.

The rule of all areas: what an alias names or a rollback would go back to, what a run would go on
from, and what is younger than the grace period is never among the candidates; what cannot be read is
left to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import result_settings
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.models.attention import attention_card
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.errors import LeaseLost
from mcvrp.storage.store.store import Store, StoredFile, StoreError
from mcvrp.storage.training.checkpoints import STATE, CheckpointState, best_checkpoint, checkpoints
from mcvrp.tasks.gc.spec import RetentionSpec

_DAY, _HOUR = 86_400.0, 3600.0
_CHECKPOINT = re.compile(r"training/[^/]+/[^/]+/step-\d+")


@dataclass(frozen=True)
class Candidate:
    """Something that nobody needs: a file or a folder, what it holds, and why it may go."""

    kind: str
    path: str
    files: int
    bytes: int
    why: str

    @classmethod
    def of(cls, kind: str, path: str, files: Sequence[StoredFile], why: str) -> Candidate:
        """Return the candidate at ``path``, which consists of ``files``."""
        return cls(kind, path, len(files), sum(file.size for file in files), why)


@dataclass(frozen=True)
class Skipped:
    """Something that was not looked into, and why."""

    path: str
    why: str


Found = Iterator[Candidate | Skipped]


def or_skipped(path: str, found: Found) -> Found:
    """Yield what is ``found`` at ``path``, and that the rest is left to people where it cannot be read."""
    try:
        yield from found
    except McvrpError as error:
        if isinstance(error, StoreError) and not isinstance(error, LeaseLost):
            raise
        yield Skipped(path, str(error))


@dataclass(frozen=True)
class StoreView:
    """A store as it is ``now``, seconds since 1970 by its own clock, under a policy."""

    store: Store
    policy: RetentionSpec
    now: float

    def old(self, files: Sequence[StoredFile], seconds: float = 0.0) -> bool:
        """Return whether all ``files`` are older than the grace period and than ``seconds``."""
        limit = max(seconds, self.policy.grace_hours * _HOUR)
        return bool(files) and self.now - max(file.modified for file in files) > limit

    def aged(self, files: Sequence[StoredFile]) -> bool:
        """Return whether all ``files`` are older than ``keep_days``."""
        return self.old(files, self.policy.keep_days * _DAY)

    @cached_property
    def _cards(self) -> Sequence[tuple[ModelCard, bool]]:
        """The versions of all models, and whether each stays."""
        found: list[tuple[ModelCard, bool]] = []
        for name in self.store.folders("models"):
            going = {item.path for item in in_models(self, name) if isinstance(item, Candidate)}
            cards = (model_card(self.store, name, version) for version in versions(self.store, name))
            found += ((card, card.folder not in going) for card in cards)
        return found

    @cached_property
    def needed_names(self) -> frozenset[str]:
        """Names of runs and datasets of models that stay, of last nights and rounds, of their old labels."""
        names = {name for card, stays in self._cards if stays for name in (card.run, card.dataset)}
        for folder, record in layout.TRIAL_RECORDS.items():
            for model in self.store.folders(folder):
                files = self.store.files(f"{folder}/{model}")
                decided = [file for file in files if file.path.endswith(f"/{record}")]
                if decided:
                    last = max(decided, key=lambda file: file.modified)  # names are hashes, without order
                    document = self.store.get_json(last.path)
                    old = document.get("old") if isinstance(document, dict) else None
                    names |= {last.path.split("/")[-2], str(old)}
        return frozenset(names)

    def models_are_gone(self, run: str) -> bool:
        """Return whether ``run`` has published, and all that it has published is removed or may go."""
        fates = [stays for card, stays in self._cards if card.run == run]
        return not any(fates) and (bool(fates) or self.store.exists(layout.models_removed(run)))


def _by_folder(files: Iterable[StoredFile], depth: int) -> Iterator[tuple[str, list[StoredFile]]]:
    """Yield each folder (or file) of ``depth`` names and the files that it holds."""
    for path, group in groupby(files, lambda file: "/".join(file.path.split("/")[:depth])):
        yield path, list(group)


def in_training(view: StoreView, run: str) -> Found:
    """Yield the checkpoints of ``run`` that no training goes on from and no later phase begins with."""
    store, folder = view.store, layout.run_dir(run)
    ours = (layout.trainer_lease(run), layout.models_removed(run))
    there = [file for file in store.files(folder) if file.path not in ours]
    phases = [checkpoints(store, run, phase) for phase in store.folders(folder)]
    ended = all(states and states[-1].complete for states in phases)
    forgotten = ended and view.aged(there) and view.models_are_gone(run)
    why = "the models of this run are removed" if forgotten else "the phase has newer checkpoints"
    known = {state.folder for states in phases for state in states}
    kept = set() if forgotten else {state.folder for states in phases for state in _kept(view, states)}
    for path, files in _by_folder(there, 4):
        if not _CHECKPOINT.fullmatch(path) or path in kept or not view.old(files):
            continue
        if path in known:
            yield Candidate.of("checkpoint", path, files, why)
        elif any(file.path == f"{path}/{STATE}" for file in files):
            yield Skipped(path, "this program cannot read it")
        else:
            yield Candidate.of("half-written checkpoint", path, files, "its writer was stopped")


def _kept(view: StoreView, states: Sequence[CheckpointState]) -> list[CheckpointState]:
    if not states:
        return []
    # nobody goes on with a finished phase: its last weights begin the next one
    last = 1 if states[-1].complete else view.policy.keep_checkpoints
    return [*states[-last:], *best_checkpoint(states)]


def in_models(view: StoreView, name: str) -> Found:
    """Yield the versions of the model ``name`` that are neither new nor named by an alias."""
    return or_skipped(layout.models_dir(name), _in_model(view, name))


def _in_model(view: StoreView, name: str) -> Found:
    named, known = aliased(view.store, name), versions(view.store, name)
    newest = known[-view.policy.keep_models :]
    folders = dict(_by_folder(view.store.files(layout.models_dir(name)), 3))
    taken = sorted(number for path in folders if (number := layout.version_of(path)) is not None)
    for version in taken[:-1]:  # the last one, if half-written, is ended by the next publisher
        path = layout.model_dir(name, version)
        inside = folders.get(path, [])
        files = [file for file in inside if file.path != layout.model_removal(name, version)]
        begun = len(files) < len(inside)  # to remove it: that is ended
        if version in named or (version in newest and not begun) or (files and not view.old(files)):
            continue
        if version in known:
            why = f"no alias names it, {len(newest)} newer versions stay"
            yield Candidate.of("model", path, files, why)
        else:
            yield Candidate.of("half-written model", path, inside, "its writer was stopped")


def aliased(store: Store, name: str) -> set[int]:
    """Return the versions of the model ``name`` that an alias names, or that a rollback would lead to.

    Raises
    ------
    McvrpError
        If an alias cannot be read.
    """
    found: set[int] = set()
    folder = layout.models_dir(name)
    for path in store.list(folder):
        rest = path.removeprefix(f"{folder}/")
        if "/" not in rest and rest.endswith(".json"):
            here = pointer(store, name, rest.removesuffix(".json"))
            if here.version is not None:
                found.add(here.version)
            if rest == "champion.json":  # the only one that is ever rolled back
                there = (v for v in here.before if store.exists(layout.model_card(name, v)))
                found |= set(list(there)[:1])
    return found


def in_labels(view: StoreView, dataset: str) -> Found:
    """Yield the staged chunks of ``dataset`` whose rows are in shards, and what was taken out long ago."""
    for file in view.store.files(layout.corrupt_dir(dataset)):
        if view.aged([file]):
            why = f"corrupt, taken out of the dataset {view.policy.keep_days:g} days ago or more"
            yield Candidate.of("corrupt labels", file.path, [file], why)
    staged = [file for file in view.store.files(layout.staging_dir(dataset)) if layout.staged_rows(file.path)]
    for folder, files in _by_folder(staged, 4):
        n, old = layout.size_of(folder), [file for file in files if view.old([file])]
        if n is not None and old:
            yield from or_skipped(layout.staged_dir(dataset, n), _merged(view, dataset, n, old))


def _merged(view: StoreView, dataset: str, n: int, staged: Sequence[StoredFile]) -> Found:
    """Yield those of the chunks ``staged`` of size ``n`` of which every label is in a shard too."""
    labels = Dataset.open(view.store, dataset, trust=False)  # before anything goes, its shard is looked at
    there: set[int] = set()
    for shard in labels.shards(n, skip_corrupt=True):
        there |= _rows(shard)
    files = {file.path: file for file in staged}
    for chunk in labels.label_files(n, staged, skip_corrupt=True):
        if _rows(chunk) <= there:
            yield Candidate.of("staged labels", chunk.path, [files[chunk.path]], "its rows are in a shard")


def _rows(file: LabelFile) -> set[int]:
    return set(range(file.footer.row_start, file.footer.row_stop)) - set(file.footer.absent)


def in_attention(view: StoreView, name: str) -> Found:
    """Yield what of the attention models ``name`` no training goes on from and no benchmark decodes with."""
    for path, files in _by_folder(view.store.files(layout.attention_dir(name)), 3):
        if (n := layout.size_of(path)) is None:
            continue
        state = [file for file in files if file.path == layout.attention_training(name, n)]
        if attention_card(view.store, name, n) is not None:
            if view.old(state):
                yield Candidate.of("ended training", state[0].path, state, "its model is finished")
        elif view.old(files) and not state:
            yield Candidate.of("half-written attention model", path, files, "its writer was stopped")


def in_benchmarks(view: StoreView, run: str) -> Found:
    """Yield the parts of ``run`` with other settings than its results, and a run that never came to any."""
    store, folder = view.store, layout.benchmark_dir(run)
    there = store.files(folder)
    if not view.old(there):  # it may be at work, on parts that were there before
        return
    results = [file for file in there if file.path == layout.benchmark_results(run)]
    if not results:
        if view.aged(there):
            yield Candidate.of("benchmark without results", folder, there, "nobody has gone on with it")
        return
    used = tuple(f"{folder}/parts/{prefix}" for prefix in result_settings(store, run))
    for block, files in _by_folder((f for f in there if f.path.startswith(f"{folder}/parts/")), 4):
        stopped = max(file.modified for file in files) > results[0].modified  # before its own results
        if not block.startswith(used) and (view.aged(files) or not stopped):
            why = "made with other settings than the results"
            yield Candidate.of("benchmark parts", block, files, why)


def in_solutions(view: StoreView, name: str) -> Found:
    """Yield the solution ``name`` when it is old."""
    return _outdated(view, "solution", layout.solution_dir(name), view.policy.solution_days)


def in_quarantine(view: StoreView, name: str) -> Found:
    """Yield the rows of routes driven in the city ``name`` that no day took, when they are old."""
    return _outdated(view, "quarantined rows", layout.quarantine_dir(name), view.policy.quarantine_days)


def _outdated(view: StoreView, kind: str, path: str, days: float | None) -> Found:
    files = view.store.files(path)
    if days is not None and view.old(files, days * _DAY):
        yield Candidate.of(kind, path, files, f"older than {days:g} days")


def scraps(view: StoreView) -> Iterator[Candidate]:
    """Yield what writers that were killed have left, anywhere in the store."""
    for file in view.store.files("", hidden=True):
        name = file.path.rsplit("/", 1)[-1]
        if name.startswith(".") and name.endswith(".tmp") and view.old([file]):
            yield Candidate.of("half-written file", file.path, [file], "its writer was stopped")
