"""Seconds to decode: ours against no cache, and against Hugging Face's T5 of equal dimensions.

Takes some minutes. One core, fp32, nucleus sampling with p = 0.9, one instance, random weights, seconds of
processor time. All three decode paths of the same length, that of our longest.

Without a cache, the whole path so far goes through the decoder at every step, and its last token is scored
over the instance's own nodes; the encoder and the problem's keys are still computed once, and nothing is
masked or drawn. T5 runs its own `generate`, with its cache and its own sampling over all classes, without a
mask: its paths are no solutions. With p = 1 it need not sort the classes.

The two are slow, and measured in part (marked ~). Without a cache: some steps of the path, evenly spaced,
times the number of all. T5: CAP tokens, its seconds in proportion if the path is longer, which flatters it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from transformers import T5ForConditionalGeneration

from mcvrp.model.decoding import Nucleus, decode
from mcvrp.model.features import CityTable, problem_features
from mcvrp.model.network import FmMcvrp, Memory
from mcvrp.model.problem import City, Instance
from tests.benchmarks.bench_t5 import NETWORK, t5_like
from tests.benchmarks.common import arguments, heading, instances_of, row

SIZES = (20, 100, 400)
SAMPLES = (1, 100)
P = 0.9
STEPS = 5  # of a path, that are measured without a cache
CAP = 130  # tokens that T5 is measured over
SECONDS = 1.0  # short runs are repeated for so long, and the shortest counts

T = TypeVar("T")


def main() -> None:
    arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, t5 = FmMcvrp(NETWORK).eval(), t5_like(NETWORK).eval()
    city = City.uniform(NETWORK.classes - 1, 1)
    table = CityTable.of(city)
    others = [part for name in ("no cache", "T5", "T5 with p = 1") for part in (f"{name}, s", "ratio")]
    heading("n", "s", "tokens", "ours, s", "samples/s", *others)
    for n in SIZES:
        (instance,) = instances_of(city, n, 1)
        for samples in SAMPLES:
            ours = partial(decode, model, city, [instance], strategy=Nucleus(P), samples=samples, table=table)
            cached, (decoded,) = measured(ours)
            tokens = decoded.paths.shape[1] - 1
            uncached = without_cache(model, table, instance, samples, tokens)
            theirs = min(tokens, CAP)
            scale, about = tokens / theirs, "~" if theirs < tokens else ""
            sorting, drawing = (scale * generating(t5, instance, samples, theirs, p) for p in (P, 1.0))
            cells = []
            for sign, slow in (("~", uncached), (about, sorting), (about, drawing)):
                cells += [f"{sign}{slow:.2f}", f"{slow / cached:.1f}"]
            row(n, samples, tokens, f"{cached:.2f}", f"{samples / cached:.1f}", *cells)


def measured(run: Callable[[], T]) -> tuple[float, T]:
    durations: list[float] = []
    while sum(durations) < SECONDS:
        began = time.process_time()
        result = run()
        durations.append(time.process_time() - began)
    return min(durations), result


@torch.inference_mode()
def without_cache(model: FmMcvrp, table: CityTable, instance: Instance, samples: int, tokens: int) -> float:
    """Return the seconds of a path of ``tokens`` when each step computes all that is before it."""
    ids = torch.from_numpy(instance.nodes)[None]
    demands = torch.zeros(ids.shape)
    problem = problem_features(table, ids, demands, torch.tensor([float(instance.capacity)]))
    nodes = model.encode(problem)
    shared, weights = model.memory(nodes), model.node_weights(ids, nodes)
    memory = Memory(
        [(k.expand(samples, -1, -1, -1), v.expand(samples, -1, -1, -1)) for k, v in shared.keys_values], None
    )
    path = torch.randint(ids.shape[1], (samples, tokens))
    solution = problem[0][path]  # (S, L, 9): which nodes they are costs nothing
    lengths = [round((k + 0.5) * tokens / STEPS) for k in range(STEPS)]

    def step(length: int) -> None:
        torch.matmul(model.decode(solution[:, :length], memory)[:, -1:], weights.transpose(1, 2))

    return tokens / STEPS * sum(measured(partial(step, length))[0] for length in lengths)


def generating(
    t5: T5ForConditionalGeneration, instance: Instance, samples: int, tokens: int, p: float
) -> float:
    """Return the seconds of T5's `generate` for ``samples`` paths of ``tokens``."""
    ids = torch.from_numpy(instance.nodes)[None]
    options = {"do_sample": True, "top_p": p, "top_k": 0, "num_return_sequences": samples}
    limits = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return measured(lambda: t5.generate(input_ids=ids, **options, **limits))[0]


if __name__ == "__main__":
    main()
