"""Texts longer than the encoder's limit -> overlapping windows, and back to one embedding a token: pure functions.

Windows of a text begin half a window apart, the last one so that it ends with the text. Every token's embedding comes
from the window in which it stands farthest from an edge, so it has seen about a quarter of a window or more on either
side (less only where the text itself begins or ends), for twice the encoder's work. Every window is a full input of the
encoder, with the special tokens that stand before and after a text.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bertscore_metric.core import ragged


@dataclass(frozen=True)
class WindowRule:
    """How texts are cut into windows.

    Args:
        size: most tokens of a window, special ones included; a text of no more is a window of its own.
        front: how many special tokens stand before a text.
        behind: how many stand after it.

    Raises:
        ValueError: a window has no room for text.

    Example:
        >>> rule = WindowRule(size=10, front=1, behind=1)
        >>> rule.room, rule.stride
        (8, 4)
    """

    size: int
    front: int
    behind: int

    def __post_init__(self) -> None:
        if self.room < 1:
            raise ValueError(
                f"A window of {self.size} tokens leaves no room for text beside {self.front + self.behind} special "
                f"ones; raise max_length."
            )

    @property
    def room(self) -> int:
        """Tokens of text in a window."""
        return self.size - self.front - self.behind

    @property
    def stride(self) -> int:
        """Tokens from the beginning of a window to that of the next."""
        return max(1, self.room // 2)


@dataclass(frozen=True)
class Windows:
    """Windows of texts, text after text: [window] int64 each.

    Args:
        texts: number of the text.
        starts: how many tokens of the text, after the special ones in front, come before the window.
        lengths: tokens of the window, special ones included.
        first_kept: which of them is the first whose embedding is kept.
        kept: how many are kept, which follow one another; they belong to the text's tokens from `starts + first_kept`.
        last: bool, whether it is the text's last window.
    """

    texts: Tensor
    starts: Tensor
    lengths: Tensor
    first_kept: Tensor
    kept: Tensor
    last: Tensor

    def kept_rows(self, chosen: Tensor) -> Tensor:
        """Return which of the tokens of the windows `chosen`, one window after the other, are kept: [kept] int64."""
        return ragged.positions(ragged.starts(self.lengths[chosen]) + self.first_kept[chosen], self.kept[chosen])

    def kept_positions(self, first: Tensor, chosen: Tensor) -> Tensor:
        """Return where they belong in a flat tensor in which the texts begin at `first` [text]: [kept] int64."""
        begin = first[self.texts[chosen]] + self.starts[chosen] + self.first_kept[chosen]
        return ragged.positions(begin, self.kept[chosen])


def count_windows(lengths: Tensor, rule: WindowRule) -> Tensor:
    """Return how many windows texts have: [text] int64, tokens with special ones -> [text] int64, each at least 1."""
    beyond = (lengths - rule.size).clamp(min=0)
    return 1 + (beyond + rule.stride - 1) // rule.stride


def plan_windows(lengths: Tensor, rule: WindowRule | None) -> Windows:
    """Cut texts into windows, so that every token is kept once.

    Args:
        lengths: [text] int64, tokens with special ones.
        rule: `None` makes every text a window of its own.

    Returns:
        The windows. A token belongs to the window whose middle is nearest, which is where it stands farthest from an
        edge; to the earlier of two that are as near. Special tokens in front belong to the first window, those behind
        to the last.

    Example:
        >>> windows = plan_windows(torch.tensor([4, 15]), WindowRule(size=8, front=1, behind=1))  # 13 tokens of text
        >>> windows.texts.tolist(), windows.starts.tolist()
        ([0, 1, 1, 1, 1], [0, 0, 3, 6, 7])
        >>> windows.kept.tolist()
        [4, 6, 3, 2, 4]
    """
    if rule is None:
        zero = torch.zeros_like(lengths)
        return Windows(torch.arange(len(lengths)), zero, lengths, zero, lengths, torch.ones_like(lengths).bool())
    counts = count_windows(lengths, rule)
    texts = ragged.owners(counts)
    number = torch.arange(len(texts)) - ragged.starts(counts)[texts]
    sizes = lengths.clamp(max=rule.size)[texts]
    starts = torch.minimum(number * rule.stride, lengths[texts] - sizes)
    last = number == counts[texts] - 1
    # The middle between the middles of this window and of the next: up to there tokens are this one's, in the text's
    # own numbers, special tokens in front counted.
    end = rule.front + (starts + starts.roll(-1) + rule.room - 1) // 2 + 1
    end = torch.where(last, lengths[texts], end)
    begin = torch.where(number == 0, 0, end.roll(1))
    return Windows(texts, starts, sizes, begin - starts, end - begin, last)


def window_positions(first: Tensor, lengths: Tensor, starts: Tensor, rule: WindowRule) -> tuple[Tensor, Tensor]:
    """Return where the tokens of windows are in a flat tensor of texts, padded to the longest window.

    Args:
        first: [window] int64, where the text of each window begins.
        lengths: [window] int64, tokens of that text.
        starts: [window] int64, where the window begins in it (`Windows.starts`).
        rule: how the texts were cut.

    Returns:
        positions [window, token] int64, in which each window has its text's special tokens around it, and mask
        [window, token] bool, as `ragged.padded_positions`.
    """
    sizes = lengths.clamp(max=rule.size)
    index, mask = ragged.padded_positions(first, sizes)
    token = index - first[:, None]
    in_text = (token >= rule.front) & (token < (sizes - rule.behind)[:, None])
    behind = token >= (sizes - rule.behind)[:, None]
    skipped = torch.where(in_text, starts[:, None], torch.where(behind, (lengths - sizes)[:, None], 0))
    return index + skipped, mask
