"""Every architecture: cutting, all layers, odd texts, odd tokenizers, batches, and the way through a folder."""

import copy
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, model_of
from conftest import TESTS, TOLERANCE
from torch import Tensor

from bertscore_metric import BERTScorer
from bertscore_metric.warnings import BERTScoreWarning

VERSIONS_FILE = TESTS / "golden" / "transformers_4_57.json"
VERSIONS = json.loads(VERSIONS_FILE.read_text()) if VERSIONS_FILE.is_file() else {}
VERSIONS.pop("_meta", None)
TEXT = "the cat sat on the red table."
LONG = "the cat sat " * 50
CANDIDATES = [TEXT, "Go", "", "a dog looked at two bananas", LONG]
REFERENCES = ["a dog looked at two bananas", TEXT, "the cat", "", "a dog " * 60]

pytestmark = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


@cache
def scorer_of(name: str, **settings: Any) -> BERTScorer:
    """Return a scorer with an architecture's tiny model, at layer 2 unless said otherwise."""
    model, tokenizer = model_of(name)
    settings = settings if "all_layers" in settings else {"num_layers": 2, **settings}
    return BERTScorer(model=model, tokenizer=tokenizer, **settings)


@cache
def whole(name: str) -> tuple[list[Tensor], Tensor]:
    """Return what transformers itself says of one text: its hidden states, and the last after the final norm."""
    model, _ = model_of(name)
    tokens = one_text(name)
    body = model.encoder if model.config.is_encoder_decoder else model
    with torch.no_grad():
        output = body(input_ids=tokens.ids, output_hidden_states=True)
    return list(output.hidden_states), output.last_hidden_state


def one_text(name: str) -> Any:
    """Return the tokens of one text."""
    return scorer_of(name).model.tokenizer([TEXT]).batch(torch.tensor([0]), 0, torch.tensor([], dtype=torch.int64))


@every_architecture
def test_layers(name: str) -> None:
    """A model cut after k blocks gives the whole model's k-th hidden state, through the norm that follows."""
    states, last = whole(name)
    body = model_of(name)[0]
    body = body.encoder if body.config.is_encoder_decoder else body
    norm = body.get_submodule(ARCHITECTURES[name].norm) if ARCHITECTURES[name].norm else torch.nn.Identity()
    got = {k: scorer_of(name, num_layers=k).model.encoder.embed(one_text(name)) for k in (0, 2, 4)}
    with torch.no_grad():
        expected = {0: norm(states[0]), 2: norm(states[2]), 4: last}
    for k in got:
        torch.testing.assert_close(got[k], expected[k], atol=1e-5, rtol=0)
    assert not torch.allclose(got[0], got[2], atol=0.01)
    assert not torch.allclose(got[2], got[4], atol=0.01)


@every_architecture
def test_all_layers(name: str) -> None:
    """All layers are the embedding output and one for every block, as transformers gives them."""
    scorer = scorer_of(name, all_layers=True)
    torch.testing.assert_close(
        scorer.model.encoder.embed(one_text(name)), torch.stack(whole(name)[0]), atol=1e-5, rtol=0
    )
    result = scorer.score(CANDIDATES[:2], REFERENCES[:2])
    assert result.f1.shape == (5, 2)
    assert len(set(result.f1[:, 0].tolist())) == 5


@every_architecture
def test_batches(name: str) -> None:
    """A text scores the same alone and among others: padding, sparse attention and neighbours change nothing."""
    scorer = scorer_of(name)
    together = torch.stack(list(scorer.score(CANDIDATES, REFERENCES)))
    alone = [torch.stack(list(scorer.score(c, r))) for c, r in zip(CANDIDATES, REFERENCES, strict=True)]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), atol=TOLERANCE, rtol=0)


@every_architecture
def test_odd_texts(name: str) -> None:
    """An empty text scores 0, one word against itself 1, and a text beyond the position table is cut and counted."""
    with pytest.warns(BERTScoreWarning):
        result = scorer_of(name).score(["", "Go", LONG], [TEXT, "Go", LONG])
    assert result.f1.tolist() == pytest.approx([0, 1, 1], abs=TOLERANCE)
    assert result.n_empty == 1
    assert scorer_of(name).model.encoder.position_limit == ARCHITECTURES[name].limit  # type: ignore[attr-defined]


@every_architecture
def test_odd_tokenizers(name: str) -> None:
    """A tokenizer without a maximum length, without a padding token and with left padding changes no score."""
    model, tokenizer = model_of(name)
    odd = copy.deepcopy(tokenizer)
    odd.model_max_length = int(1e30)
    odd.pad_token = None
    odd.padding_side = "left"
    scorer = BERTScorer(model=model, tokenizer=odd, num_layers=2)
    assert scorer.model.tokenizer.limit == ARCHITECTURES[name].limit
    usual = scorer_of(name).score(CANDIDATES[:4], REFERENCES[:4])
    result = scorer.score([*CANDIDATES[:4], LONG], [*REFERENCES[:4], LONG])
    torch.testing.assert_close(result.f1[:4], usual.f1, atol=TOLERANCE, rtol=0)
    assert result.f1[4].item() == pytest.approx(1, abs=TOLERANCE)
    assert result.n_truncated == (0 if ARCHITECTURES[name].limit is None else 2)


@every_architecture
def test_folder(name: str, tmp_path: Path) -> None:
    """A saved model finds all its weights again, and scores as it did in memory."""
    model, tokenizer = model_of(name)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, in_memory = BERTScorer(str(tmp_path), num_layers=2), scorer_of(name)
    torch.testing.assert_close(
        loaded.score(CANDIDATES[:2], REFERENCES[:2]).f1, in_memory.score(CANDIDATES[:2], REFERENCES[:2]).f1
    )
    assert loaded.signature["weights"] == in_memory.signature["weights"]


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_of_transformers(name: str) -> None:
    """transformers 4.57 and 5 give the same scores; the file was written with 4.57, see its `_meta`."""
    expected = torch.tensor(VERSIONS[name])
    torch.testing.assert_close(version_scores(name), expected, atol=TOLERANCE, rtol=0)


def test_versions_covers_what_is_tested_on_both() -> None:
    """Every architecture that is said to be tested with transformers 4.57 has its numbers in the file."""
    assert sorted(VERSIONS) == sorted(name for name, one in ARCHITECTURES.items() if one.before_5)


def version_scores(name: str) -> Tensor:
    """Return [measure, segment], the scores that are compared between versions."""
    return torch.stack(list(scorer_of(name, idf=True).score(CANDIDATES, REFERENCES)))


if __name__ == "__main__":  # writes the file
    written = {name: version_scores(name).tolist() for name, one in ARCHITECTURES.items() if one.before_5}
    meta = {"transformers": version("transformers"), "torch": version("torch"), "layer": 2, "idf": True,
            "command": "PYTHONPATH=.:tests python tests/test_architectures.py"}  # fmt: skip
    VERSIONS_FILE.write_text(json.dumps({"_meta": meta, **written}, indent=1) + "\n")
