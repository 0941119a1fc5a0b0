"""A config checks every setting when it is made, cannot be changed, and survives YAML."""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bertscore_metric import IdfTable, ScoreConfig
from bertscore_metric.config import DTYPES, EMPTY_RULES, LONG_TEXT_RULES, shipped_configs

FIELDS = [field.name for field in dataclasses.fields(ScoreConfig)]
TEXT_FIELDS = ["model_name_or_path", "lang", "baseline_path", "revision"]
FLAGS = ["all_layers", "rescale_with_baseline", "match_special_tokens", "trust_remote_code", "use_safetensors",
         "local_files_only"]  # fmt: skip
NUMBERS = {"num_layers": 0, "max_length": 1}
CHOICES = {"dtype": DTYPES, "empty": EMPTY_RULES, "long_text": LONG_TEXT_RULES}


def make(name: str, value: Any) -> Any:
    """Return what a config makes of a value, with the settings that the field needs beside it."""
    beside = {"rescale_with_baseline": True} if name == "baseline_path" else {}
    return getattr(ScoreConfig(**{name: value, **beside}), name)


# --- validation -------------------------------------------------------------------------------------------------------


def test_every_field_is_tested_here() -> None:
    """The lists above name every field, so that none is left unchecked."""
    assert sorted([*TEXT_FIELDS, *FLAGS, *NUMBERS, *CHOICES, "compile", "idf"]) == sorted(FIELDS)


def test_defaults() -> None:
    """Without arguments nothing unsafe is allowed and no number is changed."""
    assert dataclasses.asdict(ScoreConfig()) == {
        **dict.fromkeys(TEXT_FIELDS),
        **dict.fromkeys(FLAGS, False),
        **dict.fromkeys(NUMBERS),
        "idf": False,
        "match_special_tokens": True,
        "use_safetensors": True,
        "dtype": "float32",
        "compile": False,
        "empty": "score",
        "long_text": "truncate",
    }


@pytest.mark.parametrize("name", TEXT_FIELDS)
def test_text_fields(name: str) -> None:
    """Names and paths are texts with something in them; a path object is taken as its text."""
    assert make(name, "some/name") == "some/name"
    assert make(name, Path("some/name")) == str(Path("some/name"))
    assert make(name, None) is None
    for value in (3, True, ["en"], b"en"):
        with pytest.raises(TypeError, match=f"^{name} must be a str, got {type(value).__name__}\\."):
            make(name, value)
    with pytest.raises(TypeError, match=r"got bool\. In YAML, words such as no need quotes\.$"):
        make(name, False)
    for value in ("", "  ", "\n"):
        with pytest.raises(ValueError, match=f"^{name} is empty; leave it out or name one\\.$"):
            make(name, value)


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name: str) -> None:
    """Flags are True or False, and nothing that is merely true or false."""
    assert make(name, True) is True
    assert make(name, False) is False
    for value in (None, 1, 0, "yes", "False", [True]):
        with pytest.raises(TypeError, match=f"^{name} must be True or False, got {type(value).__name__}\\.$"):
            make(name, value)


@pytest.mark.parametrize("name", ["all_layers", "idf"])
def test_flags_of_numpy(name: str) -> None:
    """A flag that numpy computed is a flag; "must be True or False, got bool" would help nobody."""
    assert make(name, np.True_) is True
    assert make(name, np.False_) is False


@pytest.mark.parametrize(("name", "least"), NUMBERS.items())
def test_numbers(name: str, least: int) -> None:
    """Counts are whole numbers from their smallest on, also numpy's, and become int."""
    for value in (least, least + 7, np.int64(least + 3), np.uint8(least + 1)):
        assert make(name, value) == int(value)
        assert type(make(name, value)) is int
    assert make(name, None) is None
    for value in (2.0, "2", True, [2]):
        with pytest.raises(TypeError, match=f"^{name} must be an int, got {type(value).__name__}\\.$"):
            make(name, value)
    for value in (least - 1, -7):
        with pytest.raises(ValueError, match=f"^{name} must be at least {least}, got {value}\\.$"):
            make(name, value)


@pytest.mark.parametrize(("name", "allowed"), CHOICES.items())
def test_choices(name: str, allowed: tuple[str, ...]) -> None:
    """A choice is one of those that the message lists."""
    assert len(allowed) > 1
    for value in allowed:
        assert make(name, value) == value
    for value in ("nonsense", "", allowed[0].upper(), 3):
        message = f"^{name} must be one of {', '.join(allowed)}; got {re.escape(repr(value))}"
        with pytest.raises(ValueError, match=message if isinstance(value, str) else f"^{name} must be one of"):
            make(name, value)


def test_compile() -> None:
    """True or False (also numpy's); words that YAML reads as text are refused, and so are numbers."""
    assert make("compile", np.True_) is True
    assert make("compile", False) is False
    for value in ("yes", 1, None):
        with pytest.raises(TypeError, match=r"^compile must be True or False, got "):
            make("compile", value)


def test_dtype_of_torch() -> None:
    """A torch dtype, or its printed name, is taken as the name."""
    assert make("dtype", torch.float32) == make("dtype", "torch.float32") == "float32"
    assert make("dtype", torch.bfloat16) == "bfloat16"
    assert make("dtype", torch.float16) == make("dtype", torch.half) == "float16"
    with pytest.raises(ValueError, match=r"^dtype must be one of float32, .*, float16, auto; got 'float64'\.$"):
        make("dtype", torch.float64)


def test_idf_flag_and_texts() -> None:
    """idf is a flag, or texts, which are read once and kept whatever happens to the list."""
    assert make("idf", True) is True
    assert make("idf", False) is False
    texts = ["a", "b"]
    config = ScoreConfig(idf=texts)
    texts.append("c")
    assert config.idf == ("a", "b")
    assert make("idf", (text for text in "xy")) == ("x", "y")
    assert make("idf", pd.Series(["a", "b"], index=[5, 5])) == ("a", "b")
    assert make("idf", np.array(["a", "b"])) == ("a", "b")


@pytest.mark.parametrize(
    ("idf", "error", "message"),
    [
        (
            None,
            TypeError,
            r"^idf must be True, False, a sequence of texts, or a mapping from token id to weight; got None",
        ),
        ("table.json", TypeError, r"; got str\. A saved table is read with IdfTable\.load\(path\)\.$"),
        (b"text", TypeError, r"^idf must be True, False, .* got bytes\."),
        (3, TypeError, r"^idf must be a sequence of texts, got int\."),
        ({"a", "b"}, TypeError, r"^idf must be a sequence of texts, got set\."),
        (["a", None], TypeError, r"^idf\[1\] is None; every text must be a str"),
        (["a", "b\udfff"], ValueError, r"^idf\[1\] holds a lone surrogate at character 1"),
        ([["a"]], TypeError, r"^idf\[0\] is of type list"),
        ([], ValueError, r"^idf is an empty sequence of texts; pass at least one text, or idf=True for the corpus"),
    ],
)
def test_idf_that_is_none(idf: Any, error: type[Exception], message: str) -> None:
    """What is neither a flag, nor texts, nor a mapping is refused."""
    with pytest.raises(error, match=message):
        ScoreConfig(idf=idf)


def test_idf_mapping() -> None:
    """A mapping from token id to weight becomes a table of its own, and a table stays one."""
    assert make("idf", {7: 0.5}) == IdfTable({7: 0.5})
    assert make("idf", IdfTable({7: 0.5}, default=2.0)) == IdfTable({7: 0.5}, default=2.0)


@pytest.mark.parametrize(
    ("idf", "error", "message"),
    [
        ({"cat": 1.0}, TypeError, r"idf must map token ids .* got the key 'cat' of type str"),
        ({1.5: 1.0}, TypeError, r"idf must map token ids .* got the key 1.5 of type float"),
        ({3: -1.0}, ValueError, r"idf weights must be 0, or from 1e-100 to 1e\+100; token id 3 has -1.0"),
        ({3: float("nan")}, ValueError, r"idf weights must be 0, or from 1e-100 to 1e\+100; token id 3 has nan"),
    ],
)
def test_idf_mapping_that_is_wrong(idf: Any, error: type[Exception], message: str) -> None:
    """A mapping is checked with the other settings, before a model is loaded or a file written."""
    with pytest.raises(error, match=message):
        ScoreConfig(idf=idf)


def test_idf_mapping_does_not_follow_the_input() -> None:
    """Changing the mapping afterwards does not change a frozen config."""
    weights = {7: 0.5}
    config = ScoreConfig(idf=weights)
    weights[7] = 9.0
    assert config.idf[7] == 0.5


def test_settings_that_contradict() -> None:
    """Settings of which one would silently be ignored are refused together."""
    with pytest.raises(
        ValueError, match=r"^all_layers scores every layer, so num_layers=0 has no meaning; drop one\.$"
    ):
        ScoreConfig(all_layers=True, num_layers=0)
    with pytest.raises(
        ValueError, match=r"^baseline_path is only used with rescale_with_baseline=True; set it, or drop"
    ):
        ScoreConfig(baseline_path="rows.csv")
    assert ScoreConfig(all_layers=True, num_layers=None).all_layers


@pytest.mark.parametrize("name", FIELDS)
def test_frozen(name: str) -> None:
    """No setting can be changed after the check."""
    config = ScoreConfig()
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(config, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(config, name)


def test_settings_are_named() -> None:
    """Settings are given by name, so that their order means nothing."""
    with pytest.raises(TypeError, match="positional argument"):
        ScoreConfig("offline")  # type: ignore[misc]


def test_copies_are_checked() -> None:
    """A changed copy is checked like a new config."""
    assert dataclasses.replace(ScoreConfig(num_layers=2), num_layers=3).num_layers == 3
    with pytest.raises(ValueError, match=r"^num_layers must be at least 0, got -1\.$"):
        dataclasses.replace(ScoreConfig(num_layers=2), num_layers=-1)


# --- mappings ---------------------------------------------------------------------------------------------------------


def test_from_mapping() -> None:
    """Names and values from elsewhere make the same config as keyword arguments."""
    assert ScoreConfig.from_mapping({"num_layers": 3, "lang": "en"}) == ScoreConfig(num_layers=3, lang="en")
    assert ScoreConfig.from_mapping({}) == ScoreConfig()


@pytest.mark.parametrize("name", FIELDS)
def test_unknown_setting_names_the_nearest(name: str) -> None:
    """A mistyped setting is a ValueError with the name that was meant."""
    with pytest.raises(ValueError, match=f"^Unknown setting '{name}_'; did you mean '{name}'\\? Known: ") as caught:
        ScoreConfig.from_mapping({f"{name}_": None})
    assert f"Known: {', '.join(FIELDS)}; and for BERTScorer batch_size, device, " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("model", "model_name_or_path"),
        ("Model-Name", "model_name_or_path"),
        ("rescale", "rescale_with_baseline"),
        ("layer", "num_layers"),
        ("layers", "num_layers"),
        ("idf-table", "idf"),
        ("language", "lang"),
        ("baseline", "baseline_path"),
        ("max-length", "max_length"),
        ("batch-size", "batch_size"),
    ],
)
def test_names_of_other_places(name: str, meant: str) -> None:
    """What the command line and other tools call a setting leads to its name here."""
    with pytest.raises(ValueError, match=f"^Unknown setting '{name}'; did you mean '{meant}'\\?"):
        ScoreConfig.from_mapping({name: "x"})


def test_what_is_no_setting() -> None:
    """Objects and what changes no number are arguments of `BERTScorer`, each for its own reason."""
    with pytest.raises(
        ValueError, match=r"^'model' is an object, so it is an argument of BERTScorer and not a setting"
    ):
        ScoreConfig.from_mapping({"model": object()})
    with pytest.raises(ValueError, match=r"^'batch_size' changes no score, so it is an argument of BERTScorer and not"):
        ScoreConfig.from_mapping({"batch_size": 8})


def test_unknown_setting_like_no_other() -> None:
    """A name like no setting's comes with the list of those that exist, and without a guess."""
    with pytest.raises(ValueError, match=r"^Unknown setting 'qqqq'\. Known: model_name_or_path, num_layers, "):
        ScoreConfig.from_mapping({"qqqq": 1})


@pytest.mark.parametrize("name", [1, True, None])
def test_setting_whose_name_is_no_text(name: Any) -> None:
    """A name that is not a text, such as the True that YAML makes of `on`, is an unknown setting like any other."""
    with pytest.raises(ValueError, match=f"^Unknown setting {name!r}"):
        ScoreConfig.from_mapping({name: True})


# --- YAML -------------------------------------------------------------------------------------------------------------

# Names and paths are lines of visible text; texts for idf, below, are anything.
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
weights = st.just(0.0) | st.floats(1e-100, 1e6)
tables = st.dictionaries(st.integers(0, 300), weights, max_size=6)


@st.composite
def plain_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings of every field but idf, such that they do not contradict."""
    found: dict[str, Any] = {name: draw(st.none() | names) for name in TEXT_FIELDS}
    found |= {name: draw(st.booleans()) for name in FLAGS}
    found |= {name: draw(st.none() | st.integers(least, 10**6)) for name, least in NUMBERS.items()}
    found |= {name: draw(st.sampled_from(allowed)) for name, allowed in CHOICES.items()}
    if found["all_layers"]:
        found["num_layers"] = None
    if not found["rescale_with_baseline"]:
        found["baseline_path"] = None
    return found


IDF: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "texts": st.lists(st.text(max_size=12), min_size=1, max_size=4),
    "mapping": tables,
    "table": tables.map(IdfTable),
    "table with default": st.builds(IdfTable, tables, weights),
    "mapping with default": st.builds(lambda table, default: {**table, "default": default}, tables, weights),
    "defaultdict": st.builds(lambda table, default: defaultdict(lambda: default, table), tables, weights),
    "Counter": st.dictionaries(st.integers(0, 300), st.integers(0, 9), max_size=6).map(Counter),
}


@pytest.mark.parametrize("kind", IDF)
def test_yaml_round_trip(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is written to YAML is read back as an equal config, whatever the settings."""
    file = tmp_path_factory.mktemp("config") / "config.yaml"

    @given(plain_settings(), IDF[kind])
    @settings(deadline=None, max_examples=25)
    def round_trip(plain: dict[str, Any], idf: Any) -> None:
        config = ScoreConfig(**plain, idf=idf)
        text = config.to_yaml(file)
        assert file.read_text(encoding="utf-8") == text
        back = ScoreConfig.from_yaml(file, trust_remote_code=True)
        if isinstance(config.idf, Mapping):
            assert IdfTable(back.idf) == IdfTable(config.idf)
            back, config = dataclasses.replace(back, idf=False), dataclasses.replace(config, idf=False)
        assert back == config

    round_trip()


@pytest.mark.parametrize(
    "text", ["a\x85b", "\u2028", "\ufeffa", "\x00", "a\r\nb ", "no", "~", "- a: b # c", "\U0001f600"]
)
def test_yaml_keeps_odd_texts(text: str, tmp_path: Path) -> None:
    """A text survives YAML whatever it holds: odd line breaks, control characters, words that YAML takes for others."""
    file = tmp_path / "config.yaml"
    config = ScoreConfig(idf=[text], model_name_or_path=f"{text}x")
    config.to_yaml(file)
    assert ScoreConfig.from_yaml(file) == config


def test_yaml_holds_what_differs() -> None:
    """Only settings that differ from the defaults are written, in the order of the fields, as plain YAML."""
    config = ScoreConfig(dtype=torch.bfloat16, num_layers=np.int64(5), model_name_or_path=Path("m"), idf=["日本"])
    assert config.to_yaml() == "model_name_or_path: m\nnum_layers: 5\nidf:\n- 日本\ndtype: bfloat16\n"
    assert yaml.safe_load(ScoreConfig().to_yaml()) == {}
    assert config.to_mapping() == yaml.safe_load(config.to_yaml()) | {"idf": ("日本",)}


def test_yaml_of_defaults(tmp_path: Path) -> None:
    """A config without settings, an empty file and a file of comments are the defaults."""
    for text in (ScoreConfig().to_yaml(), "", "# nothing set\n", "---\n"):
        (tmp_path / "empty.yaml").write_text(text)
        assert ScoreConfig.from_yaml(tmp_path / "empty.yaml") == ScoreConfig()


def test_yaml_with_a_byte_order_mark(tmp_path: Path) -> None:
    """A file that an editor began with a byte order mark is read."""
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfnum_layers: 3\r\nlang: en\r\n")
    assert ScoreConfig.from_yaml(str(file)) == ScoreConfig(num_layers=3, lang="en")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("- num_layers: 3\n", ValueError, r" must hold settings as `name: value` lines, got list\.$"),
        ("num_layers\n", ValueError, r" must hold settings as `name: value` lines, got str\.$"),
        ("3\n", ValueError, r" must hold settings as `name: value` lines, got int\.$"),
        ("num_layer: 3\n", ValueError, r": Unknown setting 'num_layer'; did you mean 'num_layers'\? Known: "),
        ("num_layers: -3\n", ValueError, r": num_layers must be at least 0, got -3\.$"),
        ("num_layers: three\n", TypeError, r": num_layers must be an int, got str\.$"),
        ("revision: 2024-01-01\n", TypeError, r": revision must be a str, got date\.$"),
        ("dtype: float64\n", ValueError, r": dtype must be one of float32, .*, auto; got 'float64'\.$"),
        ("num_layers: [3\n", ValueError, r" is not valid YAML: .*line 2"),
        ("a: b: c\n", ValueError, r" is not valid YAML: .*line 1"),
        (
            "idf: true\nlang: en\nidf: false\n",
            ValueError,
            r" is not valid YAML: 'idf' occurs twice in line 3, column 1",
        ),
        ("idf:\n  7: 0.5\n  '7': 0.6\n", ValueError, r" is not valid YAML: '7' occurs twice in line 3"),
        ("[" * 5000, ValueError, r" holds no settings: it is nested too deeply\.$"),
        ("? [a, b]\n: 1\n", ValueError, r" is not valid YAML: .* found unhashable key in line 1, column 3"),
    ],
)
def test_yaml_that_is_wrong(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    """An error in a file names the file, says in one line what is wrong, and is of the same kind as elsewhere."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(error, match=f"^{re.escape(str(file))}{message}") as caught:
        ScoreConfig.from_yaml(file)
    assert "\n" not in str(caught.value)


def test_yaml_that_is_not_utf8(tmp_path: Path) -> None:
    """A file in another encoding is named, like every file that cannot be read as a config."""
    file = tmp_path / "latin.yaml"
    file.write_bytes("model_name_or_path: modèle\n".encode("latin-1"))
    with pytest.raises(ValueError, match=re.escape(str(file))):
        ScoreConfig.from_yaml(file)


def test_shipped_configs() -> None:
    """Every shipped config is found by its name and loads."""
    shipped = shipped_configs()
    assert "offline" in shipped
    for name, file in shipped.items():
        assert ScoreConfig.from_yaml(name) == ScoreConfig.from_yaml(file)
        assert ScoreConfig.from_yaml(name) != ScoreConfig()


def test_file_beside_a_shipped_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one's own goes before the shipped config of that name."""
    (tmp_path / "offline").write_text("num_layers: 1\n")
    monkeypatch.chdir(tmp_path)
    assert ScoreConfig.from_yaml("offline") == ScoreConfig(num_layers=1)


def test_missing_file(tmp_path: Path) -> None:
    """A config that is neither a file nor shipped is named, with the nearest and with all that are shipped."""
    everything = re.escape(", ".join(shipped_configs()))
    with pytest.raises(
        FileNotFoundError, match=rf"^No config 'oflin': not a file; did you mean 'offline'\?; .*{everything}"
    ):
        ScoreConfig.from_yaml("oflin")
    missing = tmp_path / "missing.yaml"
    with pytest.raises(FileNotFoundError, match=rf"^No config '{re.escape(str(missing))}': not a file"):
        ScoreConfig.from_yaml(missing)
    with pytest.raises(FileNotFoundError, match=r"^No config .*: not a file"):
        ScoreConfig.from_yaml(tmp_path)


def test_a_file_alone_does_not_let_code_run(tmp_path: Path) -> None:
    """`trust_remote_code: true` in a file needs the caller's word as well."""
    file = tmp_path / "code.yaml"
    file.write_text("model_name_or_path: a/b\ntrust_remote_code: true\n")
    said = r"code\.yaml says trust_remote_code: true, .* pass trust_remote_code=True to from_yaml as well\.$"
    with pytest.raises(ValueError, match=said):
        ScoreConfig.from_yaml(file)
    with pytest.raises(ValueError, match=said):
        ScoreConfig.from_yaml(file, trust_remote_code=False)
    assert ScoreConfig.from_yaml(file, trust_remote_code=True).trust_remote_code
    file.write_text("model_name_or_path: a/b\n")
    assert not ScoreConfig.from_yaml(file, trust_remote_code=True).trust_remote_code  # consent is no setting
