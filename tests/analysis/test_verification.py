"""`verify`: recorded values hold, every stage that is broken is named, and noise is not a difference."""

import dataclasses
import json
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TESTS, model_path
from fakes import HashEncoder
from torch import Tensor
from transformers import AutoModel, AutoTokenizer
from write_records import RECORDS, SETTINGS

from bertscore_metric import BERTScorer, IdfTable, ScoreConfig, result, update
from bertscore_metric.analysis import verification
from bertscore_metric.analysis.verification import record
from bertscore_metric.analysis.verification_causes import likely_cause
from bertscore_metric.analysis.verification_record import FORMAT, Record, read_record
from bertscore_metric.analysis.verification_stages import Stage, compare, first_that_differs, tolerance_between
from bertscore_metric.core import aggregation, matching, weighting
from bertscore_metric.models import encoder, scoring_model
from bertscore_metric.models import tokenizer as tokens
from bertscore_metric.models.quirks import Quirks
from bertscore_metric.registry.verification import shipped_values, verification_pairs

NAMES = ["token ids", "weights", "embeddings", "matches", "idf", "scores", "rescaled"]


def recorded(name: str) -> Record:
    """Return the recorded values of a tiny model."""
    return read_record((RECORDS / f"{name}.json").read_text(encoding="utf-8"), name)


def scorer_of(values: Record, name: str, **settings: Any) -> BERTScorer:
    """Build the scorer of recorded values from its settings alone; files are where the tests are."""
    places: dict[str, Any] = {"model_name_or_path": model_path(name)}
    if "baseline_path" in values.settings:
        places["baseline_path"] = str(TESTS.parent / values.settings["baseline_path"])
    return BERTScorer.from_config(ScoreConfig.from_mapping({**values.settings, **places, **settings}))


def stages_of(name: str, **settings: Any) -> tuple[list[Stage], str]:
    """Return the stages of a tiny model, compared with its recorded values, and the likely cause of the first."""
    values = recorded(name)
    now = record(scorer_of(values, name, **settings), values.pairs)
    stages = compare(values, now)
    first = first_that_differs(stages)
    return stages, "" if first is None else likely_cause(values, now, first)


def check_lines(stages: list[Stage], cause: str, first: str) -> None:
    """Check that `first` is the first stage to differ, and that no line about a difference names another stage."""
    found = first_that_differs(stages)
    assert found is not None
    assert found.name == first
    for stage in stages:
        assert str(stage).startswith(f"{stage.name}: ")
        assert (str(stage) == f"{stage.name}: same") is stage.same
        if not stage.same:
            assert str(stage).startswith(f"{stage.name}: differs by ")
            assert "\n" not in str(stage)
            assert not [name for name in NAMES if name != stage.name and name in str(stage)]
    assert cause
    assert not [name for name in NAMES if name != first and name in cause]


@pytest.fixture(autouse=True)
def _own_encoders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Load models and tokenizers anew, so that what a test breaks is neither found in a cache nor left there."""
    monkeypatch.setattr(encoder, "_shared", weakref.WeakValueDictionary())
    monkeypatch.setattr(encoder, "_latest", [])
    scoring_model._named_tokenizer.cache_clear()
    yield
    scoring_model._named_tokenizer.cache_clear()


# --- what is recorded holds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_tiny_models(name: str) -> None:
    """The values recorded of every tiny model, under settings of every kind, are those of today."""
    stages, _ = stages_of(name)
    assert [stage.name for stage in stages if stage.same] == NAMES[: 7 if name == "distilbert" else 6]


def test_embedded_model() -> None:
    """The shipped values of the embedded model are those of today, and every setting is the default."""
    (file,) = shipped_values()
    values = read_record(file.read_text(encoding="utf-8"), file.name)
    assert values.settings == {"model_name_or_path": "offline", "num_layers": 6}
    assert values.pairs == verification_pairs()
    stages = compare(values, record(BERTScorer("offline"), values.pairs))
    assert [str(stage) for stage in stages] == [f"{name}: same" for name in NAMES[:6]]


def test_shipped_pairs_are_of_every_kind() -> None:
    """The pairs have several scripts, empty, one-word, long, hostile and several references, and negative matches."""
    pairs = verification_pairs()
    texts = [text for candidate, references in pairs for text in (candidate, *references)]
    assert 50 <= len(pairs) <= 70
    for sign in ("П", "Τ", "و", "ש", "न", "ฝ", "雨", "ま", "아", "ქ", "[SEP]", "</s>", "\u202e", "\0", "\u200d", "\n"):
        assert any(sign in text for text in texts), sign
    assert {"", "a", "tea"} <= set(texts)
    assert max(len(references) for _, references in pairs) > 2
    scorer = BERTScorer("offline", idf=True)
    matches = scorer.match(scorer.tokenize([c for c, _ in pairs], [r for _, r in pairs]))
    assert isinstance(matches, matching.TokenMatches)
    assert int((matches.candidate_best < -0.001).sum()) > 0
    assert int((matches.candidate_lost > 0).sum()) > 0


def test_pairs_name_no_stage() -> None:
    """Words that lines of stages are searched for do not occur in the pairs."""
    text = " ".join(candidate + " ".join(references) for candidate, references in verification_pairs())
    assert not [word for word in (*NAMES, "differs", "wrong", "fails") if word in text]


# --- every stage, broken in turn --------------------------------------------------------------------------------------


def test_prefix_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the space in front of RoBERTa's texts, the token ids are named; the weights are the same."""
    monkeypatch.setattr(tokens, "quirks", lambda _: Quirks())
    stages, cause = stages_of("roberta")
    check_lines(stages, cause, "token ids")
    assert "candidates[0], from its id 1 on: " in stages[0].difference
    assert stages[1].same
    assert "the space of RoBERTa" in cause


def test_other_limit() -> None:
    """A text that is cut elsewhere has other token ids, and the cause is the limit."""
    stages, cause = stages_of("llama", max_length=16)
    check_lines(stages, cause, "token ids")
    assert cause == "another length limit: 16 here, 64 recorded."


def test_other_weights(tmp_path: Path) -> None:
    """Changed weights are reported as a stage, and nothing is refused."""
    values = recorded("xlm-roberta")
    folder = tmp_path / "xlm-roberta"
    shutil.copytree(model_path("xlm-roberta"), folder)
    changed = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        changed.encoder.layer[0].output.dense.weight.mul_(1.5)
    changed.save_pretrained(folder)
    now = record(scorer_of(values, "xlm-roberta", model_name_or_path=str(folder)), values.pairs)
    stages = compare(values, now)
    check_lines(stages, likely_cause(values, now, stages[1]), "weights")
    assert stages[1].difference == f"their hash: {now.weights} here, {values.weights} recorded"
    assert [stage.same for stage in stages] == [True, False, False, False, True, False]


def test_other_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block less than was asked for is seen at the embeddings."""
    keep = encoder.keep_blocks
    monkeypatch.setattr(encoder, "keep_blocks", lambda body, n: keep(body, n - 1))
    stages, cause = stages_of("bart")
    check_lines(stages, cause, "embeddings")
    assert "of 122 texts (tolerance 1e-05)" in stages[2].difference
    assert cause == "another layer is read, or the model computes otherwise."


def test_other_layer_by_setting() -> None:
    """Where the settings name another layer, that is the cause."""
    stages, cause = stages_of("bart", num_layers=3)
    check_lines(stages, cause, "embeddings")
    assert cause == "another layer: 3 here, 2 recorded."


def test_all_layers_of_another_depth() -> None:
    """Another number of layers is another number of values, not a crash."""
    stages, cause = stages_of("t5", all_layers=False, num_layers=2)
    check_lines(stages, cause, "embeddings")
    assert stages[2].difference.startswith("another number of values in ")


def test_clamped_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A best similarity that is clamped at 0 is seen at the matches, where the pairs have negative ones."""
    match = update.match_pairs
    monkeypatch.setattr(update, "match_pairs", lambda *texts: tuple(side.clamp(min=0) for side in match(*texts)))
    stages, cause = stages_of("modernbert", dtype="bfloat16")
    check_lines(stages, cause, "matches")
    assert cause == (
        "the best similarities are found by another rule, for instance with a maximum that is clamped at 0."
    )


def test_clamped_maximum_of_a_model_without_negative_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is also seen with a model whose best similarities are all positive: fixed vectors are matched, too."""
    match = matching.greedy_match
    monkeypatch.setattr(matching, "greedy_match", lambda *sides: tuple(side.clamp(min=0) for side in match(*sides)))
    stages, cause = stages_of("albert")
    check_lines(stages, cause, "matches")
    assert " in 2 of 68 pairs" in stages[3].difference


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta"], ids=["with idf", "without idf"])
def test_idf_off_by_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An idf that counts one text more is seen at idf, also where scores do not use it."""
    count = weighting.inverse_document_frequencies

    def off_by_one(counts: Any, zero_ids: Any = ()) -> IdfTable:
        return count(dataclasses.replace(counts, n=counts.n + 1), zero_ids)

    monkeypatch.setattr(weighting, "inverse_document_frequencies", off_by_one)
    monkeypatch.setattr("bertscore_metric.scorer.inverse_document_frequencies", off_by_one)
    stages, cause = stages_of(name)
    check_lines(stages, cause, "idf")
    assert stages[4].difference.startswith("up to 0.0148 in ")
    assert stages[5].same is (name != "roberta")
    assert cause == "idf is counted or smoothed by another rule."


def test_other_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another F1 is seen at the scores, with the segment and both numbers."""
    monkeypatch.setattr(aggregation, "f1_score", lambda p, r: torch.maximum(p, r))
    stages, cause = stages_of("llama")
    check_lines(stages, cause, "scores")
    assert "; F1 of segment " in stages[5].difference
    assert cause == "precision, recall and F1 are averaged by another rule."


def test_other_rescaling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rule of rescaling is seen at the rescaled scores alone."""
    monkeypatch.setattr(result, "rescale", lambda scores, baseline: scores - baseline[:, None])
    stages, cause = stages_of("distilbert")
    check_lines(stages, cause, "rescaled")
    assert cause == "another baseline, or another rule of rescaling."


def test_other_baseline(tmp_path: Path) -> None:
    """Another baseline is the cause where it is one."""
    (tmp_path / "other.csv").write_text("LAYER,P,R,F\n2,0.1,0.1,0.1\n")
    stages, cause = stages_of("distilbert", baseline_path=str(tmp_path / "other.csv"))
    check_lines(stages, cause, "rescaled")
    assert cause.startswith("another baseline: ")


def test_baseline_that_is_gone() -> None:
    """Values that are no longer rescaled are a difference, and none that nobody recorded is overlooked."""
    values = recorded("distilbert")
    gone = compare(values, dataclasses.replace(values, rescaled=[], baseline=[]))
    assert gone[6].difference == "its baseline: there is none here any more"
    new = compare(dataclasses.replace(values, rescaled=[], baseline=[]), values)
    assert new[6].difference == "its baseline: there is one here, none was recorded"


def test_versions_are_the_first_suspects() -> None:
    """Where versions have changed, they are named before the usual reasons."""
    values = recorded("bert")
    old = dataclasses.replace(values, made_with={**values.made_with, "transformers": "4.1", "device": "cuda"})
    said = likely_cause(old, values, Stage("token ids", "1 of 2 texts"))
    assert said.startswith(f"transformers {values.made_with['transformers']} here, 4.1 recorded. If that is not it: ")
    said = likely_cause(old, values, Stage("embeddings", "up to 1 in 1 of 2 texts"))
    assert "computed on cpu here, on cuda when recorded, beyond the usual tolerance" in said
    assert "transformers" not in likely_cause(old, values, Stage("matches", "up to 1 in 1 of 2 pairs"))


# --- noise ------------------------------------------------------------------------------------------------------------


def with_noise(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Add noise to every embedding."""
    embed: Callable[..., Tensor] = encoder.HuggingFaceEncoder.embed

    def noisy(self: Any, batch: Any) -> Tensor:
        clean = embed(self, batch)
        scale = torch.linalg.vector_norm(clean, dim=-1, keepdim=True)
        return clean + size * scale * torch.linspace(-1, 1, clean.numel()).sin().reshape(clean.shape)

    monkeypatch.setattr(encoder.HuggingFaceEncoder, "embed", noisy)


def test_noise_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of float32's size is not a difference, though hashes are others; a hundred times of it is one."""
    values = recorded("llama")
    with_noise(monkeypatch, 1e-6)
    stages, _ = stages_of("llama")
    assert first_that_differs(stages) is None
    now = record(scorer_of(values, "llama"), values.pairs)
    assert now.embeddings != values.embeddings
    with_noise(monkeypatch, 1e-4)
    check_lines(*stages_of("llama"), "embeddings")


def test_hash_alone_decides_nothing() -> None:
    """Numbers decide; the hash only says whether all values are equal to three decimals."""
    values = recorded("llama")
    assert [stage.exact for stage in compare(values, values)][2:4] == [True, True]
    other = dataclasses.replace(values, hashes={"embeddings": "0", "matches": "0"})
    stages = compare(other, values)
    assert first_that_differs(stages) is None
    assert [stage.exact for stage in stages][2:4] == [False, False]
    moved = dataclasses.replace(values, embeddings=[[one + 0.1 for one in row] for row in values.embeddings])
    assert [stage.name for stage in compare(moved, values) if not stage.same] == ["embeddings"]


def test_tolerances() -> None:
    """What may be apart follows the coarser dtype, and is more on another kind of device or compiled."""
    values = recorded("bart")

    def like(text: str, other: str, device: str = "cpu") -> Record:
        signature = values.signature.replace(text, other)
        return dataclasses.replace(values, signature=signature, made_with={**values.made_with, "device": device})

    assert tolerance_between(values, values) == 1e-5
    assert tolerance_between(values, like("", "", "cuda")) == 4e-5
    assert tolerance_between(values, like("dtype:float32", "dtype:bfloat16")) == 1e-2
    assert tolerance_between(like("dtype:float32", "dtype:float16"), values) == 1e-3
    assert tolerance_between(values, like("dtype:float32", "dtype:float32|compiled:yes")) == 4e-5


def test_rescaled_scores_may_be_further_apart() -> None:
    """Noise that the raw scores may have is not a difference once it is divided by 1 - b."""
    values = recorded("distilbert")
    high = dataclasses.replace(values, baseline=[[0.9, 0.9, 0.9]])
    moved = dataclasses.replace(high, rescaled=[[one + 5e-5 for one in row] for row in high.rescaled])
    assert compare(high, moved)[6].same
    assert not compare(values, dataclasses.replace(moved, baseline=values.baseline))[6].same


def test_batches_do_not_matter() -> None:
    """Texts that are embedded one by one give the values that were recorded in batches."""
    values = recorded("roberta")
    scorer = BERTScorer(model_path("roberta"), num_layers=2, idf=True, batch_size=1)
    assert first_that_differs(compare(values, record(scorer, values.pairs))) is None


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_record_is_of_its_pairs() -> None:
    """Records of other pairs cannot be compared."""
    values = recorded("bert")
    with pytest.raises(ValueError, match=r"^Only records of the same pairs can be compared; use record\(scorer, "):
        compare(values, dataclasses.replace(values, pairs=[("a", ["b"])]))


def test_round_trip() -> None:
    """A file holds everything, the invisible characters of the pairs included, and has few kilobytes."""
    values = recorded("roberta")
    text = values.to_json()
    assert read_record(text, "file") == values
    assert text == (RECORDS / "roberta.json").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.encode()) < 64_000


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_build_the_scorer_again(name: str) -> None:
    """The settings in a file, read back from JSON, give the signature of then: tables, texts and layers too."""
    values = recorded(name)
    assert scorer_of(values, name).signature["weights"] == values.weights
    ours, theirs = (text.split("|weights:")[0] for text in (str(scorer_of(values, name).signature), values.signature))
    assert ours == theirs


def test_permissions_are_not_recorded() -> None:
    """A file cannot allow code of a model to run, or pickled weights to be read."""
    allowed = BERTScorer(model_path("bert"), num_layers=1, trust_remote_code=True, use_safetensors=False)
    settings = record(allowed, [("a", ["a"])]).settings
    assert settings == {"model_name_or_path": model_path("bert"), "num_layers": 1}


def test_default_layer_and_language_are_recorded() -> None:
    """What a table chose is written down, since the table may choose otherwise one day."""
    assert record(BERTScorer("offline"), [("a", ["a"])]).settings["num_layers"] == 6


def test_known_baseline_is_used_without_being_asked_for(tmp_path: Path) -> None:
    """Where the tables have a baseline, scores are rescaled too: of the language, else of one there is."""
    folder = tmp_path / "bert-base-multilingual-cased"
    shutil.copytree(model_path("bert"), folder)
    pairs = [("the cat sat", ["a cat"])]
    asked = {
        lang: record(BERTScorer(str(folder), num_layers=2, lang=lang, rescale_with_baseline=True), pairs)
        for lang in ("cs", "en")
    }
    assert record(BERTScorer(str(folder), num_layers=2, lang="cs"), pairs).rescaled == asked["cs"].rescaled
    assert record(BERTScorer(str(folder), num_layers=2), pairs).rescaled == asked["en"].rescaled
    assert asked["cs"].rescaled != asked["en"].rescaled
    every = record(BERTScorer(str(folder), all_layers=True), pairs)
    assert len(every.rescaled[0]) == 3 * 5 == 3 * len(every.baseline)
    assert every.rescaled[0][2] == pytest.approx(asked["en"].rescaled[0][0], abs=1e-6)


def test_own_encoder() -> None:
    """A custom encoder can be recorded and compared; its file names no model."""
    scorer = BERTScorer(encoder=HashEncoder(), tokenizer=AutoTokenizer.from_pretrained(model_path("bert")))
    values = record(scorer)
    assert "model_name_or_path" not in values.settings
    assert first_that_differs(compare(values, record(scorer))) is None


def test_scorer_stays_as_it_is() -> None:
    """Recording leaves what a scorer has streamed alone, and its values are those that users get."""
    scorer = BERTScorer(model_path("bert"), num_layers=2)
    scorer.update(["a cat"], ["a dog"])
    values = record(scorer, [("the cat", ["a cat", "the dog"])])
    assert scorer.compute().n_segments == 1
    expected = [column.item() for column in scorer.score(["the cat"], [["a cat", "the dog"]])]
    assert values.scores[0] == pytest.approx(expected, abs=1e-7)


CONTENT = json.loads((RECORDS / "bert.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a cat\n", r"^x is not a file of `bertscore-metric verify --record`: Expecting value"),
        ("[" * 100_000, r"^x is not a file of `bertscore-metric verify --record`: "),
        ("[1, 2]", r"^x is not a file of `bertscore-metric verify --record`: it does not say that it holds 'values"),
        ('{"mean": 1}', r"it does not say that it holds 'values of bertscore-metric verify'\.$"),
        ('{"a": 1, "a": 2}', r"^x is not a file .*: 'a' occurs twice in an object\.$"),
        (json.dumps({**CONTENT, "format": "1"}), r"^x has the format '1', which is not a whole number from 1 up; rec"),
        (
            json.dumps({**CONTENT, "format": FORMAT + 1}),
            rf"^x has the format {FORMAT + 1}, and this version reads formats up to {FORMAT}; upgrade bertscore_metric",
        ),
        (
            json.dumps({name: value for name, value in CONTENT.items() if name != "idf"}),
            r"^x has no 'idf'; it is not complete, so record it again\.$",
        ),
        (
            json.dumps({**CONTENT, "scores": [["a"]]}),
            r"^x: 'scores' does not hold lists of numbers; it was damaged, so record it again\.$",
        ),
        (json.dumps({**CONTENT, "scores": [[float("nan")]]}), r"^x: 'scores' does not hold lists of numbers;"),
        (json.dumps({**CONTENT, "pairs": [["a", []]]}), r"^x: 'pairs' does not hold candidates with their references;"),
        (json.dumps({**CONTENT, "idf": {"the": 1}}), r"^x: 'idf' does not hold ids with numbers;"),
        (json.dumps({**CONTENT, "token_ids": [[1.5]]}), r"^x: 'token_ids' does not hold lists of whole numbers;"),
    ],
)
def test_what_is_no_record(text: str, message: str) -> None:
    """A foreign, later or damaged file is refused in a sentence."""
    with pytest.raises(ValueError, match=message):
        read_record(text, "x")


def test_values_of_another_number_of_texts() -> None:
    """A file whose values do not belong to its pairs shows as a difference."""
    values = recorded("bert")
    fewer = dataclasses.replace(values, token_ids=values.token_ids[1:], scores=values.scores[1:], idf={})
    stages = compare(fewer, values)
    assert stages[0].difference == "122 texts here, 121 recorded"
    assert stages[4].difference == f"{len(values.idf)} ids that only one of the two has"
    assert "another number of values in " in stages[5].difference


def test_fixed_vectors_have_negative_and_padded_matches() -> None:
    """The vectors that are matched without a model have what a clamped or an unmasked maximum changes."""
    rows = verification._fixed_matches()
    assert [len(row) for row in rows] == [4, 6]
    assert min(min(row) for row in rows) < -0.5
