"""Strategies of decoding: greedy, sampling from the likeliest nodes, beam search, behind one protocol.

Knows scores and random numbers, neither networks nor instances. Symbols in shapes: T nodes to
choose from, G groups of S paths. A score of minus infinity forbids a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from mcvrp.model.errors import McvrpError

Extension = tuple[Tensor | None, Tensor, Tensor]  # parents, nodes and totals of the next paths


class Strategy(Protocol):
    """Choice of the next nodes: all paths of a group are extended together, a node a step.

    ``kind`` is its abbreviation in tables, ``description`` the strategy in words. A group has
    ``width`` paths that compete with each other; where that is 1, it has as many paths as samples
    are asked for, each decoded as if it were alone. ``answers`` says how many different solutions
    there are of an instance in one rotation, None where there is no end of them. With ``dominance``, a
    path gives way to a cheaper one of its group in the same state: what is kept of it becomes minus infinity.
    """

    @property
    def kind(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def answers(self) -> int | None: ...
    @property
    def dominance(self) -> bool: ...

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        """Return what is kept of each path, float64 ``(G, S)``: of a beam its log-probability.

        A path with minus infinity is not there yet.
        """
        ...

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        """Return the next paths: which path each continues, with which node, and what is kept of it.

        Parameters
        ----------
        scores
            ``(G, S, T)`` after each path; all forbidden where it has ended: it stays at node 0.
        totals
            As `start` and the step before returned it.
        uniforms
            Random numbers in [0, 1), float64 ``(G, S)``, a function of instance, sample and step.

        Returns
        -------
        tuple
            int64, int64 and float64, ``(G, S)`` each; None in place of the first where each path
            continues itself.
        """
        ...

    def finish(self, paths: Tensor, totals: Tensor) -> Tensor:
        """Return ``paths``, int64 ``(G, S, L)``, in the order in which they are answers."""
        ...


class Independent:
    """Beams of width 1: each path goes on by itself, with the node that `choose` names."""

    width: ClassVar[int] = 1
    answers: ClassVar[int | None] = None
    dominance: ClassVar[bool] = False

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node for ``scores`` ``(..., T)`` and ``uniforms`` ``(...)``, int64 ``(...)``."""
        raise NotImplementedError

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        """Return zeros, as nothing is kept."""
        return torch.zeros(groups, paths, dtype=torch.float64, device=device)

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        """Return the chosen nodes; a path with nothing left to do stays."""
        return None, torch.where(scores.isneginf().all(-1), 0, self.choose(scores, uniforms)), totals

    def finish(self, paths: Tensor, totals: Tensor) -> Tensor:
        """Return the paths as they are."""
        return paths


@dataclass(frozen=True)
class Greedy(Independent):
    """The most probable node at every step."""

    kind: ClassVar[str] = "GS"
    description: ClassVar[str] = "greedy decoding"
    answers: ClassVar[int | None] = 1

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node with the largest of ``scores`` ``(..., T)``, int64 ``(...)``."""
        return scores.argmax(-1)


@dataclass(frozen=True)
class Sampling(Independent):
    """A draw from the likeliest nodes: of the ``k`` most probable, the smallest set with share ``p``.

    Parameters
    ----------
    p
        Share of the probability that is kept, after ``k``; 1 keeps all (nucleus sampling, Holtzman et
        al. 2020).
    k
        How many nodes are kept, None for all (top-k sampling, Fan et al. 2018).
    temperature
        What scores are divided by, before ``k`` and ``p``.

    Raises
    ------
    McvrpError
        If ``p`` is not in (0, 1], ``k`` below 1, or ``temperature`` not positive and finite.
    """

    p: float = 1.0
    k: int | None = None
    temperature: float = 1.0
    kind: ClassVar[str] = "NS"

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise McvrpError(f"the share p of nucleus sampling must be in (0, 1], not {self.p}")
        if self.k is not None and self.k < 1:
            raise McvrpError(f"top-k sampling needs at least one node, not k = {self.k}")
        if not 0 < self.temperature < float("inf"):
            raise McvrpError(f"the temperature of sampling must be positive, not {self.temperature}")

    @property
    def description(self) -> str:
        """The strategy in words, what is left at its neutral value unsaid."""
        top_k = [] if self.k is None else [f"k = {self.k}"]
        warmth = [] if self.temperature == 1 else [f"temperature {self.temperature:g}"]
        return f"nucleus sampling with {', '.join([f'p = {self.p:g}', *top_k, *warmth])}"

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node that ``uniforms`` ``(...)`` in [0, 1) draw from ``scores``, int64 ``(...)``."""
        score, node = scores.double().sort(stable=True, dim=-1, descending=True)
        score = score[..., : self.k]
        probability = ((score - score[..., :1]) / self.temperature).softmax(-1)
        through = probability.cumsum(-1)
        kept = through - probability < self.p  # those before it hold less than p
        through = (probability * kept).cumsum(-1)
        drawn = (through <= uniforms[..., None] * through[..., -1:]).sum(-1, keepdim=True)
        last = (kept & (probability > 0)).sum(-1, keepdim=True) - 1  # u of the whole may round to the whole
        return node.gather(-1, drawn.minimum(last.clamp_min(0)))[..., 0]


@dataclass(frozen=True)
class Nucleus(Sampling):
    """Nucleus sampling, the paper's (Sec. 4.4); it names no ``p``."""

    p: float = 0.9


@dataclass(frozen=True)
class Beam:
    """Beam search: the ``width`` most probable paths, extended together.

    The first of them is always the greedy path, whatever its probability, so that a beam of width 1 is
    greedy decoding, and the best path is never less probable than it; with ``dominance``, until a
    cheaper path in the same state takes its place.

    Parameters
    ----------
    width
        How many paths.
    dominance
        Whether, of paths that have served the same customers, stand at the same node and have the same
        load, only the cheapest goes on (Kool et al. 2021, "Deep Policy Dynamic Programming"): they have the
        same routes before them, and the beam has room for others.

    Raises
    ------
    McvrpError
        If ``width`` is below 1.
    """

    width: int
    dominance: bool = True
    kind: ClassVar[str] = "BS"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise McvrpError(f"a beam needs a width of at least 1, not {self.width}")

    @property
    def description(self) -> str:
        """The strategy in words."""
        return f"beam search of width {self.width}{', dominated paths left out' if self.dominance else ''}"

    @property
    def answers(self) -> int:
        """All its paths."""
        return self.width

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        """Return the log-probabilities of the empty paths: one each group, the others not yet there."""
        totals = torch.full((groups, paths), -torch.inf, dtype=torch.float64, device=device)
        totals[:, 0] = 0.0
        return totals

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        """Return the next beam: the greedy path first, then in descending order of probability.

        Where the greedy path is not there any more, the most probable one takes its place. A path that has
        ended stays, which costs nothing. Where there are fewer paths than S, the rest stays at node 0 with
        minus infinity.
        """
        nodes = scores.shape[2]
        log_probability = scores.double().log_softmax(-1)
        ended = torch.isneginf(scores).all(-1)
        stay = torch.full((nodes,), -torch.inf, dtype=torch.float64, device=scores.device)
        stay[0] = 0.0
        candidates = torch.where(ended[..., None], stay, log_probability) + totals[..., None]  # (G, S, T)
        flat = candidates.flatten(1)
        greedy = candidates[:, 0].argmax(-1, keepdim=True)  # path 0 is the first in `flat`
        greedy = torch.where(totals[:, :1].isneginf(), flat.argmax(-1, keepdim=True), greedy)
        chosen = flat.scatter(1, greedy, torch.inf).topk(scores.shape[1], dim=1).indices  # (G, S)
        totals = flat.gather(1, chosen)
        node = torch.where(totals.isneginf(), 0, chosen % nodes)
        return chosen // nodes, node, totals

    def finish(self, paths: Tensor, totals: Tensor) -> Tensor:
        """Return the paths, most probable first, and that one again where there is none."""
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        order = torch.where(totals.isneginf(), order[:, :1], order)
        return paths.gather(1, order[..., None].expand_as(paths))
