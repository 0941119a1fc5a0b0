"""The public interface as users write it: type-checked by `make lint`, never run."""

from collections.abc import Iterator
from typing import assert_type

import torch
from torch import Tensor

import bertscore_metric.compat as bert_score
from bertscore_metric import BERTScorer, BERTScoreResult, Encoder, IdfTable, ScoreConfig, Signature, TokenBatch, score

result = score(["a"], ["b"], "offline", num_layers=5, idf=True, rescale_with_baseline=False, device="cpu")
assert_type(result, BERTScoreResult)
assert_type(result.f1, Tensor)
assert_type(result.raw.recall, Tensor)
assert_type(result.mean.f1, float | tuple[float, ...])
assert_type(result.n_segments, int)
assert_type(result.n_windows, int)
assert_type(result.signature, Signature)
assert_type(result.signature.comparable_to(Signature.parse("model:x")), bool)
precision, recall, f1 = result
assert_type(precision, Tensor)
assert_type(result.to_json(segments=True), str)

scorer = BERTScorer("offline", batch_size=8, device=torch.device("cpu"), verbose=True)
scorer.update(["a"], [["b", "c"]])
assert_type(scorer.compute(), BERTScoreResult)
scorer.merge(BERTScorer.from_config(ScoreConfig.from_yaml("offline"), device=0))
scorer.reset()

table = IdfTable({1: 0.5}, default=2.0)
assert_type(table[1], float)
assert_type(ScoreConfig(model_name_or_path="offline", idf=table).to_yaml(), str)


class OneHot:
    """A custom encoder."""

    fingerprint = "one-hot"

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return one-hot vectors."""
        return torch.nn.functional.one_hot(tokens.ids, 100).float()


encoder: Encoder = OneHot()
own = BERTScorer(encoder=encoder, tokenizer=object())


def columns(one: BERTScoreResult) -> Iterator[Tensor]:
    """Unpack a result."""
    yield from one


assert_type(bert_score.BERTScorer(model_type="offline").hash, str)
