"""Token ids of texts and segments, ragged, and the padded batch that an encoder is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.core.windows import WindowRule, window_positions


@dataclass(frozen=True)
class TokenBatch:
    """A padded batch for an encoder: `ids` [text, token] int64, `attention_mask` and `special_tokens_mask` bool.

    Example:
        >>> ids = torch.tensor([[101, 2023, 102], [101, 102, 0]])     # [CLS] this [SEP], and [CLS] [SEP] with padding
        >>> batch = TokenBatch(ids, ids != 0, (ids == 101) | (ids == 102) | (ids == 0))
        >>> (~batch.special_tokens_mask).sum(1).tolist()              # tokens of text
        [1, 0]
    """

    ids: Tensor
    attention_mask: Tensor
    special_tokens_mask: Tensor


@dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of texts, ragged: `ids` [token] int32, `lengths` [text] int64, `lost` [text] int64.

    `lost` is the number of tokens that the limit cut off; -n means at least n, for of a text that is far too long only
    a head is tokenized.
    """

    ids: Tensor
    lengths: Tensor
    lost: Tensor

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.lengths)

    def batch(
        self,
        texts: Tensor,
        pad_id: int,
        special_ids: Tensor,
        *,
        windows: tuple[Tensor, WindowRule] | None = None,
    ) -> TokenBatch:
        """Return the texts with the given numbers as a batch, padded on the right to the longest.

        Args:
            texts: [row] int64.
            pad_id: id of the padding token.
            special_ids: ids that carry no text, for the mask.
            windows: where the window begins that is taken of each text ([row] int64, see `Windows.starts`), and the
                rule; without it whole texts.
        """
        first, lengths = ragged.starts(self.lengths)[texts], self.lengths[texts]
        if windows is None:
            index, mask = ragged.padded_positions(first, lengths)
        else:
            index, mask = window_positions(first, lengths, *windows)
        ids = torch.where(mask, self.ids[index].long(), pad_id)
        return TokenBatch(ids, mask, torch.isin(ids, special_ids) | ~mask)


@dataclass(frozen=True)
class TokenizedSegments:
    """Segments of token ids in which every distinct text occurs once.

    `texts` are the distinct texts; `candidates` [pair] and `references` [pair] are numbers into them (int64), and
    `reference_counts` [segment] says how many consecutive pairs form a segment.
    """

    texts: TokenizedTexts
    candidates: Tensor
    references: Tensor
    reference_counts: Tensor

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.reference_counts)

    @staticmethod
    def concatenate(parts: Sequence[TokenizedSegments]) -> TokenizedSegments:
        """Join parts in order; texts that several parts share are kept once."""
        if len(parts) == 1:
            return parts[0]
        counts = torch.tensor([len(part.texts) for part in parts])
        offsets = ragged.starts(counts).tolist()
        ids = torch.cat([part.texts.ids for part in parts])
        lengths = torch.cat([part.texts.lengths for part in parts])
        lost = torch.cat([part.texts.lost for part in parts])
        keep, number = _first_of_each(ids, lengths, lost)
        texts = TokenizedTexts(
            ids[ragged.positions(ragged.starts(lengths)[keep], lengths[keep])], lengths[keep], lost[keep]
        )
        return TokenizedSegments(
            texts,
            number[torch.cat([part.candidates + offset for part, offset in zip(parts, offsets, strict=True)])],
            number[torch.cat([part.references + offset for part, offset in zip(parts, offsets, strict=True)])],
            torch.cat([part.reference_counts for part in parts]),
        )


def _first_of_each(ids: Tensor, lengths: Tensor, lost: Tensor) -> tuple[Tensor, Tensor]:
    """Number equal texts equally: (which texts are the first of their kind, the number of each text's kind)."""
    data, ends = ids.numpy(), torch.cumsum(lengths, 0).tolist()
    kinds: dict[tuple[bytes, int], int] = {}
    keep: list[int] = []
    number: list[int] = []
    for text, (length, end, cut) in enumerate(zip(lengths.tolist(), ends, lost.tolist(), strict=True)):
        kind = kinds.setdefault((data[end - length : end].tobytes(), cut), len(kinds))
        if kind == len(keep):
            keep.append(text)
        number.append(kind)
    return torch.tensor(keep, dtype=torch.int64), torch.tensor(number, dtype=torch.int64)
