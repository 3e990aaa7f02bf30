"""Attention of one query per head on a GPU, which is what decoding mostly does: bound by reading the keys.

PyTorch's kernels compute tiles of 128 queries, of which decoding has one. Import this on a GPU only: Triton
comes with PyTorch's CUDA packages. Symbols in shapes: B batch, H heads, T keys, K dimension of a head.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_KEYS = 64  # read at a time


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return softmax(q k^T / sqrt(K)) v, ``(B, H, 1, K)``, computed in fp32, without gradient.

    ``query`` is ``(B, H, 1, K)``, K a power of 2 of at least 16; ``key`` and ``value`` are ``(B, H, T, K)``
    with equal strides; ``mask`` is bool ``(B, 1, 1, T)``, True for visible keys, of which every row has one.
    """
    batch, heads, _, size = query.shape
    query, answer = query.contiguous(), torch.empty_like(query, memory_format=torch.contiguous_format)
    assert key.stride() == value.stride()
    assert key.stride(3) == 1
    # Triton starts kernels on the current device, not on that of their tensors.
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        _attend[(batch * heads,)](
            query,
            key,
            value,
            answer,
            key if mask is None else mask,
            *key.stride()[:3],
            0 if mask is None else mask.stride(0),
            heads,
            key.shape[2],
            size**-0.5,
            masked=mask is not None,
            size=size,
            keys=_KEYS,
            num_warps=2,
        )
    return answer


# "count" differs at every step.
@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    query, key, value, answer, mask, of_batch, of_head, of_key, of_mask, heads, count, scale,
    masked: tl.constexpr, size: tl.constexpr, keys: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # a head of an element of the batch
    at = row // heads * of_batch + row % heads * of_head
    within = tl.arange(0, size)
    q = tl.load(query + row * size + within).to(tl.float32) * scale
    highest, total = float("-inf"), 0.0
    found = tl.zeros([size], tl.float32)
    for start in range(0, count, keys):
        token = start + tl.arange(0, keys)
        here = token < count
        where = at + token[:, None] * of_key + within[None, :]
        k = tl.load(key + where, mask=here[:, None], other=0.0).to(tl.float32)
        v = tl.load(value + where, mask=here[:, None], other=0.0).to(tl.float32)
        if masked:
            here = here & (tl.load(mask + row // heads * of_mask + token, mask=here, other=0) != 0)
        score = tl.where(here, tl.sum(k * q[None, :], 1), float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 0))
        weight, before = tl.exp(score - higher), tl.exp(highest - higher)
        total = total * before + tl.sum(weight, 0)
        found = found * before + tl.sum(weight[:, None] * v, 0)
        highest = higher
    tl.store(answer + row * size + within, (found / total).to(answer.dtype.element_ty))
