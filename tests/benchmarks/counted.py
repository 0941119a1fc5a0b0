"""Count what is encoded, whoever encodes: whatever runs a BERT, and whoever holds it, begins with the embeddings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transformers.models.bert.modeling_bert import BertEmbeddings


@dataclass
class Encoded:
    """How many texts were encoded so far, and tokens with padding."""

    texts: int = 0
    tokens: int = 0


@contextmanager
def counted() -> Iterator[Encoded]:
    """Count what every BERT of the process encodes inside."""
    forward = BertEmbeddings.forward
    encoded = Encoded()

    def counting(self: Any, *inputs: Any, **keywords: Any) -> Any:
        ids = keywords.get("input_ids", inputs[0] if inputs else None)
        encoded.texts += len(ids)
        encoded.tokens += ids.numel()
        return forward(self, *inputs, **keywords)

    BertEmbeddings.forward = counting  # type: ignore[method-assign]
    try:
        yield encoded
    finally:
        BertEmbeddings.forward = forward  # type: ignore[method-assign]
