"""What in a store nobody needs any more, area by area; decides and removes nothing.

The rule of all areas: what an alias names or a rollback would go back to, what a run would go on
from, and what is younger than the grace period is never among the candidates; what cannot be read is
left to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import part_keys, result_keys
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.files import LabelFile
from mcvrp.storage.models.attention import attention_card
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.lease import active_holder
from mcvrp.storage.store.store import Store, StoredFile, StoreError
from mcvrp.storage.training.checkpoints import STATE, CheckpointState, best_checkpoint, checkpoints
from mcvrp.tasks.gc.spec import RetentionSpec

_DAY, _HOUR = 86_400.0, 3600.0
_STEP = re.compile(r"step-\d+")
TRIALS = {"nights": "night.json", "rounds": "round.json"}  # folders by model, and what ends a trial


@dataclass(frozen=True)
class Candidate:
    """Something that nobody needs: a file or a folder, what it holds, and why it may go."""

    kind: str
    path: str
    files: int
    bytes: int
    why: str


@dataclass(frozen=True)
class Skipped:
    """Something that was not looked into, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class StoreView:
    """A store as it is ``now``, seconds since 1970 by its own clock, under a policy.

    With ``held``, the lease of what is looked at is our own.
    """

    store: Store
    policy: RetentionSpec
    now: float
    held: bool = False

    def old(self, files: Sequence[StoredFile], seconds: float = 0.0) -> bool:
        """Whether all ``files`` are older than the grace period and than ``seconds``."""
        limit = max(seconds, self.policy.grace_hours * _HOUR)
        return bool(files) and self.now - max(file.modified for file in files) > limit

    def aged(self, files: Sequence[StoredFile]) -> bool:
        """Whether all ``files`` are older than ``keep_days``."""
        return self.old(files, self.policy.keep_days * _DAY)

    @cached_property
    def _cards(self) -> Sequence[tuple[ModelCard, bool]]:
        """The versions of all models, and whether each stays."""
        found: list[tuple[ModelCard, bool]] = []
        for name in self.store.folders("models"):
            going = {
                candidate.path for candidate in in_models(self, name) if isinstance(candidate, Candidate)
            }
            cards = (model_card(self.store, name, version) for version in versions(self.store, name))
            found += ((card, card.folder not in going) for card in cards)
        return found

    @property
    def staying(self) -> list[ModelCard]:
        """The versions of models that stay."""
        return [card for card, stays in self._cards if stays]

    @cached_property
    def last_trials(self) -> frozenset[str]:
        """Names of the last night and round of each model, and of the datasets of their old labels."""
        names: set[str] = set()
        for folder, record in TRIALS.items():
            for model in self.store.folders(folder):
                files = self.store.files(f"{folder}/{model}")
                decided = [file for file in files if file.path.endswith(f"/{record}")]
                if decided:
                    last = max(decided, key=lambda file: file.modified)
                    document = self.store.get_json(last.path)
                    old = document.get("old") if isinstance(document, dict) else None
                    names |= {last.path.split("/")[-2], str(old)}
        return frozenset(names)

    def published(self, run: str) -> tuple[int, int]:
        """Return how many versions of models that ``run`` has made stay, and how many may go."""
        fates = [stays for card, stays in self._cards if card.run == run]
        return sum(fates), len(fates) - sum(fates)

    def busy(self, path: str, lease: str) -> Skipped | None:
        """Return that somebody else holds ``lease``, if that may be."""
        holder = None if self.held else active_holder(self.store, lease, self.now)
        return Skipped(path, f"in use by {holder}") if holder else None


Found = Iterator[Candidate | Skipped]


def _candidate(kind: str, path: str, files: Sequence[StoredFile], why: str) -> Candidate:
    return Candidate(kind, path, len(files), sum(file.size for file in files), why)


# Training --------------------------------------------------------------------------------------


def in_training(view: StoreView, run: str) -> Found:
    """Yield the checkpoints of ``run`` that no training goes on from and no later phase begins with."""
    store, folder = view.store, layout.run_dir(run)
    if busy := view.busy(folder, layout.trainer_lease(run)):
        yield busy
        return
    ours = (layout.trainer_lease(run), layout.models_removed(run))
    there = [file for file in store.files(folder) if file.path not in ours]
    phases = {phase: checkpoints(store, run, phase) for phase in store.folders(folder)}
    ended = all(states and states[-1].complete for states in phases.values())
    forgotten = ended and view.aged(there) and _models_are_gone(view, run)
    why = "the models of this run are removed" if forgotten else "the phase has newer checkpoints"
    for phase, states in phases.items():
        kept = set() if forgotten else {state.folder for state in _kept(view, states)}
        for path, files in _step_folders(layout.phase_dir(run, phase), there):
            whole = any(file.path == f"{path}/{STATE}" for file in files)
            known = any(state.folder == path for state in states)
            if path in kept or not view.old(files):
                continue
            if not whole:
                yield _candidate("half-written checkpoint", path, files, "its writer was stopped")
            elif known:
                yield _candidate("checkpoint", path, files, why)
            else:
                yield Skipped(path, "this program cannot read it")


def _kept(view: StoreView, states: Sequence[CheckpointState]) -> list[CheckpointState]:
    if not states:
        return []
    last = 1 if states[-1].complete else view.policy.keep_checkpoints
    return [*states[-last:], *best_checkpoint(states)]


def _step_folders(phase: str, files: Sequence[StoredFile]) -> Iterator[tuple[str, list[StoredFile]]]:
    inside = [file for file in files if file.path.startswith(f"{phase}/")]

    def folder(file: StoredFile) -> str:
        return file.path.removeprefix(f"{phase}/").split("/")[0]

    for name, group in groupby(sorted(inside, key=folder), folder):
        if _STEP.fullmatch(name):
            yield f"{phase}/{name}", list(group)


def _models_are_gone(view: StoreView, run: str) -> bool:
    """Whether the run has published, and all that it has published is removed or may go."""
    stay, go = view.published(run)
    return not stay and (go > 0 or view.store.exists(layout.models_removed(run)))


# Models ----------------------------------------------------------------------------------------


def in_models(view: StoreView, name: str) -> Found:
    """Yield the versions of the model ``name`` that are neither new nor named by an alias."""
    store, folder = view.store, layout.models_dir(name)
    there = store.files(folder)
    try:
        named = aliased(store, name)
        known = versions(store, name)
    except StoreError:
        raise
    except McvrpError as error:
        yield Skipped(folder, str(error))
        return
    taken = sorted({int(number) for file in there if (number := file.path.split("/")[2]).isdigit()})
    newest = known[-view.policy.keep_models :]
    for version in taken[:-1]:  # the last one, if half-written, is ended by the next publisher
        path = layout.model_dir(name, version)
        mark = layout.model_removal(name, version)
        inside = [file for file in there if file.path.startswith(f"{path}/")]
        files = [file for file in inside if file.path != mark]
        begun = len(files) < len(inside)  # to remove it: that is ended
        if version in named or (version in newest and not begun) or (files and not view.old(files)):
            continue
        if version in known:
            yield _candidate("model", path, files, f"no alias names it, {len(newest)} newer versions stay")
        else:
            yield _candidate("half-written model", path, inside, "its writer was stopped")


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


# Labels ----------------------------------------------------------------------------------------


def in_labels(view: StoreView, dataset: str) -> Found:
    """Yield the staged chunks of ``dataset`` whose rows are in shards, and what was taken out long ago."""
    store = view.store
    staged = [file for file in store.files(layout.staging_dir(dataset)) if layout.staged_rows(file.path)]
    out = store.files(layout.corrupt_dir(dataset))
    if not staged and not out:
        return
    if busy := view.busy(layout.label_dir(dataset), layout.driver_lease(dataset)):
        yield busy
        return
    for file in out:
        if view.aged([file]):
            why = f"corrupt, taken out of the dataset {view.policy.keep_days:g} days ago or more"
            yield _candidate("corrupt labels", file.path, [file], why)
    for n, files in groupby(staged, lambda file: layout.size_of(file.path.rsplit("/", 1)[0])):
        ages = {file.path: file for file in files if view.old([file])}
        if n is None or not ages:
            continue
        try:
            needless = _merged(Dataset.open(store, dataset, trust=False), n, list(ages.values()))
        except StoreError:
            raise
        except McvrpError as error:
            yield Skipped(layout.staged_dir(dataset, n), str(error))
            continue
        for path in needless:
            yield _candidate("staged labels", path, [ages[path]], "its rows are in a shard")


def _merged(dataset: Dataset, n: int, staged: Sequence[StoredFile]) -> list[str]:
    """Return those of the chunks ``staged`` of size ``n`` of which every label is in a shard too."""
    there: set[int] = set()
    for shard in dataset.shards(n, skip_corrupt=True):
        there |= _rows(shard)
    chunks = dataset.label_files(n, staged, skip_corrupt=True)
    return [chunk.path for chunk in chunks if _rows(chunk) <= there]


def _rows(file: LabelFile) -> set[int]:
    return set(range(file.footer.row_start, file.footer.row_stop)) - set(file.footer.absent)


# Benchmarks, solutions, quarantine ---------------------------------------------------------------


def in_benchmarks(view: StoreView, run: str) -> Found:
    """Yield the parts of ``run`` from which none of its results is, and runs that never came to results."""
    store, folder = view.store, layout.benchmark_dir(run)
    there = store.files(folder)
    if not view.old(there):  # it may be at work, on parts that were there before
        return
    if not store.exists(layout.benchmark_results(run)):
        if view.aged(there):
            yield _candidate("benchmark without results", folder, there, "nobody has gone on with it")
        return
    blocks = groupby(
        (file for file in there if file.path.startswith(f"{folder}/parts/")),
        lambda file: "/".join(file.path.split("/")[:4]),
    )
    try:
        used = result_keys(store, run)
        for block, files in [(block, list(files)) for block, files in blocks]:
            if all(used.isdisjoint(part_keys(store, file.path)) for file in files):
                yield _candidate("benchmark parts", block, files, "made with other settings than the results")
    except StoreError:
        raise
    except McvrpError as error:
        yield Skipped(folder, str(error))


def in_solutions(view: StoreView, name: str) -> Found:
    """Yield the solution ``name`` when it is old."""
    yield from _outdated(view, "solution", layout.solution_dir(name), view.policy.solution_days)


def in_quarantine(view: StoreView, name: str) -> Found:
    """Yield the rows of routes driven in the city ``name`` that no day took, when they are old."""
    yield from _outdated(view, "quarantined rows", layout.quarantine_dir(name), view.policy.quarantine_days)


def _outdated(view: StoreView, kind: str, path: str, days: float | None) -> Found:
    files = view.store.files(path)
    if days is not None and view.old(files, days * _DAY):
        yield _candidate(kind, path, files, f"older than {days:g} days")


def scraps(view: StoreView) -> Iterator[Candidate]:
    """Yield what writers that were killed have left, anywhere in the store."""
    for file in view.store.files("", hidden=True):
        name = file.path.rsplit("/", 1)[-1]
        if name.startswith(".") and name.endswith(".tmp") and view.old([file]):
            yield _candidate("half-written file", file.path, [file], "its writer was stopped")


# Leftovers of attention models


def in_attention(view: StoreView, name: str) -> Found:
    """Yield what of the attention models ``name`` no training goes on from and no benchmark decodes with."""
    folder = layout.attention_dir(name)
    if busy := view.busy(folder, layout.attention_lease(name)):
        yield busy
        return
    for n in filter(None, map(layout.size_of, view.store.folders(folder))):
        path, training = layout.attention_size_dir(name, n), layout.attention_training(name, n)
        files = view.store.files(path)
        state = [file for file in files if file.path == training]
        if attention_card(view.store, name, n) is None:
            if view.old(files) and not state:
                size = sum(file.size for file in files)
                yield Candidate(
                    "half-written attention model", path, len(files), size, "its writer was stopped"
                )
        elif view.old(state):
            yield Candidate("ended training", training, 1, state[0].size, "its model is finished")
