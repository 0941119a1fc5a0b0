"""Text -> tokens: the only caller of a tokenizer."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.core.pairs import Segments
from bertscore_metric.core.spelling import spell_bytes, word_mark, word_numbers
from bertscore_metric.core.tokens import TokenizedSegments, TokenizedTexts
from bertscore_metric.core.windows import WindowRule
from bertscore_metric.forks import renew_after_fork
from bertscore_metric.models.cutting import first_tokens
from bertscore_metric.models.given_tokenizer import tokenizer_copy
from bertscore_metric.models.quirks import quirks

_NO_LIMIT = 10**9  # tokenizers without a limit say int(1e30), or another number no text reaches
_TEXTS_PER_CALL = 1000  # a tokenizer call holds some 200 bytes a token until it returns
_CHARACTERS_PER_CALL = 2**21
_SHOWN_TOKENS = 12


class TextTokenizer:
    """A Hugging Face tokenizer under the rules of BERTScore: strip, special tokens, prefix space, limit.

    Args:
        tokenizer: a tokenizer of transformers; it is copied, never changed.
        model_type: `config.model_type` of the model, which decides about the prefix space and about `</s>`.
        position_limit: how many tokens the model's position table holds; `None` without a table.
        max_length: a lower limit, special tokens included; one above the model's own is reduced to that.
        long_text: `truncate` cuts longer texts on the right, `error` refuses them, `windows` keeps them whole; then
            `window` says how the encoder's windows are cut, where there is a limit.
        special_ids: ids that carry no text; by default the tokenizer's own.

    Raises:
        TypeError: the tokenizer is none of transformers, or cannot be copied.
        ValueError: `max_length` leaves no room for a token beside the special ones, or windows are asked for and the
            tokenizer does not put the same special tokens around every text.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        model_type: str | None = None,
        position_limit: int | None = None,
        max_length: int | None = None,
        long_text: str = "truncate",
        special_ids: Iterable[int] | None = None,
    ) -> None:
        self._tokenizer = tokenizer_copy(tokenizer)
        self._tokenizer.truncation_side = "right"
        self._long_text = long_text
        self._prefix = " " if quirks(model_type).prefix_space and _is_byte_level(self._tokenizer) else ""
        self._spells_bytes = _is_byte_level(self._tokenizer) or "ByT5" in type(self._tokenizer).__name__
        self.unknown_id = _unknown_id(self._tokenizer)
        self.pad_id = _pad_id(self._tokenizer)
        self._lock = threading.Lock()  # a fast tokenizer keeps its truncation from call to call
        renew_after_fork(self)
        # "" is encoded as the special tokens alone, which includes those that no attribute names (language codes).
        empty = self._encode([""])[0]
        own_special_ids = special_ids is not None
        special_ids = _structural_ids(self._tokenizer) | set(empty) if special_ids is None else special_ids
        self.special_ids = frozenset(special_ids)
        self.unweighted_ids = self.special_ids if own_special_ids else _unweighted_ids(self._tokenizer, model_type)
        self.fingerprint = _fingerprint(
            self._tokenizer, self._prefix, sorted(self.special_ids), sorted(self.unweighted_ids), self.unknown_id
        )
        self.limit = _limit(self._tokenizer, position_limit, max_length, n_special=len(empty))
        self.window: WindowRule | None = None
        if long_text == "windows" and self.limit is not None:
            self.window = WindowRule(self.limit, *_frame(empty, self._encode(["a"])[0]))

    def __call__(
        self, texts: Sequence[str], *, name: str = "texts", place: Callable[[str], str] | None = None
    ) -> TokenizedTexts:
        """Encode texts.

        Args:
            texts: [text], checked by `pairs`.
            name: what the caller calls them, for the message.
            place: where the caller has a text, for the message; by default `name` and its number.

        Raises:
            ValueError: a text is longer than the limit and `long_text` is `error`.
        """
        ids: list[Tensor] = []
        lengths: list[int] = []
        lost: list[int] = []
        for part in _portions(texts):
            begin = len(lengths)
            encoded, part_lost = self._cut(part)
            long = [index for index, n in enumerate(part_lost) if n]
            if long and self._long_text == "error":
                index, n = begin + long[0], part_lost[long[0]]
                raise ValueError(
                    f"{f'{name}[{index}]' if place is None else place(texts[index])} is a text of "
                    f"{'at least ' if n < 0 else ''}{len(encoded[long[0]]) + abs(n)} tokens, and the limit is "
                    f"{self.limit}: {part[long[0]][:60]!r}... "
                    f"Split it, or let it be scored in windows (long_text='windows') or cut (long_text='truncate')."
                )
            ids.append(torch.tensor([token for one in encoded for token in one], dtype=torch.int32))
            lengths.extend(len(one) for one in encoded)
            lost.extend(part_lost)
        return TokenizedTexts(
            torch.cat(ids) if ids else torch.empty(0, dtype=torch.int32),
            torch.tensor(lengths, dtype=torch.int64),
            torch.tensor(lost, dtype=torch.int64),
        )

    def _cut(self, texts: list[str]) -> tuple[list[list[int]], list[int]]:
        """Return the ids of texts, cut at the limit, and how many tokens each lost (see `TokenizedTexts`)."""
        if self.limit is None or self.window is not None:
            return self._encode(texts), [0] * len(texts)
        encoded: list[list[int]] = [[] for _ in texts]
        lost = [0] * len(texts)
        short = []
        for index, text in enumerate(texts):
            head = first_tokens(text, self.limit, self._encode_one)
            if head is None:
                short.append(index)
            else:
                encoded[index], lost[index] = head[0], -head[1]
        for index, whole in zip(short, self._encode([texts[index] for index in short]), strict=True):
            encoded[index] = whole
        long = [index for index in short if len(encoded[index]) > self.limit]
        for index, cut in zip(long, self._encode([texts[index] for index in long], self.limit), strict=True):
            encoded[index], lost[index] = cut, len(encoded[index]) - len(cut)
        return encoded, lost

    def beginning(self, ids: Sequence[int]) -> str:
        """Return how a text of these ids begins, for messages."""
        text = [token for token in ids[:_SHOWN_TOKENS] if token not in self.special_ids]
        return str(self._tokenizer.decode(text)).strip()

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the token strings of ids, as the vocabulary spells them."""
        return list(self._tokenizer.convert_ids_to_tokens(list(ids)))

    def spelled(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as people read them: bytes as characters, a leading space as `▁`; special ones as they are.

        Where several tokens form a character, the first has it and the others are empty.
        """
        tokens = self.tokens(ids)
        if not self._spells_bytes:
            return tokens
        spelled: list[str] = []
        for special, run in groupby(zip(ids, tokens, strict=True), lambda pair: pair[0] in self.special_ids):
            part = [token for _, token in run]
            spelled += part if special else spell_bytes(part, self._tokenizer.convert_tokens_to_string)
        return spelled

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the number of the word that each token of a text belongs to; a special token is one of its own."""
        special = [token in self.special_ids for token in ids]
        return word_numbers(self.spelled(ids), special, self.word_mark, self._own_words(ids, special))

    def _own_words(self, ids: Sequence[int], special: Sequence[bool]) -> list[int | None] | None:
        """Return the tokenizer's number of the word of each token, `None` for special ones.

        Returns `None` where the tokenizer does not number words, or ids do not tell the text that they came from.
        """
        if not getattr(self._tokenizer, "is_fast", False):
            return None
        plain = [token for token, is_special in zip(ids, special, strict=True) if not is_special]
        text = self._tokenizer.decode(plain, clean_up_tokenization_spaces=False)
        for again in (text, self._prefix + text.strip()):
            with self._lock:
                encoded = self._tokenizer(again, add_special_tokens=False, truncation=False, verbose=False)
            if list(encoded["input_ids"]) == plain:
                own = iter(encoded.word_ids())
                return [None if is_special else next(own) for is_special in special]
        return None

    @cached_property
    def word_mark(self) -> str:
        """Mark by which the vocabulary tells words from pieces of words, "" without one."""
        return word_mark(self._tokenizer.get_vocab())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock, which cannot be pickled or copied."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, with a lock of its own."""
        self.__dict__.update(state)
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Have a lock of one's own, and a tokenizer that no other thread was using."""
        if self._lock.locked():  # a fast tokenizer counts who uses it, and would refuse to be set for ever
            self._tokenizer = copy.deepcopy(self._tokenizer)
        self._lock = threading.Lock()

    def _encode_one(self, text: str, limit: int | None) -> list[int]:
        return self._encode([text], limit)[0]

    def _encode(self, texts: list[str], limit: int | None = None) -> list[list[int]]:
        if not texts:
            return []
        with self._lock:
            encoded = self._tokenizer(
                [self._prefix + text if text else text for text in texts],
                add_special_tokens=True,
                padding=False,
                truncation=limit is not None,
                max_length=limit,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        return [list(ids) for ids in encoded["input_ids"]]


def tokenize_segments(segments: Segments, tokenizer: TextTokenizer) -> TokenizedSegments:
    """Encode every distinct text of the segments once."""
    numbers: dict[str, int] = {}
    repeats = [candidate for candidate, n in zip(segments.candidates, segments.reference_counts, strict=True)
               for _ in range(n)]  # fmt: skip
    candidates = [numbers.setdefault(text, len(numbers)) for text in repeats]
    references = [numbers.setdefault(text, len(numbers)) for text in segments.references]
    return TokenizedSegments(
        tokenizer(list(numbers), place=segments.place),
        torch.tensor(candidates, dtype=torch.int64),
        torch.tensor(references, dtype=torch.int64),
        torch.tensor(segments.reference_counts, dtype=torch.int64),
    )


def tokenize_ahead(segments: Segments, tokenizer: TextTokenizer, most: int) -> Iterator[TokenizedSegments]:
    """Encode segments in pieces of at most `most`, each in a thread while the caller works on the piece before.

    Texts that occur in several pieces are encoded in each.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize") as thread:
        coming: Future[TokenizedSegments] | None = None
        for piece in segments.pieces(most):
            following = thread.submit(tokenize_segments, piece, tokenizer)
            if coming is not None:
                yield coming.result()
            coming = following
        if coming is not None:
            yield coming.result()


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in order, stripped, as many at a time as a call of the tokenizer takes."""
    portion: list[str] = []
    size = 0
    for text in texts:
        if portion and (len(portion) == _TEXTS_PER_CALL or size + len(text) > _CHARACTERS_PER_CALL):
            yield portion
            portion, size = [], 0
        portion.append(text.strip())
        size += len(text)
    if portion:
        yield portion


def _fingerprint(tokenizer: Any, *roles: Any) -> str:
    """Return a hash of everything that decides which ids a text gets, for the signature."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        content: Any = [type(tokenizer).__name__, sorted(tokenizer.get_vocab().items())]
    else:
        content = json.loads(backend.to_str())
        content.pop("truncation", None)  # set anew by every call
        content.pop("padding", None)
    return hashlib.sha256(json.dumps([content, roles], sort_keys=True).encode()).hexdigest()[:8]


def _is_byte_level(tokenizer: Any) -> bool:
    # Only byte-level vocabularies know a word with and without its space; a RoBERTa model with another kind of
    # tokenizer (BERTweet, a WordPiece or SentencePiece vocabulary) must not get one. Where the tokenizer adds the space
    # itself, ours takes its place: it adds none before a space.
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        return "ByteLevel" in json.dumps(json.loads(backend.to_str()).get("pre_tokenizer"))
    return type(tokenizer).__name__ in ("RobertaTokenizer", "GPT2Tokenizer")


def _structural_ids(tokenizer: Any) -> set[int]:
    names = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
    return {token for name in names if (token := getattr(tokenizer, name, None)) is not None}


def _unweighted_ids(tokenizer: Any, model_type: str | None) -> frozenset[int]:
    framing = {token for name in ("cls_token_id", "sep_token_id")
               if (token := getattr(tokenizer, name, None)) is not None}  # fmt: skip
    if framing or quirks(model_type).end_token_counts:
        return frozenset(framing)
    return frozenset(tokenizer.all_special_ids) - ({_unknown_id(tokenizer)} - _structural_ids(tokenizer))


def _frame(empty: list[int], text: list[int]) -> tuple[int, int]:
    """Return how many special tokens stand before a text and behind it: `empty` are they alone, `text` has some."""
    front = next((k for k, (a, b) in enumerate(zip(empty, text, strict=False)) if a != b), len(empty))
    behind = len(empty) - front
    if len(text) <= len(empty) or text[len(text) - behind :] != empty[front:]:
        raise ValueError(
            f"long_text='windows' needs a tokenizer that puts the same special tokens around every text; this gives "
            f"{empty} for an empty text and {text} for 'a'. Use long_text='truncate' or 'error'."
        )
    return front, behind


def _unknown_id(tokenizer: Any) -> int | None:
    # GPT-2 names its end-of-text token as the unknown one as well; a byte-level vocabulary never needs it.
    unknown = getattr(tokenizer, "unk_token_id", None)
    return None if unknown is None or unknown in _structural_ids(tokenizer) else int(unknown)


def _pad_id(tokenizer: Any) -> int:
    pad = getattr(tokenizer, "pad_token_id", None)
    return 0 if pad is None else int(pad)  # masked everywhere, so any id of the vocabulary will do


def _limit(tokenizer: Any, position_limit: int | None, max_length: int | None, *, n_special: int) -> int | None:
    own = getattr(tokenizer, "model_max_length", None)
    limits = [n for n in (own, position_limit) if n is not None and 0 < n < _NO_LIMIT]
    limit = min(limits) if limits else None
    if max_length is None:
        return limit
    if max_length <= n_special:
        raise ValueError(f"max_length={max_length} leaves no room for text: {n_special} special tokens are part of it.")
    if limit is not None and max_length > limit:
        return limit
    return max_length
