"""The first tokens of a text that is far too long, without tokenizing all of it.

A tokenizer takes some two hundred times the memory of its text, of which only the first tokens are kept. They are taken
from a head of the text instead. Where a head ends, its last tokens may be others than in the whole text (with ten of 23
tokenizers the last one or two are), and a tokenizer that looks far ahead may change more. So heads of three lengths are
compared: what they have in common does not depend on what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

LEAST_HEAD = 4096  # characters; far more than any rule of a tokenizer looks at (WordPiece: words of up to 100)
_CHARACTERS = 8  # a token has some four


def first_tokens(text: str, limit: int, encode: Callable[[str, int | None], list[int]]) -> tuple[list[int], int] | None:
    """Return the ids of a text cut at a limit, from a head of it.

    Args:
        text: a text.
        limit: most tokens, special ones included.
        encode: returns the ids of a text, cut at a number of tokens unless that is `None`.

    Returns:
        The ids [limit], and how many tokens were cut off at least; `None` where the text is short enough to be
        tokenized whole, or no head of less than half of it tells.
    """
    size = max(LEAST_HEAD, _CHARACTERS * limit)
    if len(text) < 5 * size:  # the heads would take as long
        return None
    while 2 * size + 1 < len(text):
        # With lengths of 2n and 2n + 1 no period of a text ("hahaha") divides both.
        heads = [encode(text[:length], None) for length in (size, 2 * size, 2 * size + 1)]
        common = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*heads, strict=False)))
        if common > limit:
            return encode(text[:size], limit), common - limit
        size *= 2
    return None
