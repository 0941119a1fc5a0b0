"""bert_score's own numbers, on tiny models of many architectures and on all-MiniLM-L6-v2.

The files in `tests/golden` were written by bert_score 0.3.13 with slow tokenizers (transformers 4.57.6) and, for models
whose tokenizers it cannot use that way, with transformers 5.24.0; `_meta` in each says how.

Two of bert_score's faults are part of its numbers, and are told apart here by computing where they strike: with padding
in the batch it clamps a negative best similarity to 0, and it takes a text of two tokens for an empty one, which a
one-word T5 text is not.
"""

import dataclasses
import json
from typing import Any

import pytest
import torch
from conftest import MODELS, TESTS, TOLERANCE, model_path
from torch import Tensor

from bertscore_metric import BERTScorer, TokenMatches
from bertscore_metric.core.tokens import TokenizedSegments

FILES = [json.loads((TESTS / "golden" / f"bert_score_transformers{v}.json").read_text()) for v in (4, 5)]
INPUTS = FILES[0]["_meta"]["inputs"]
GOLDEN = {name: case for file in FILES for name, case in file.items() if name != "_meta"}

# case -> (candidates, references, settings)
SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("C", "R", {}),
    "one_by_one": ("C", "R", {}),
    "layer0": ("C", "R", {"num_layers": 0}),
    "idf_refs": ("C", "R", {"idf": True}),
    "all_layers": ("C", "R", {"all_layers": True}),
    "multi_ref": ("MR_C", "MR_R", {}),
    "multi_ref_idf": ("MR_C", "MR_R", {"idf": True}),
    "rescaled_custom": (
        "C",
        "R",
        {"rescale_with_baseline": True, "baseline_path": str(TESTS / "golden" / "baseline.csv")},
    ),
    "scorer_idf_sents": ("C", "R", {"idf": INPUTS["IDF"]}),
}


class Unclamped(BERTScorer):
    """Remembers whether a token's best similarity was negative."""

    negative = False

    def _score(self, matches: TokenMatches, idf: Any) -> Any:
        scores = super()._score(matches, idf)
        best = torch.cat([matches.candidate_best, matches.reference_best], dim=1)
        self.negative = bool((best < 0).any())
        return scores


class Clamped(BERTScorer):
    """Clamps negative best similarities to 0, as bert_score does where its batch holds padding."""

    def _score(self, matches: TokenMatches, idf: Any) -> Any:
        clamped = dataclasses.replace(
            matches,
            candidate_best=matches.candidate_best.clamp(min=0),
            reference_best=matches.reference_best.clamp(min=0),
        )
        return super()._score(clamped, idf)


def inputs(model: str, case: str, expected: Tensor) -> tuple[list[str], list[Any], dict[str, Any]]:
    """Return candidates, references and settings of a case; some models were given the texts that are not empty."""
    candidates, references, settings = SETTINGS[case]
    if "num_layers" not in settings and "all_layers" not in settings:
        settings = {"num_layers": GOLDEN[model]["layers"], **settings}
    n = expected.shape[-1]
    return INPUTS[candidates][:n], INPUTS[references][:n], settings


def two_token_texts(scorer: BERTScorer, candidates: list[str], references: list[Any]) -> Tensor:
    """Return which segments bert_score takes for empty because one of their texts has two tokens."""
    segments: TokenizedSegments = scorer.tokenize(candidates, references)
    lengths = segments.texts.lengths
    pair = (lengths[segments.candidates] == 2) | (lengths[segments.references] == 2)
    counts = segments.reference_counts
    return torch.tensor([bool(part.any()) for part in pair.split(counts.tolist())])


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("model", GOLDEN)
def test_golden(model: str, case: str) -> None:
    """Every value holds, unclamped where no token's best similarity is negative, and clamped everywhere."""
    expected = torch.tensor(GOLDEN[model][case])
    candidates, references, settings = inputs(model, case, expected)
    scorer = Unclamped(model_path(model), **settings)
    result = scorer.score(candidates, references)
    got = torch.stack(list(result))
    clamped = torch.stack(list(Clamped(model_path(model), **settings).score(candidates, references)))
    if case != "one_by_one":  # alone there is no padding, and so no clamping
        struck = two_token_texts(scorer, candidates, references) & ~result.empty
        assert struck.any() == (model == "t5" and case.startswith("multi_ref"))
        clamped[:2, ..., struck] = 0
        got[:2, ..., struck] = 0
        torch.testing.assert_close(clamped, expected, atol=TOLERANCE, rtol=0)
    if case == "one_by_one" or not scorer.negative:
        torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("model", GOLDEN)
def test_token_ids(model: str) -> None:
    """The token ids of every text are those of the slow tokenizer, the prefix space of RoBERTa included."""
    scorer = BERTScorer(model_path(model), num_layers=1)
    for text, ids in GOLDEN[model]["ids"].items():
        assert scorer.model.tokenizer([text]).ids.tolist() == ids, text


def test_negative_similarities_occur() -> None:
    """Some models do have a token whose best similarity is negative, so both branches above are taken."""
    negative = []
    for model in ("distilbert", "bert"):
        scorer = Unclamped(str(MODELS / model), num_layers=GOLDEN[model]["layers"])
        scorer.score(INPUTS["C"][:6], INPUTS["R"][:6])
        negative.append(scorer.negative)
    assert negative == [True, False]
