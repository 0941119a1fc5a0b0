"""An old result's signature becomes settings again, or the error says what it cannot tell."""

from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS, model_path

from bertscore_metric import BERTScorer, ScoreConfig, Signature, cli
from bertscore_metric.core.baseline import find_baseline

BASELINE = str(TESTS / "golden" / "baseline.csv")
MULTILINGUAL = "bert-base-multilingual-cased"


def scorer_of(**settings: Any) -> BERTScorer:
    """Build a scorer with the tiny BERT."""
    layer = {} if settings.get("all_layers") else {"num_layers": 2}
    return BERTScorer(model_path("bert"), **{**layer, **settings})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_layers": 0},
        {"all_layers": True},
        {"idf": True},
        {"max_length": 20},
        {"max_length": 20, "long_text": "windows"},
        {"dtype": "bfloat16"},
        {"match_special_tokens": False},
        {"empty": "skip"},
    ],
    ids=str,
)
def test_repeats(settings: dict[str, Any]) -> None:
    """A scorer that is built from a signature, read from its line or as an object, has this signature."""
    signature = scorer_of(**settings).signature
    for one in (signature, str(signature)):
        config = ScoreConfig.from_signature(one, model_name_or_path=model_path("bert"))
        assert BERTScorer.from_config(config).signature == signature


def test_embedded_model_by_its_name() -> None:
    """The name of a hub model is all that is needed."""
    signature = BERTScorer("offline").signature
    assert BERTScorer.from_config(ScoreConfig.from_signature(signature)).signature == signature


def test_baseline_is_found_by_its_hash() -> None:
    """A baseline of the tables gives its language back, of one layer or of all."""
    depth = 12
    for layer, part in ((9, "layer:9"), (None, "layer:all-raw")):
        hashed = find_baseline(lang="cs", model=MULTILINGUAL, num_layers=layer, depth=depth, path=None).name
        config = ScoreConfig.from_signature(f"model:{MULTILINGUAL}|{part}|rescale:{hashed}")
        assert (config.lang, config.rescale_with_baseline) == ("cs", True)


def test_compiled() -> None:
    """Compiling is named as it was set."""
    assert ScoreConfig.from_signature("model:x|compiled:yes").compile is True


def test_parts() -> None:
    """What a signature leaves out keeps its default, and what was found names no setting."""
    found = "weights:1|tokens:2|transformers:5.0|bertscore_metric:0.1.0"
    assert ScoreConfig.from_signature(f"model:offline|{found}") == ScoreConfig(model_name_or_path="offline")
    assert ScoreConfig.from_signature("layer:3\n") == ScoreConfig(num_layers=3)


def test_what_is_known_beside_it() -> None:
    """Settings stand in for what hashes cannot tell."""
    table = scorer_of(idf=["the cat"], rescale_with_baseline=True, baseline_path=BASELINE).signature
    known = {"model_name_or_path": model_path("bert"), "idf": ["the cat"], "baseline_path": BASELINE}
    assert BERTScorer.from_config(ScoreConfig.from_signature(table, **known)).signature == table
    assert ScoreConfig.from_signature(table, idf=False, rescale_with_baseline=False).idf is False
    assert ScoreConfig.from_signature("layer:own", num_layers=2).num_layers == 2
    config = ScoreConfig.from_signature(table, idf=False, lang="en")
    assert (config.lang, config.rescale_with_baseline) == ("en", True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", r"^Not a signature: ''; expected key:value\|key:value\|\.\.\.$"),
        ("model", r"^Not a signature: 'model'; "),
        ("model:|layer:2", r"^Not a signature: "),
        ("model:a|model:b", r"^The signature 'model:a\|model:b' has 'model' twice\.$"),
        ("model:a|layers:2", r"^Unknown part 'layers' of a signature; did you mean 'layer'\? Known: model, idf, "),
        (
            "idf:3f2a",
            r"^idf:3f2a in the signature is the hash of a table, from which its weights cannot be told; give ",
        ),
        (
            "layer:own",
            r"^layer:own in the signature is an encoder of somebody's own, which no setting names; a program",
        ),
        ("layer:two", r"^layer:two in the signature is not a whole number\.$"),
        ("maxlen:-1", r"^maxlen:-1 in the signature is not a whole number\.$"),
        ("special:maybe", r"^special:maybe in the signature is not known; it may be match, skip\.$"),
        ("compiled:no", r"^compiled:no in the signature is not known; it may be yes, auto\.$"),
        ("empty:drop", r"^empty must be one of score, skip; got 'drop'\.$"),
        ("dtype:int8", r"^dtype must be one of float32, tf32, bfloat16, float16, auto; got 'int8'\.$"),
        (
            "model:bert|layer:2|rescale:0123abcd",
            r"^rescale:0123abcd in the signature is the hash of a baseline that the tables do not have for bert; give "
            r"its file \(baseline_path=\.\.\.\) or its language \(lang=\.\.\.\)\.$",
        ),
        (f"model:{MULTILINGUAL}|layer:99|rescale:0123abcd", r"is the hash of a baseline that the tables do not have "),
        ("rescale:0123abcd", r"that the tables do not have for a model without a name; give "),
    ],
)
def test_what_it_cannot_tell(line: str, message: str) -> None:
    """What is not a signature, or does not tell a setting, is an error that says what to give."""
    with pytest.raises(ValueError, match=message):
        ScoreConfig.from_signature(line)


def test_differences() -> None:
    """What keeps signatures from being comparable is named; the model's name and neutral versions are not it."""
    one = Signature.parse("model:a|layer:2|weights:1|transformers:5.1")
    other = Signature.parse("model:b|layer:3|weights:1|tokens:7|transformers:5.2")
    assert one.differences(other) == {"layer": ("2", "3")}
    assert one.differences(one) == {}


# --- the command line -------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[list[str], str]:
    """Score two words and return the lines on stdout and what was said on stderr."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["score", "--text", "-c", "a cat", "-r", "a dog", *arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    return output.out.splitlines(), output.err


def test_like(capsys: pytest.CaptureFixture[str]) -> None:
    """`--like` repeats a result to the last digit, and has nothing to say."""
    old, _ = run(capsys, "-m", "offline", "-l", "4", "--no-match-special-tokens", "--max-length", "100")
    again, said = run(capsys, "--like", old[-1])
    assert again == old
    assert said == ""


def test_like_of_other_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """Weights, tokens and versions that are not those of then are named on stderr."""
    lines, said = run(capsys, "--like", "model:offline|layer:4|weights:123|tokens:70|transformers:4.1")
    assert "|layer:4|" in lines[-1]
    now = dict(Signature.parse(lines[-1]).items)
    assert said == (
        f"bertscore-metric: These scores do not repeat the signature: weights is {now['weights']}, and was 123; tokens "
        f"is {now['tokens']}, and was 70; transformers is {now['transformers']}, and was 4.1.\n"
    )
    assert run(capsys, "--like", "model:offline|weights:123", "--quiet")[1] == ""


def test_like_of_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is known by its last name only, so `--model` says where it is; so does the error without it."""
    old, _ = run(capsys, "-m", model_path("bert"), "-l", "2")
    assert run(capsys, "--like", old[-1], "-m", model_path("bert"))[0] == old
    _, said = run(capsys, "--like", old[-1].replace("model:bert", "model:no-such-model"), code=2)
    assert said.startswith("bertscore-metric: error: Cannot load the model 'no-such-model': ")
    assert said.endswith("A signature has only the last name of a folder: give its path with --model.\n")


def test_like_with_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The hash of a table needs the table; another table than then is named."""
    (tmp_path / "one.json").write_text('{"default": 2.0, "7": 0.5}')
    (tmp_path / "two.json").write_text('{"default": 3.0, "7": 0.5}')
    old, _ = run(capsys, "-m", "offline", "--idf-table", str(tmp_path / "one.json"))
    _, said = run(capsys, "--like", old[-1], code=2)
    assert said.endswith("give the texts with --idf-texts or the table with --idf-table.\n")
    assert run(capsys, "--like", old[-1], "--idf-table", str(tmp_path / "one.json")) == (old, "")
    _, said = run(capsys, "--like", old[-1], "--idf-table", str(tmp_path / "two.json"))
    assert "do not repeat the signature: idf is " in said


def test_like_and_config(capsys: pytest.CaptureFixture[str]) -> None:
    """Settings come from one place."""
    _, said = run(capsys, "--like", "model:offline", "--config", "offline", code=2)
    assert said == "bertscore-metric: error: --config and --like each say the settings; give one of them.\n"
    _, said = run(capsys, "--like", "model:offline|rescale:12", code=2)
    assert said.endswith("give its file (--baseline-path ...) or its language (--lang ...).\n")
