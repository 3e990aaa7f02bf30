"""Decoding strategies: greedy, nucleus sampling, beam search, behind one protocol.

Operates on scores and random numbers. Symbols in shapes: T nodes, G groups of S paths. A score of minus
infinity masks a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from mcvrp.model.errors import McvrpError

Extension = tuple[Tensor | None, Tensor, Tensor]  # parents, nodes and totals of the extended paths


class Strategy(Protocol):
    """Choice of the next nodes: all paths of a group are extended together, one node per step.

    ``kind`` is the abbreviation in tables, ``description`` a phrase for footnotes. A group has ``width``
    competing paths; with width 1, one independent path per sample. ``answers`` is the number of different
    solutions per instance and rotation, None if unlimited. Of competing paths in the same state only the
    cheapest is kept: the totals of the others become minus infinity.
    """

    @property
    def kind(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def answers(self) -> int | None: ...

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        """Return the initial totals, float64 ``(G, S)``: for a beam log-probabilities, -inf: no path yet."""
        ...

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        """Return the extended paths: parent (int64), node (int64) and total (float64) of each, ``(G, S)``.

        None instead of the parents if each path continues itself.

        Parameters
        ----------
        scores
            Scores after each path, ``(G, S, T)``; all masked for an ended path, which stays at node 0.
        totals
            Totals returned by `start` or the previous step, ``(G, S)``.
        uniforms
            Random numbers in [0, 1), float64 ``(G, S)``, a function of instance, sample and step.
        """
        ...

    def finish(self, paths: Tensor, totals: Tensor) -> Tensor:
        """Return ``paths``, int64 ``(G, S, L)``, in the order of answers."""
        ...


class Independent:
    """Strategies of width 1: each path is extended independently by `choose`."""

    width: ClassVar[int] = 1
    answers: ClassVar[int | None] = None

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node for ``scores`` ``(..., T)`` and ``uniforms`` ``(...)``, int64 ``(...)``."""
        raise NotImplementedError

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        return torch.zeros(groups, paths, dtype=torch.float64, device=device)

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        # an ended path stays at the depot
        return None, torch.where(scores.isneginf().all(-1), 0, self.choose(scores, uniforms)), totals

    def finish(self, paths: Tensor, totals: Tensor) -> Tensor:
        return paths


@dataclass(frozen=True)
class Greedy(Independent):
    """The most probable node at every step."""

    kind: ClassVar[str] = "GS"
    description: ClassVar[str] = "greedy decoding"
    answers: ClassVar[int | None] = 1

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        return scores.argmax(-1)


@dataclass(frozen=True)
class Nucleus(Independent):
    """Sampling from the smallest set of nodes with probability ``p`` (Sec. 4.4; Holtzman et al. 2020).

    The paper does not state ``p``; 1 keeps all nodes. Scores are divided by ``temperature`` before.
    McvrpError if ``p`` is not in (0, 1], or ``temperature`` not positive and finite.
    """

    p: float = 0.9
    temperature: float = 1.0
    kind: ClassVar[str] = "NS"

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise McvrpError(f"the share p of nucleus sampling must be in (0, 1], not {self.p}")
        if not 0 < self.temperature < float("inf"):
            raise McvrpError(f"a sampling temperature must be positive and finite, not {self.temperature}")

    @property
    def description(self) -> str:
        warmth = "" if self.temperature == 1 else f", temperature {self.temperature:g}"
        return f"nucleus sampling with p = {self.p:g}{warmth}"

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        score, node = scores.double().sort(stable=True, dim=-1, descending=True)
        probability = ((score - score[..., :1]) / self.temperature).softmax(-1)
        through = probability.cumsum(-1)
        kept = through - probability < self.p  # the sum before it is less than p
        through = (probability * kept).cumsum(-1)
        drawn = (through <= uniforms[..., None] * through[..., -1:]).sum(-1, keepdim=True)
        last = (kept & (probability > 0)).sum(-1, keepdim=True) - 1  # u times the sum may round to the sum
        return node.gather(-1, drawn.minimum(last.clamp_min(0)))[..., 0]


@dataclass(frozen=True)
class Beam:
    """Beam search: the ``width`` most probable paths, extended together.

    The first is always the greedy path, so a beam of width 1 is greedy decoding, and the best path is at
    least as probable as the greedy one, unless a cheaper path in the same state replaces it:
    dominance pruning (Kool et al. 2021, "Deep Policy Dynamic Programming") keeps only the cheapest of the
    paths with the same customers served, last node and load, as their feasible continuations are equal.
    McvrpError if ``width`` is below 1.
    """

    width: int
    kind: ClassVar[str] = "BS"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise McvrpError(f"a beam needs a width of at least 1, not {self.width}")

    @property
    def description(self) -> str:
        return f"beam search of width {self.width}, dominated paths left out"

    @property
    def answers(self) -> int:
        return self.width

    def start(self, groups: int, paths: int, device: torch.device) -> Tensor:
        totals = torch.full((groups, paths), -torch.inf, dtype=torch.float64, device=device)
        totals[:, 0] = 0.0
        return totals

    def extend(self, scores: Tensor, totals: Tensor, uniforms: Tensor) -> Extension:
        """Return the next beam: the greedy path (if dropped, the most probable) first, then by probability.

        An ended path stays at no cost. If there are fewer than S paths, the rest stay at node 0 with minus
        infinity.
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
        """Return the paths by descending probability, padded with the most probable one."""
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        order = torch.where(totals.isneginf(), order[:, :1], order)
        return paths.gather(1, order[..., None].expand_as(paths))
