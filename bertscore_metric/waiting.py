"""Segments <-> byte tensors, one a text: so texts that wait for a full batch can be stored wherever tensors can."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertscore_metric.pairs import Segments

_CANDIDATE, _REFERENCE = b"\x00", b"\x01"
WAITING_BYTES = 2**17  # some 32,000 tokens, which fill a few well-planned batches


def to_bytes(segments: Segments) -> list[Tensor]:
    """Return one uint8 tensor a text: a byte that tells the side, then the text in UTF-8, each candidate first."""
    out = []
    references = iter(segments.references)
    for candidate, count in zip(segments.candidates, segments.reference_counts, strict=True):
        out.append(_tensor(_CANDIDATE, candidate))
        out.extend(_tensor(_REFERENCE, next(references)) for _ in range(count))
    return out


def from_bytes(texts: Sequence[Tensor]) -> Segments:
    """Return the segments that `to_bytes` made tensors of."""
    segments = Segments([], [], [])
    for text in texts:
        data = text.cpu().numpy().tobytes()
        if data[:1] == _CANDIDATE:
            segments.candidates.append(data[1:].decode())
            segments.reference_counts.append(0)
        else:
            segments.references.append(data[1:].decode())
            segments.reference_counts[-1] += 1
    return segments


def n_segments(texts: Sequence[Tensor]) -> int:
    """Return how many segments wait."""
    return sum(1 for text in texts if not text[0])


def n_bytes(segments: Segments) -> int:
    """Return how many bytes the texts have in UTF-8, which is a rough measure of their tokens in any script."""
    texts = (*segments.candidates, *segments.references)
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def concatenate(parts: Sequence[Segments]) -> Segments:
    """Join parts in order."""
    return Segments(
        [text for part in parts for text in part.candidates],
        [text for part in parts for text in part.references],
        [count for part in parts for count in part.reference_counts],
    )


def _tensor(side: bytes, text: str) -> Tensor:
    return torch.frombuffer(bytearray(side + text.encode()), dtype=torch.uint8)
