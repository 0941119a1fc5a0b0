"""Segments <-> one flat tensor of bytes: so texts that wait for a full batch can be stored wherever columns can."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from bertscore_metric.core.pairs import Segments

_CANDIDATE, _REFERENCE = 0xFE, 0xFF  # what stands before a text and tells its side; UTF-8 has no such bytes
_SIDES = re.compile(b"([\xfe\xff])")


def to_bytes(segments: Segments) -> Tensor:
    """Return the texts as bytes [byte] uint8: each candidate, then its references, each behind the byte of its side."""
    candidate, reference = bytes([_CANDIDATE]), bytes([_REFERENCE])
    references = iter(segments.references)
    pieces = []
    for text, count in zip(segments.candidates, segments.reference_counts, strict=True):
        pieces += [candidate, text.encode()]
        for _ in range(count):
            pieces += [reference, next(references).encode()]
    data = bytearray(b"".join(pieces))
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def from_bytes(data: Tensor) -> Segments:
    """Return the segments that `to_bytes` made bytes of, part after part.

    Raises:
        ValueError: it made no such bytes.
    """
    before, *pieces = _SIDES.split(data.cpu().numpy().tobytes())
    segments = Segments([], [], [])
    for side, text in zip(pieces[::2], pieces[1::2], strict=True):
        if side[0] == _CANDIDATE:
            segments.candidates.append(text.decode())
            segments.reference_counts.append(0)
        else:
            segments.references.append(text.decode())
            if segments.candidates:
                segments.reference_counts[-1] += 1
    counts = segments.reference_counts
    if before or 0 in counts or sum(counts) != len(segments.references):
        raise ValueError("These bytes are no waiting segments: each must be a candidate and its references.")
    return segments


def n_segments(parts: Sequence[Tensor]) -> int:
    """Return how many segments wait in bytes that come in parts."""
    return sum(int((part == _CANDIDATE).sum()) for part in parts)
