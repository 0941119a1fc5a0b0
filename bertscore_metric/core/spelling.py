"""Tokens as people read them: pure functions on the strings of a vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
_MOST_BYTES = 4  # of a character in UTF-8
# Control characters, and those that turn the direction of a line.
_ACTING = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_REST = "⋯"  # is shown for a token that completes the character at the one before, and is spelled ""
# A line break, a tab or another space than the one that vocabularies mark, at the end of a token or at the next one's
# beginning.
_SPACE_BETWEEN = re.compile(r"(?:\s|\\n|\\t)\||\|(?:\s|\\n|\\t)")
# How vocabularies mark where words begin or go on, and where the mark stands.
_APOSTROPHES = ("'", "’")
_CONTRACTED = ("d", "ll", "m", "re", "s", "t", "ve")  # what follows the apostrophe in English contractions
_CONTINUES_BEFORE, _BEGINS_BEFORE, _ENDS_AFTER, _CONTINUES_AFTER = "##", "▁", "</w>", "@@"


def spell_bytes(tokens: Sequence[str], decode: Callable[[list[str]], str]) -> list[str]:
    r"""Spell tokens that stand for bytes: a character of several at the first, nothing at the others, a space as `▁`.

    Args:
        tokens: [token], as the vocabulary spells them, without special tokens.
        decode: turns such tokens into text, `U+FFFD` or nothing for bytes that are no whole character.

    Example:
        >>> spell_bytes(["a", "b"], lambda tokens: "".join(tokens).replace("ab", "é").replace("a", "\ufffd"))
        ['é', '']
    """
    spelled: list[str] = []
    while len(spelled) < len(tokens):
        begin = len(spelled)
        for end in range(begin + 1, min(begin + _MOST_BYTES, len(tokens)) + 1):
            text = decode(list(tokens[begin:end]))
            if text and _INCOMPLETE not in text:
                break
        else:
            end, text = begin + 1, decode([tokens[begin]]) or _INCOMPLETE
        spelled.append(text.replace(" ", _BEGINS_BEFORE).replace("\n", "\\n").replace("\t", "\\t"))
        spelled += [""] * (end - begin - 1)
    return spelled


def word_mark(vocabulary: Iterable[str]) -> str:
    """Return the mark by which a vocabulary tells words from pieces of words, or "" where it has none.

    It is the most frequent of `##` (goes on), `▁` or a byte-level space (begins), `</w>` (ends), `@@` (goes on after).
    """
    marks = {_CONTINUES_BEFORE: 0, _BEGINS_BEFORE: 0, _ENDS_AFTER: 0, _CONTINUES_AFTER: 0}
    for token in vocabulary:
        if token.startswith(_CONTINUES_BEFORE):
            marks[_CONTINUES_BEFORE] += 1
        elif token.startswith((_BEGINS_BEFORE, "Ġ")):
            marks[_BEGINS_BEFORE] += 1
        elif token.endswith(_ENDS_AFTER):
            marks[_ENDS_AFTER] += 1
        elif token.endswith(_CONTINUES_AFTER):
            marks[_CONTINUES_AFTER] += 1
    most = max(marks, key=marks.__getitem__)
    return most if marks[most] else ""


def word_numbers(
    tokens: Sequence[str], special: Sequence[bool], mark: str, own: Sequence[int | None] | None = None
) -> list[int]:
    """Number the word that each token belongs to, from 0; a special token is a word of its own.

    Args:
        tokens: [token], spelled.
        special: [token], whether it is a special token.
        mark: of the vocabulary, from `word_mark`. Without one every token is a word.
        own: [token], the tokenizer's own numbers of words (`word_ids`), where it has them; what it joins stays joined.

    Returns:
        [token]; Chinese and Japanese characters begin a word, for such text has no spaces to tell (with `own` only
        where the tokenizer's words are what stands between spaces), and so does what follows a line break or another
        kind of space. A token that is only the space in front of a word belongs to that word. English contractions
        (`don ' t`), which vocabularies with `##` cut at the apostrophe, are one word.

    Example:
        >>> word_numbers(["[CLS]", "em", "##bed", "it", "[SEP]"], [True, False, False, False, True], "##")
        [0, 1, 1, 2, 3]
    """
    numbers: list[int] = []
    before = ""
    for index, token in enumerate(tokens):
        begins = not index or special[index] or special[index - 1]
        if not begins and token and not before == mark == _BEGINS_BEFORE:
            joined = own is not None and own[index] is not None and own[index] == own[index - 1]
            begins = _begins(token, before, mark) or bool(_SPACE_BETWEEN.search(f"{before}|{token}"))
            begins = begins and not joined and not (mark == _CONTINUES_BEFORE and _contracts(tokens, index))
            if not joined or mark != _CONTINUES_BEFORE:
                begins = begins or _is_wide(token.removeprefix(_CONTINUES_BEFORE)[:1])
        numbers.append((numbers[-1] if numbers else -1) + int(begins))
        before = token or before
    return numbers


def _is_wide(letter: str) -> bool:
    """Return whether a character is written without spaces, as Chinese and Japanese are, and Korean is not."""
    return unicodedata.east_asian_width(letter or " ") in "WF" and not unicodedata.name(letter, "").startswith("HANGUL")


def _contracts(tokens: Sequence[str], index: int) -> bool:
    """Return whether a token is the apostrophe of a contraction, or what follows it."""
    for begin in range(max(index - 2, 0), min(index, len(tokens) - 2)):
        before, mark, after = tokens[begin : begin + 3]
        if before[-1:].isalpha() and mark in _APOSTROPHES and after.lower() in _CONTRACTED:
            return True
    return False


def _begins(token: str, before: str, mark: str) -> bool:
    if mark == _CONTINUES_BEFORE:
        return not token.startswith(mark)
    if mark == _BEGINS_BEFORE:
        return token.startswith(mark)
    if mark == _ENDS_AFTER:
        return before.endswith(mark)
    if mark == _CONTINUES_AFTER:
        return not before.endswith(mark)
    return True


def bare(token: str, mark: str) -> str:
    """Return a token without the mark of its vocabulary, or the mark where there is nothing else.

    Example:
        >>> bare("##bed", "##"), bare("▁there", "▁"), bare("▁", "▁"), bare("##bed", "▁")
        ('bed', 'there', '▁', '##bed')
    """
    return _unmarked(token, mark) or token


def visible(token: str) -> str:
    r"""Return a token as it is shown: `⋯` for the rest of a character; what controls or turns a line is spelled out.

    Example:
        >>> visible("\x1b[2J"), visible("")
        ('\\x1b[2J', '⋯')
    """
    return _ACTING.sub(lambda letter: letter[0].encode("unicode_escape").decode(), token) or _REST


def visible_text(text: str) -> str:
    r"""Return a text in which what controls or turns a line is spelled out; its line breaks and tabs stay.

    Example:
        >>> visible_text("a\x07\n\u202eb")
        'a\\x07\n\\u202eb'
    """
    return re.sub(r"[^\r\n\t]+", lambda run: visible(run[0]), text)


def join(tokens: Sequence[str], mark: str) -> str:
    """Join the tokens of a word, without the marks of its pieces.

    Example:
        >>> join(["em", "##bed", "##ding"], "##"), join(["▁em", "bedding"], "▁"), join(["hap@@", "py"], "@@")
        ('embedding', 'embedding', 'happy')
    """
    return "".join(_unmarked(token, mark) for token in tokens) or tokens[0]


def _unmarked(token: str, mark: str) -> str:
    return token.removeprefix(mark) if mark in (_CONTINUES_BEFORE, _BEGINS_BEFORE) else token.removesuffix(mark)
