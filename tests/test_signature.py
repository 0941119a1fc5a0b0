"""The signature holds every setting that changes a number, nothing else, and can be read back."""

import copy
import dataclasses
import re
import shutil
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import model_path, shared_scorer
from fakes import HashEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoModel, AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreResult, BERTScoreWarning, IdfTable, ScoreConfig, Signature
from bertscore_metric.signature import NUMBER_NEUTRAL_VERSIONS

KEYS = [
    *("model", "layer", "idf", "rescale", "dtype", "maxlen", "special", "empty", "weights", "tokens"),
    *("transformers", "bertscore_metric"),
]
MULTILINGUAL = "bert-base-multilingual-cased"  # a name under which the table has baselines of several languages

# Texts on which every setting shows: several words, one of them empty, one longer than a limit of 8.
CANDIDATES = ["the cat sat on the mat .", "", "hello there", "New York is big"]
REFERENCES = ["a cat was sitting on the mat .", "I like it.", "the cat sat on the mat .", "hello there"]


def scorer_of(config: dict[str, Any]) -> BERTScorer:
    """Build a scorer with a tiny model, at layer 2 unless the settings say otherwise."""
    base: dict[str, Any] = {"model_name_or_path": model_path("bert")}
    if not config.get("all_layers"):
        base["num_layers"] = 2
    return BERTScorer(**{**base, **config})


def scores_of(scorer: BERTScorer) -> BERTScoreResult:
    """Score the texts above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BERTScoreWarning)  # about the empty text, which is meant to be there
        return scorer.score(CANDIDATES, REFERENCES)


def same_numbers(one: BERTScoreResult, other: BERTScoreResult) -> bool:
    """Return whether two results have the same scores and the same mean."""
    same_shape = one.f1.shape == other.f1.shape
    return same_shape and torch.equal(torch.stack([*one]), torch.stack([*other])) and one.mean == other.mean


# --- every setting ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with baseline files and a copy of the tiny model under a name that the tables know."""
    folder = tmp_path_factory.mktemp("signature")
    shutil.copytree(model_path("bert"), folder / MULTILINGUAL)
    (folder / "one.csv").write_text("LAYER,P,R,F\n2,0.1,0.2,0.3\n")
    (folder / "two.csv").write_text("LAYER,P,R,F\n2,0.2,0.3,0.4\n")
    return folder


# field -> settings of a scorer, and the settings that change; `{}` stands for the folder of the fixture
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "model_name_or_path": ({}, {"model_name_or_path": model_path("distilbert")}),
    "num_layers": ({}, {"num_layers": 3}),
    "all_layers": ({}, {"all_layers": True, "num_layers": None}),
    "lang": (
        {"model_name_or_path": f"{{}}/{MULTILINGUAL}", "rescale_with_baseline": True, "lang": "de"},
        {"lang": "cs"},
    ),
    "idf": ({}, {"idf": True}),
    "rescale_with_baseline": ({}, {"rescale_with_baseline": True, "baseline_path": "{}/one.csv"}),
    "baseline_path": ({"rescale_with_baseline": True, "baseline_path": "{}/one.csv"}, {"baseline_path": "{}/two.csv"}),
    "max_length": ({}, {"max_length": 8}),
    "long_text": ({"max_length": 8}, {"long_text": "windows"}),
    "dtype": ({}, {"dtype": "bfloat16"}),
    "match_special_tokens": ({}, {"match_special_tokens": False}),
    "empty": ({}, {"empty": "skip"}),
}
# field -> a value that changes no number of a text that can be scored at all, and why
NEUTRAL: dict[str, tuple[dict[str, Any], str]] = {
    "revision": ({"revision": "v1"}, "a local folder has no revisions; of a hub model the commit is in `weights`"),
    "trust_remote_code": ({"trust_remote_code": True}, "the model here has no code of its own; a permission, no rule"),
    "use_safetensors": ({"use_safetensors": False}, "another file format of the same weights, whose hash is there"),
    "local_files_only": ({"local_files_only": True}, "the same files from nearer by"),
}


def test_every_setting_is_accounted_for() -> None:
    """Every field of the config but one is in exactly one of the tables above."""
    named = [*CHANGES, *NEUTRAL, "compile"]  # which changes numbers by rounding alone: tests/test_compiled.py
    assert sorted(named) == sorted(field.name for field in dataclasses.fields(ScoreConfig))


@pytest.mark.parametrize("name", CHANGES)
def test_settings_that_change_numbers(name: str, folder: Path) -> None:
    """A setting that changes the scores changes the signature, so that they never pass as comparable."""
    base, change = ({key: value.format(folder) if isinstance(value, str) else value for key, value in part.items()}
                    for part in CHANGES[name])  # fmt: skip
    assert name in change
    one, other = scorer_of(base), scorer_of({**base, **change})
    assert not same_numbers(scores_of(one), scores_of(other))
    assert one.signature != other.signature
    assert not one.signature.comparable_to(other.signature)


@pytest.mark.parametrize("name", NEUTRAL)
def test_settings_that_change_no_number(name: str) -> None:
    """A setting that changes no score is not in the signature."""
    change, _ = NEUTRAL[name]
    one, other = scorer_of({}), scorer_of(change)
    assert same_numbers(scores_of(one), scores_of(other))
    assert one.signature == other.signature


def test_setting_that_refuses_texts() -> None:
    """Refusing long texts instead of cutting them changes no number, and is not in the signature."""
    one, other = scorer_of({"max_length": 8}), scorer_of({"max_length": 8, "long_text": "error"})
    assert one.signature == other.signature
    assert scores_of(one).n_truncated > 0
    with pytest.raises(ValueError, match=r"tokens, and the limit is 8: "):
        scores_of(other)


def test_windows_only_count_where_there_is_a_limit() -> None:
    """With windows `maxlen` is the window; a model without a limit never needs one, and then nothing is said."""
    signature = scorer_of({"max_length": 8, "long_text": "windows"}).signature
    assert (signature["maxlen"], signature["long"]) == ("8", "windows")
    free, windows = (
        BERTScorer(model_path("deberta-v3-nomax"), num_layers=2, long_text=rule) for rule in ("truncate", "windows")
    )
    assert free.signature == windows.signature


def test_language_that_only_chose_the_model() -> None:
    """Without rescaling the language changes no number, and is not in the signature."""
    assert scorer_of({"lang": "de"}).signature == scorer_of({}).signature


@pytest.mark.parametrize("lang", ["de-AT", "DE"])
def test_ways_to_write_a_language(lang: str, folder: Path) -> None:
    """The same baseline gives the same signature, however the language is written."""
    model = {"model_name_or_path": str(folder / MULTILINGUAL), "rescale_with_baseline": True}
    one, other = scorer_of({**model, "lang": "de"}), scorer_of({**model, "lang": lang})
    assert same_numbers(scores_of(one), scores_of(other))
    assert one.signature == other.signature


IDF: dict[str, Any] = {
    "no": False,
    "corpus": True,
    "texts": ["the cat", "a mat"],
    "other texts": ["the cat", "a dog"],
    "table": IdfTable({5: 0.5}, default=2.0),
    "other weight": IdfTable({5: 0.6}, default=2.0),
    "other default": IdfTable({5: 0.5}, default=2.1),
}


def test_every_idf_has_its_own_signature() -> None:
    """Each kind of idf is told from the others; a table is named by its content, not by how it was given."""
    values = {kind: scorer_of({"idf": idf}).signature["idf"] for kind, idf in IDF.items()}
    assert len(set(values.values())) == len(IDF)
    assert (values["no"], values["corpus"]) == ("no", "corpus")
    assert values["table"] == IDF["table"].fingerprint
    assert scorer_of({"idf": {"default": 2.0, 5: 0.5}}).signature["idf"] == values["table"]
    assert scorer_of({"idf": tuple(IDF["texts"])}).signature["idf"] == values["texts"]


@pytest.mark.filterwarnings("ignore:max_length=1000000 is above")
def test_what_takes_effect_counts() -> None:
    """A setting above the model's limit, or one that names the default, has the signature of what it amounts to."""
    assert scorer_of({"max_length": 10**6}).signature == scorer_of({}).signature
    assert scorer_of({"dtype": torch.float32}).signature == scorer_of({}).signature
    assert scorer_of({"max_length": 64}).signature["maxlen"] == scorer_of({}).signature["maxlen"] == "64"


# --- the model --------------------------------------------------------------------------------------------------------


def test_run_settings_are_not_in_it() -> None:
    """How fast and where texts are scored is not in the signature, nor is the place of the model."""
    signature = str(scorer_of({}).signature)
    for run_settings in ({"batch_size": 1}, {"device": "cpu"}, {"verbose": True}):
        assert str(scorer_of(run_settings).signature) == signature
    assert "/" not in signature
    assert "cpu" not in signature


def test_copy_of_a_model(tmp_path: Path) -> None:
    """A copy of the model under the same name elsewhere has the same signature; other weights have another."""
    copied = tmp_path / "elsewhere" / "bert"
    shutil.copytree(model_path("bert"), copied)
    assert scorer_of({"model_name_or_path": str(copied)}).signature == scorer_of({}).signature
    model = AutoModel.from_pretrained(copied)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[5:].add_(0.01)
    model.save_pretrained(copied)
    changed = scorer_of({"model_name_or_path": str(copied)}).signature
    assert changed["weights"] != scorer_of({}).signature["weights"]
    assert changed["model"] == scorer_of({}).signature["model"]


def test_model_objects() -> None:
    """Models given as objects are told apart by their weights."""
    tokenizer = AutoTokenizer.from_pretrained(model_path("bert"))
    model = AutoModel.from_pretrained(model_path("bert"))
    one = BERTScorer(model=model, tokenizer=tokenizer, num_layers=2).signature
    assert BERTScorer(model=copy.deepcopy(model), tokenizer=tokenizer, num_layers=2).signature == one
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight.mul_(1.5)
    assert BERTScorer(model=model, tokenizer=tokenizer, num_layers=2).signature["weights"] != one["weights"]


def test_own_tokenizer() -> None:
    """A tokenizer that gives other tokens, and so other scores, gives another signature."""
    tokenizer = AutoTokenizer.from_pretrained(model_path("bert"))
    assert scorer_of({"tokenizer": tokenizer}).signature == scorer_of({}).signature
    backend = tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Sequence([backend.normalizer, normalizers.Replace("cat", "mat")])
    own = scorer_of({"tokenizer": tokenizer})
    assert not same_numbers(scores_of(own), scores_of(scorer_of({})))
    assert own.signature != scorer_of({}).signature


def test_own_encoder() -> None:
    """A custom encoder is named by its class and known by its fingerprint."""
    tokenizer = AutoTokenizer.from_pretrained(model_path("bert"))
    encoder = HashEncoder()
    signature = BERTScorer(encoder=encoder, tokenizer=tokenizer).signature
    assert signature["model"] == "HashEncoder"
    assert signature["weights"] == "hash-encoder"
    assert signature["layer"] == "own"
    encoder.fingerprint = "another"
    assert not BERTScorer(encoder=encoder, tokenizer=tokenizer).signature.comparable_to(signature)


@pytest.mark.parametrize("fingerprint", ["a|b", "a|b:c", "a:b", " a ", "a\nb"])
def test_own_encoder_with_an_odd_fingerprint(fingerprint: str) -> None:
    """A signature is one line that is read back as it was, whatever a custom encoder calls itself."""
    encoder = HashEncoder()
    encoder.fingerprint = fingerprint
    signature = BERTScorer(encoder=encoder, tokenizer=AutoTokenizer.from_pretrained(model_path("bert"))).signature
    assert Signature.parse(str(signature)) == signature
    assert len(str(signature).splitlines()) == 1


def test_folder_with_an_odd_name(tmp_path: Path) -> None:
    """A signature is read back as it was, whatever the folder of the model is called."""
    odd = tmp_path / "my|model:v1"
    shutil.copytree(model_path("bert"), odd)
    signature = scorer_of({"model_name_or_path": str(odd)}).signature
    assert Signature.parse(str(signature)) == signature


# --- the object -------------------------------------------------------------------------------------------------------


def test_grammar() -> None:
    """A signature is `key:value|key:value|...`, with every key once and the versions last."""
    signature = scorer_of({}).signature
    assert [key for key, _ in signature.items] == KEYS
    assert re.fullmatch(r"[^|:]+:[^|]+(\|[^|:]+:[^|]+)*", str(signature))
    assert signature["model"] == "bert"
    assert signature["layer"] == "2"
    assert scorer_of({"all_layers": True}).signature["layer"] == "all-raw"
    assert signature["transformers"] == version("transformers")
    assert str(signature).endswith(f"|bertscore_metric:{version('bertscore_metric')}")


def test_unknown_key() -> None:
    """A key that is not there is a KeyError."""
    with pytest.raises(KeyError, match="batch_size"):
        scorer_of({}).signature["batch_size"]


def test_known_before_scoring() -> None:
    """The signature is there before anything is scored, and is that of the result."""
    scorer = shared_scorer("bert", num_layers=2)
    assert scorer.signature == scores_of(scorer).signature


def test_frozen() -> None:
    """A signature cannot be changed, and may be a key."""
    signature = scorer_of({}).signature
    with pytest.raises(AttributeError, match="items"):
        signature.items = ()  # type: ignore[misc]
    assert {signature: 1}[scorer_of({}).signature] == 1


keys = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)
values = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="|"), max_size=8)


@given(st.lists(st.tuples(keys, values), min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_parse_round_trip(items: list[tuple[str, str]]) -> None:
    """A signature read back from its line, also with blanks or a line break around it, is the same."""
    signature = Signature(tuple(items))
    assert Signature.parse(str(signature)) == signature
    assert Signature.parse(f"  {signature}\n") == signature


def test_parse_of_a_scorers_signature() -> None:
    """The signature of a scorer is read back from its line."""
    signature = scorer_of({"idf": True}).signature
    assert Signature.parse(str(signature)) == signature
    assert Signature.parse(str(signature)).comparable_to(signature)


@pytest.mark.parametrize("text", ["", "model", "model:bert|layer", ":bert", "model:bert||layer:2", "model:bert|"])
def test_parse_what_is_no_signature(text: str) -> None:
    """A text that is not a signature is shown beside what one looks like."""
    with pytest.raises(
        ValueError, match=rf"^Not a signature: {re.escape(repr(text))}; expected key:value\|key:value\|"
    ):
        Signature.parse(text)


# --- comparable_to ----------------------------------------------------------------------------------------------------


def with_item(signature: Signature, key: str, value: str) -> Signature:
    """Return a signature in which one value is another."""
    return Signature(tuple((k, value if k == key else v) for k, v in signature.items))


@pytest.fixture(scope="module")
def signature() -> Signature:
    """Return a signature under versions of today."""
    one = with_item(scorer_of({}).signature, "transformers", "5.24.0")
    return with_item(one, "bertscore_metric", "0.1.0")


@pytest.mark.parametrize(
    ("key", "value", "comparable"),
    [
        ("transformers", "5.0.0", True),
        ("transformers", "5.99.1.dev0", True),
        ("transformers", "4.57.6", False),
        ("transformers", "50.1", False),
        ("transformers", "6.0.0", False),
        ("bertscore_metric", "0.1.9", True),
        ("bertscore_metric", "0.10.0", False),
        ("bertscore_metric", "0.2.0", False),
        ("bertscore_metric", "1.0.1", False),
    ],
)
def test_versions(signature: Signature, key: str, value: str, comparable: bool) -> None:
    """Only versions that are declared to give the same numbers compare, in both directions."""
    other = with_item(signature, key, value)
    assert other != signature
    assert signature.comparable_to(other) is other.comparable_to(signature) is comparable


@pytest.mark.parametrize("key", KEYS)
def test_every_key_counts(signature: Signature, key: str) -> None:
    """A difference in any key, but for neutral versions, makes scores incomparable; a missing key does, too."""
    assert signature.comparable_to(signature)
    named = key == "model"  # a label: the hashes say which model it is
    assert signature.comparable_to(with_item(signature, key, "something else")) is named
    assert named or not signature.comparable_to(Signature(tuple(item for item in signature.items if item[0] != key)))


def test_unknown_versions_compare_with_themselves(signature: Signature) -> None:
    """A version in no group is comparable to itself only."""
    old = with_item(signature, "transformers", "4.57.6")
    assert old.comparable_to(with_item(signature, "transformers", "4.57.6"))
    assert not old.comparable_to(with_item(signature, "transformers", "4.57.5"))


def test_neutral_versions_are_those_of_the_signature() -> None:
    """The list of neutral versions speaks of keys that signatures have."""
    assert set(NUMBER_NEUTRAL_VERSIONS) <= set(KEYS)
