"""The tables are complete and consistent, and the lookup finds what they say."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import pytest

from bertscore_metric import registry

TABLES = {
    "layers.tsv": (["model", "layer", "source"], 1),
    "aliases.tsv": (["alias", "model"], 1),
    "languages.tsv": (["language", "model", "name"], 1),
    "language_codes.tsv": (["code", "language"], 1),
    "baselines.tsv": (["language", "model", "layer", "precision", "recall", "f1"], 3),
}

# bert-base-multilingual-cased is the default of the 104 languages it was trained on, written as 103 codes, less the
# four with a model of their own (en, ko, tr, zh), and of the macrolanguages no and lah.
MULTILINGUAL_CODES = 103 - 4 + 2


def read_table(name: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Return a table's comments, header and rows, read without the code under test."""
    lines = files("bertscore_metric.registry").joinpath(name).read_bytes().decode("utf-8").split("\n")
    assert lines.pop() == "", "the last line must end"
    comments = [line for line in lines if line.startswith("#")]
    header, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return comments, header, rows


def key_of(row: list[str], width: int) -> tuple[str | int, ...]:
    """Return a row's key, with the layer as a number so that 10 comes after 9."""
    return tuple(int(cell) if index == 2 else cell for index, cell in enumerate(row[:width]))


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_table_is_tidy(table: str) -> None:
    """A table opens with comments, has the named columns, full cells, short lines, and unique keys in sorted order."""
    comments, header, rows = read_table(table)
    columns, key_width = TABLES[table]
    assert comments
    assert all(len(comment) <= 120 for comment in comments)
    assert header == columns
    assert all(len(row) == len(columns) and all(cell and cell == cell.strip() for cell in row) for row in rows)
    keys = [key_of(row, key_width) for row in rows]
    assert len(set(keys)) == len(keys)
    assert keys == sorted(keys)


@pytest.mark.parametrize("table", ["layers.tsv", "languages.tsv", "baselines.tsv"])
def test_table_names_its_source_and_licence(table: str) -> None:
    """Tables taken from bert_score keep its copyright line."""
    comments, _, _ = read_table(table)
    text = "\n".join(comments)
    assert "MIT License, Copyright (c) 2019 Tianyi Zhang" in text
    assert "bert_score 0.3.13" in text


def test_counts() -> None:
    """The tables have the number of rows their sources have."""
    sources = [row[2] for row in read_table("layers.tsv")[2]]
    assert len(sources) == len(registry.known_models()) == 144
    assert sources.count("bert_score 0.3.13") == 140
    assert len(read_table("aliases.tsv")[2]) == 31
    models = list(registry.known_languages().values())
    assert models.count("bert-base-multilingual-cased") == MULTILINGUAL_CODES
    assert len(models) == MULTILINGUAL_CODES + 5
    assert len(registry.baselines_for()) == 72
    assert len(read_table("baselines.tsv")[2]) == 1268


def test_layers_are_small_integers() -> None:
    """Every default layer is a layer number, 0 being the embedding output."""
    assert all(re.fullmatch(r"\d\d?", row[1]) for row in read_table("layers.tsv")[2])
    assert all(type(layer) is int and layer >= 0 for layer in registry.known_models().values())


def test_aliases_cover_every_name_without_namespace() -> None:
    """An alias is its model's name with a namespace, and every model named without one has exactly one alias."""
    aliases = dict(read_table("aliases.tsv")[2])
    assert all(alias.partition("/")[2] == model for alias, model in aliases.items())
    assert sorted(aliases.values()) == sorted(model for model in registry.known_models() if "/" not in model)
    assert not set(aliases) & set(registry.known_models())


def test_tables_agree_with_each_other() -> None:
    """Every language's model and every baseline's model has a default layer, within the baseline's layers."""
    layers = registry.known_models()
    assert set(registry.known_languages().values()) <= set(layers)
    for language, model in registry.baselines_for():
        rows = registry.baseline(language, model)
        assert language in registry.known_languages()
        assert rows is not None
        assert layers[model] in rows


def test_other_codes() -> None:
    """Every language with a code of two letters has one of three, which is no language's own code and finds it."""
    others = dict(read_table("language_codes.tsv")[2])
    assert not set(others) & set(registry.known_languages())
    assert set(others.values()) == {code for code in registry.known_languages() if re.fullmatch(r"[a-z]{2}", code)}
    assert {code for code, language in others.items() if len(code) == 2} == {"in", "iw", "jw", "mo"}
    for code, language in {"eng": "en", "deu": "de", "GER": "de", "cmn_TW": "zh", "fil": "tl", "iw": "he"}.items():
        assert registry.language_code(code) == language
        assert registry.model_for_language(code) == registry.model_for_language(language)


def test_language_codes_and_names() -> None:
    """Codes are lower-case ISO 639 codes (en-sci apart) and no two languages share a name."""
    rows = read_table("languages.tsv")[2]
    assert all(re.fullmatch(r"[a-z]{2,3}", code) or code == "en-sci" for code, _, _ in rows)
    names = [name.lower() for _, _, name in rows]
    assert len(set(names)) == len(names)


def test_baselines_are_complete() -> None:
    """Every baseline has a row for each layer from 0 on without a gap, in order, of numbers between 0 and 1."""
    for pair in registry.baselines_for():
        rows = registry.baseline(*pair)
        assert rows is not None
        assert len(rows) >= 7, pair
        assert list(rows) == list(range(len(rows))), pair
        assert all(len(row) == 3 and all(0 < value < 1 for value in row) for row in rows.values()), pair


# --- the values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("roberta-large", 17),
        ("FacebookAI/roberta-large", 17),
        ("google-bert/bert-base-uncased", 9),
        ("bert-base-chinese", 8),
        ("google-t5/t5-large", 23),
        ("distilbert/distilroberta-base", 5),
        ("openai-community/roberta-base-openai-detector", 7),
        ("microsoft/deberta-xlarge-mnli", 40),
        ("amazon/bort", 0),
        ("khalidalt/DeBERTa-v3-large-mnli", 18),
        ("beomi/kcbert-base", 4),
        ("monologg/kobert", 2),
        ("monologg/koelectra-base-v2-discriminator", 12),
        ("sentence-transformers/all-MiniLM-L6-v2", 6),
        ("monologg/distilkobert", None),
        ("somebody/roberta-large", None),
        ("", None),
    ],
)
def test_default_layer(model: str, layer: int | None) -> None:
    """Known models have their layer under both names, others have none."""
    assert registry.default_layer(model) == layer


def test_canonical_name_keeps_other_names() -> None:
    """Only aliases are renamed."""
    assert registry.canonical_name("FacebookAI/xlm-mlm-en-2048") == "xlm-mlm-en-2048"
    assert registry.canonical_name("roberta-large") == "roberta-large"
    assert registry.canonical_name("./my-model") == "./my-model"


@pytest.mark.parametrize(
    ("language", "model"),
    [
        ("en", "roberta-large"),
        ("zh", "bert-base-chinese"),
        ("tr", "dbmdz/bert-base-turkish-cased"),
        ("en-sci", "allenai/scibert_scivocab_uncased"),
        ("ko", "beomi/kcbert-base"),
        ("de", "bert-base-multilingual-cased"),
        ("th", "bert-base-multilingual-cased"),
        ("mn", "bert-base-multilingual-cased"),
        ("pnb", "bert-base-multilingual-cased"),
        ("EN", "roberta-large"),
        ("EN_SCI", "allenai/scibert_scivocab_uncased"),
        ("en-US", "roberta-large"),
        ("pt-BR", "bert-base-multilingual-cased"),
        ("zh_Hant_TW", "bert-base-chinese"),
        ("ko-KR", "beomi/kcbert-base"),
    ],
)
def test_model_for_language(language: str, model: str) -> None:
    """A code finds its model in any case and with a region or script behind it."""
    assert registry.model_for_language(language) == model


@pytest.mark.parametrize(
    "code", ["ast", "azb", "bar", "bpy", "ceb", "lah", "lmo", "min", "nds", "new", "pms", "scn", "sco", "sh", "war"]
)
def test_languages_beyond_two_letters(code: str) -> None:
    """Multilingual BERT's languages without a living two-letter code are there too."""
    assert registry.known_languages()[code] == "bert-base-multilingual-cased"


def test_baseline_rows() -> None:
    """Baselines hold the published digits."""
    english = registry.baseline("en", "roberta-large")
    assert english is not None
    assert english[17] == (0.83150584, 0.8314941, 0.83122575)
    assert english[0] == (0.3712891, 0.37132213, 0.36826715)
    assert len(english) == 25
    scientific = registry.baseline("en-sci", "allenai/scibert_scivocab_uncased")
    assert scientific is not None
    assert len(scientific) == 13


def test_baseline_normalises_both_arguments() -> None:
    """Aliases, case and regions find the same baseline."""
    expected = registry.baseline("pt", "xlm-roberta-base")
    assert expected is not None
    assert registry.baseline("pt_BR", "FacebookAI/xlm-roberta-base") == expected


@pytest.mark.parametrize(
    ("language", "model"),
    [("ja", "roberta-large"), ("en", "beomi/kcbert-base"), ("klingon", "roberta-large"), ("en-sci", "roberta-large")],
)
def test_baseline_missing(language: str, model: str) -> None:
    """A pair without a baseline gives None; en-sci does not fall back to en, whose texts are others."""
    assert registry.baseline(language, model) is None


def test_baselines_for() -> None:
    """The list of baselines can be narrowed by language, by model and by both."""
    german = ["bert-base-multilingual-cased", "xlm-mlm-100-1280", "xlm-roberta-base", "xlm-roberta-large"]
    assert registry.baselines_for("de-AT") == [("de", model) for model in german]
    assert registry.baselines_for(model="google-bert/bert-base-chinese") == [("zh", "bert-base-chinese")]
    assert registry.baselines_for("en", "FacebookAI/roberta-large") == [("en", "roberta-large")]
    assert registry.baselines_for("ja") == registry.baselines_for("klingon") == []
    assert registry.baselines_for() == sorted(registry.baselines_for())


# Its imports may warn of deprecations that are not ours.
@pytest.mark.filterwarnings("ignore")
def test_equals_bert_score() -> None:
    """Layers, languages and baselines are bert_score's, digit for digit."""
    theirs = pytest.importorskip("bert_score.utils")
    assert {model: registry.known_models()[model] for model in theirs.model2layers} == theirs.model2layers
    for language, model in registry.known_languages().items():
        if language != "ko":
            assert model == theirs.lang2model[language]

    folder = Path(theirs.__file__).parent / "rescale_baseline"
    published = [
        [*file.relative_to(folder).with_suffix("").as_posix().split("/", 1), *line.split(",")]
        for file in folder.rglob("*.tsv")
        for line in file.read_text(encoding="utf-8").splitlines()[1:]
    ]
    assert sorted(published) == sorted(read_table("baselines.tsv")[2])


# --- errors and manners -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "suggestion"),
    [
        ("english", "English is 'en'"),
        ("German", "German is 'de'"),
        ("Deutsch-CH", "Pass a code that"),
        ("gr", "Greek is 'el'"),
        ("ensci", "nearest codes: 'en-sci' is English, scientific text"),
        ("jp", "Japanese is 'ja'"),
        ("enx", "'en' is English"),
        ("xx", "Pass a code that `bertscore-metric models` lists, or name the model yourself."),
        ("", "Pass a code that `bertscore-metric models` lists, or name the model yourself."),
    ],
)
def test_unknown_language_names_what_is_near(language: str, suggestion: str) -> None:
    """The error repeats the input, names near languages and codes, and says what to do."""
    with pytest.raises(
        ValueError, match=f"^There is no default model for the language {language!r}[;.] .*{re.escape(suggestion)}"
    ):
        registry.model_for_language(language)


def test_unknown_language_message_in_full() -> None:
    """The message says it in sentences; a language's exact name is not followed by others that are less near."""
    with pytest.raises(ValueError, match="no default model") as caught:
        registry.model_for_language("english")
    assert str(caught.value) == (
        "There is no default model for the language 'english'; nearest names: English is 'en'. "
        "Pass a code that `bertscore-metric models` lists, or name the model yourself."
    )


@pytest.mark.parametrize("language", [None, 7, b"en", ["en"]])
def test_language_must_be_a_str(language: object) -> None:
    """Anything but a str is refused by type, with an example of what to pass."""
    expected = rf"^language must be a str, got {type(language).__name__} \(.*\); pass a code such as 'en' or 'pt-BR'$"
    with pytest.raises(TypeError, match=expected):
        registry.model_for_language(language)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=expected):
        registry.baseline(language, "roberta-large")  # type: ignore[arg-type]


def test_mappings_are_read_only() -> None:
    """A caller cannot change the tables for everybody else."""
    baseline = registry.baseline("en", "roberta-large")
    for mapping in (registry.known_models(), registry.known_languages(), baseline):
        assert isinstance(mapping, MappingProxyType)
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["en"] = "mine"  # type: ignore[index]


def test_baselines_for_gives_a_fresh_list() -> None:
    """Emptying the list does not empty the table."""
    registry.baselines_for().clear()
    assert registry.baselines_for()


def test_import_reads_nothing_and_lookup_reads_once() -> None:
    """Importing opens no table and loads nothing heavy; the first lookup opens one table and the second none."""
    script = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
tables = lambda: [path.replace("\\\\", "/").rpartition("/")[2] for path in opened if path.endswith(".tsv")]
from bertscore_metric import registry
after_import = tables()
heavy = sorted({"torch", "pandas", "numpy", "transformers"} & set(sys.modules))
registry.known_models()
registry.known_models()
print(json.dumps([after_import, heavy, tables()]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [[], [], ["layers.tsv"]]
