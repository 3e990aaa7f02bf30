import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from mcvrp.model.curriculum import Order
from mcvrp.tasks.train.batches import computed_tokens, micro_batches

Array = NDArray[np.int64]


@st.composite
def batches(draw: st.DrawFn) -> tuple[Array, Array, int]:
    """Return the sizes and path lengths of a batch, and its number of ranks."""
    ranks = draw(st.integers(1, 5))
    count = ranks * draw(st.integers(1, 12))
    sizes = np.array(draw(st.lists(st.integers(1, 30), min_size=count, max_size=count)))
    routes = np.array(draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)))
    return sizes, sizes + np.minimum(routes, sizes) + 1, ranks


@given(
    batch=batches(),
    order=st.sampled_from(["paper", "bucketed"]),
    tokens=st.none() | st.integers(1, 300),
)
def test_every_sample_is_in_one_micro_batch(
    batch: tuple[Array, Array, int], order: Order, tokens: int | None
) -> None:
    """Any limit: each sample once, equal shares, equally many pieces, no limit broken."""
    sizes, path_lengths, ranks = batch
    cut = micro_batches(sizes, path_lengths, ranks=ranks, order=order, tokens=tokens)
    everything = np.concatenate([piece for mine in cut for piece in mine]).tolist()
    if order == "paper":  # ranks take consecutive samples
        assert everything == list(range(len(sizes)))
    assert sorted(everything) == list(range(len(sizes)))
    assert len(cut) == ranks
    assert {sum(map(len, mine)) for mine in cut} == {len(sizes) // ranks}
    assert len({len(mine) for mine in cut}) == 1
    for piece in (piece for mine in cut for piece in mine):
        assert len(piece) >= 1
        cost = sum(computed_tokens(sizes[piece], path_lengths[piece]))
        assert tokens is None or cost <= tokens or len(piece) == 1
        assert order == "paper" or len(set(sizes[piece].tolist())) == 1


def test_the_largest_pieces_are_split_to_even_out_the_ranks() -> None:
    """A rank with one size splits it where another has two sizes."""
    sizes = np.array([20, 20, 20, 21, 22, 22, 22, 22])
    cut = micro_batches(sizes, sizes + 3, ranks=2, order="bucketed")
    assert [[piece.tolist() for piece in mine] for mine in cut] == [[[0, 1, 2], [3]], [[4, 5], [6, 7]]]
