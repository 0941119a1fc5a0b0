"""What users pass becomes segments, whatever it comes in, and what is no text is named by argument, index and type."""

import enum
import math
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertscore_metric.core.pairs import Segments, check_references, check_texts, parse_segments

TEXTS = ["a cat", "", "naïve 😀"]
GROUPS = [["x"], ["y", ""], ["z", "日本", "x"]]
SURROGATE = "a\ud800"


def dataset_column(values: list[Any]) -> Any:
    """Return a lazy column of a dataset."""
    return pytest.importorskip("datasets").Dataset.from_dict({"column": values})["column"]


FLAT: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "generator": lambda texts: (text for text in texts),
    "values of a dict": lambda texts: dict(enumerate(texts)).values(),
    "numpy str": lambda texts: np.array(texts, dtype=str),
    "numpy object": lambda texts: np.array(texts, dtype=object),
    "pandas": lambda texts: pd.Series(texts, index=range(7, 7 + len(texts)), dtype="str"),
    "pandas, repeated index": lambda texts: pd.Series(texts, index=["i"] * len(texts), dtype=object),
    "pandas, reversed index": lambda texts: pd.Series(texts, index=range(len(texts))[::-1], dtype="string"),
    "pandas categories": lambda texts: pd.Series(pd.Categorical(texts)),
    "pandas index": lambda texts: pd.Index(texts, dtype=object),
    "pyarrow": lambda texts: pa.array(texts, pa.string()),
    "pyarrow large": lambda texts: pa.array(texts, pa.large_string()),
    "pyarrow chunked": lambda texts: pa.chunked_array([texts[:1], texts[1:]], pa.string()),
    "pyarrow dictionary": lambda texts: pa.array(texts, pa.string()).dictionary_encode(),
    "dataset column": dataset_column,
}


def objects(groups: list[list[str]]) -> Any:
    """Return a one-dimensional numpy array whose entries are lists."""
    array = np.empty(len(groups), dtype=object)
    array[:] = groups
    return array


GROUPED: dict[str, Callable[[list[list[str]]], Any]] = {
    "lists": list,
    "tuples": lambda groups: tuple(map(tuple, groups)),
    "generators": lambda groups: ((text for text in group) for group in groups),
    "numpy object": objects,
    "arrays in a list": lambda groups: [np.array(group) for group in groups],
    "pandas of lists": lambda groups: pd.Series(groups, index=[5, 5, "x"][: len(groups)]),
    "pandas of arrays": lambda groups: pd.Series(
        [np.array(group) for group in groups], index=range(9, 9 + len(groups))
    ),
    "series in a list": lambda groups: [pd.Series(group, index=range(3, 3 + len(group))) for group in groups],
    "pyarrow": lambda groups: pa.array(groups, pa.list_(pa.string())),
    "pyarrow large": lambda groups: pa.array(groups, pa.large_list(pa.large_string())),
    "pyarrow chunked": lambda groups: pa.chunked_array([groups[:1], groups[1:]], pa.list_(pa.string())),
    "pyarrow in a list": lambda groups: [pa.array(group, pa.string()) for group in groups],
    "dataset column": dataset_column,
}


class CountedReads:
    """Texts that count how often they were read."""

    def __init__(self, texts: list[Any]) -> None:
        self.texts = texts
        self.reads = 0

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        return iter(self.texts)


class Text(str):
    """A text of a library's own type, which prints itself as something else."""

    def __str__(self) -> str:
        return "printed"


class Label(str, enum.Enum):  # noqa: UP042 - the str() of a StrEnum would be the text
    """An enumeration whose members are texts."""

    CAT = "cat"


# --- what is accepted -------------------------------------------------------------------------------------------------


def test_two_texts_are_one_pair() -> None:
    """Two plain texts are one pair, and never scored character by character."""
    assert parse_segments("ab", "cd") == Segments(["ab"], ["cd"], [1])
    assert parse_segments("ab", "c") == Segments(["ab"], ["c"], [1])
    assert parse_segments("", "") == Segments([""], [""], [1])


@pytest.mark.parametrize("container", FLAT)
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], []], ids=len)
def test_candidates_in_every_container(container: str, texts: list[str]) -> None:
    """Candidates are read from any sequence, in its order whatever its index, as plain str."""
    segments = parse_segments(FLAT[container](texts), texts)
    assert segments == Segments(texts, texts, [1] * len(texts))
    assert all(type(text) is str for text in segments.candidates)
    assert len(segments) == len(texts)


@pytest.mark.parametrize("container", FLAT)
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], []], ids=len)
def test_references_in_every_container(container: str, texts: list[str]) -> None:
    """Flat references are read from any sequence, one a candidate."""
    segments = parse_segments(texts, FLAT[container](texts))
    assert segments == Segments(texts, texts, [1] * len(texts))
    assert all(type(text) is str for text in segments.references)


@pytest.mark.parametrize("container", GROUPED)
def test_grouped_references_in_every_container(container: str) -> None:
    """Groups of references are read from any sequence of sequences; their sizes may differ."""
    segments = parse_segments(TEXTS, GROUPED[container](GROUPS))
    assert segments == Segments(TEXTS, ["x", "y", "", "z", "日本", "x"], [1, 2, 3])
    assert all(type(text) is str for text in segments.references)


@pytest.mark.parametrize("dtype", [str, object])
def test_references_as_a_matrix(dtype: type) -> None:
    """Rows of a two-dimensional array are groups."""
    segments = parse_segments(["a", "b"], np.array([["x", "y", "z"], ["u", "v", "w"]], dtype=dtype))
    assert segments == Segments(["a", "b"], ["x", "y", "z", "u", "v", "w"], [3, 3])
    assert all(type(text) is str for text in segments.references)


def test_groups_of_one_text() -> None:
    """A group of one text is one reference, not its characters."""
    assert parse_segments(["a", "b"], [["xyz"], ("uvw",)]) == Segments(["a", "b"], ["xyz", "uvw"], [1, 1])


@given(st.lists(st.tuples(st.text(), st.lists(st.text(), min_size=1, max_size=4))))
@settings(deadline=None)
def test_every_text_arrives(pairs: list[tuple[str, list[str]]]) -> None:
    """Candidates, references and group sizes arrive unchanged and in order, and the input is not edited."""
    candidates = [candidate for candidate, _ in pairs]
    groups = [list(group) for _, group in pairs]
    segments = parse_segments(candidates, groups)
    assert segments.candidates == candidates
    assert segments.references == [text for group in groups for text in group]
    assert segments.reference_counts == [len(group) for group in groups]
    assert groups == [group for _, group in pairs]


@given(st.lists(st.text()))
@settings(deadline=None)
def test_flat_references_are_groups_of_one(texts: list[str]) -> None:
    """Flat references and groups of one reference are the same segments."""
    assert parse_segments(texts, texts) == parse_segments(texts, [[text] for text in texts])


def test_iterators_are_read_once() -> None:
    """Each argument, and each group in it, is read exactly once."""
    candidates, flat = CountedReads(["a", "b"]), CountedReads(["x", "y"])
    assert parse_segments(candidates, flat).reference_counts == [1, 1]
    groups = [CountedReads(["x"]), CountedReads(["y", "z"])]
    outer = CountedReads(groups)
    assert parse_segments(["a", "b"], outer).reference_counts == [1, 2]
    assert [one.reads for one in (candidates, flat, outer, *groups)] == [1] * 5


def test_segments_do_not_follow_the_input() -> None:
    """Changing the lists after the call does not change the segments, nor can the segments be reassigned."""
    candidates, references = ["a"], ["x"]
    segments = parse_segments(candidates, references)
    candidates.append("b")
    references[0] = "changed"
    assert segments == Segments(["a"], ["x"], [1])
    with pytest.raises(FrozenInstanceError):
        segments.candidates = []  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "plain"),
    [(np.str_("cat"), "cat"), (Text("cat"), "cat"), (Label.CAT, "cat"), (Text("日本"), "日本")],
    ids=["numpy", "subclass", "enum", "not ascii"],
)
def test_subclasses_of_str(text: str, plain: str) -> None:
    """A text of a subclass of str arrives as the plain str that it is, not as what it prints."""
    for segments in (parse_segments([text], [text]), parse_segments(text, text), parse_segments([text], [[text]])):
        assert segments == Segments([plain], [plain], [1])
        assert type(segments.candidates[0]) is type(segments.references[0]) is str


def test_no_pairs() -> None:
    """No candidates and no references are no segments, and no error."""
    assert parse_segments([], []) == Segments([], [], [])
    assert len(parse_segments(iter(()), ())) == 0


@pytest.mark.parametrize("label", ["columns", "to_pylist", "ndim"])
def test_labels_of_an_index_mean_nothing(label: str) -> None:
    """A pandas Series is read in order even where a label of its index is the name of a method or attribute."""
    series = pd.Series(["a", "b"], index=[label, "other"], dtype=object)
    assert parse_segments(series, series) == Segments(["a", "b"], ["a", "b"], [1, 1])


# --- entries that are no text -----------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "None": (None, "None"),
    "nan": (math.nan, "NaN (float)"),
    "numpy nan": (np.nan, "NaN (float)"),
    "numpy float64 nan": (np.float64("nan"), "NaN (float)"),
    "numpy float32 nan": (np.float32("nan"), "of type float32"),
    "pandas.NA": (pd.NA, "of type NAType"),
    "pandas.NaT": (pd.NaT, "of type NaTType"),
    "int": (3, "of type int"),
    "float": (2.5, "of type float"),
    "bool": (True, "of type bool"),
    "numpy int": (np.int64(3), "of type int64"),
    "bytes": (b"cat", "of type bytes"),
    "bytearray": (bytearray(b"cat"), "of type bytearray"),
    "numpy bytes": (np.bytes_(b"cat"), "of type bytes_"),
    "dict": ({"text": "cat"}, "of type dict"),
    "set": ({"cat"}, "of type set"),
    "pyarrow scalar": (pa.scalar("cat"), "of type StringScalar"),
}


@pytest.mark.parametrize("bad", BAD)
def test_entry_that_is_no_text(bad: str) -> None:
    """An entry that is not a text is named by argument, index and type, in candidates, references and groups."""
    value, what = BAD[bad]
    for candidates, references, where in (
        (["a", value], ["x", "y"], "candidates[1]"),
        ([value, value], ["x", "y"], "candidates[0]"),
        ([*["a"] * 700, value], ["x"] * 701, "candidates[700]"),
        (["a", "b"], ["x", value], "references[1]"),
        (["a", "b"], [value, "y"], "references[0]"),
        (["a", "b"], [["x"], ["", value]], "references[1][1]"),
        (["a", "b"], [["x"], value], "references[1]"),
        (["a", "b"], [value, ["x"]], "references[0]"),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(f'{where} is {what}; every text must be a str.')}"):
            parse_segments(candidates, references)


@pytest.mark.parametrize(
    "value", [b"cat", bytearray(b"cat"), np.bytes_(b"cat")], ids=lambda value: type(value).__name__
)
def test_bytes_are_to_be_decoded(value: Any) -> None:
    """The message about bytes says that they have to be decoded."""
    with pytest.raises(
        TypeError, match=r"^references\[0\] is of type \w+; every text must be a str\. Decode it first\.$"
    ):
        parse_segments(["a"], [value])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.Series(["a", None]), "[1] is NaN (float)"),
        (pd.Series(["a", None], dtype=object), "[1] is None"),
        (pd.Series(["a", None], dtype="string"), "[1] is of type NAType"),
        (pd.Series([1, 2], index=["x", "y"]), "[0] is of type int"),
        (np.array(["a", None], dtype=object), "[1] is None"),
        (np.array([1.5, 2.5]), "[0] is of type float64"),
        (np.array([b"a", b"b"]), "[0] is of type bytes_"),
        (pa.array(["a", None]), "[1] is None"),
        (pa.chunked_array([["a"], [None]]), "[1] is None"),
        (pa.array([1, 2]), "[0] is of type int"),
        (range(2), "[0] is of type int"),
        ([b"a", b"b"], "[0] is of type bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_missing_values_in_containers(values: Any, message: str) -> None:
    """What a table holds for a missing value is named by its position, not by the label of its index."""
    with pytest.raises(TypeError, match=re.escape(f"candidates{message}")):
        parse_segments(values, ["x", "y"])
    with pytest.raises(TypeError, match=re.escape(f"references{message}")):
        parse_segments(["x", "y"], values)


@pytest.mark.parametrize(
    "groups",
    [
        pa.array([["x"], ["y", None]]),
        pd.Series([["x"], ["y", None]], index=["i", "j"]),
        np.array([["x", "u"], ["y", None]], dtype=object),
    ],
    ids=["pyarrow", "pandas", "numpy"],
)
def test_missing_values_in_groups(groups: Any) -> None:
    """A missing reference in a group that has a text is blank, and the others keep their places."""
    assert parse_segments(["a", "b"], groups).groups[1] == ["y", ""]


@pytest.mark.parametrize(
    "missing", [None, math.nan, np.float64("nan"), np.float32("nan"), pd.NA, "", " \t\n"], ids=repr
)
def test_every_kind_of_missing_reference(missing: Any) -> None:
    """`None`, NaN of every kind and blanks are missing beside a text; a number is none of them."""
    groups = parse_segments(["a"], [[missing, "x", missing]]).groups
    assert [text.strip() for text in groups[0]] == ["", "x", ""]
    with pytest.raises(TypeError, match=r"^references\[0\]\[1\] is of type float; every text must be a str"):
        parse_segments(["a"], [["x", 1.0, missing]])


@pytest.mark.parametrize("group", [[None], [None, None], [" ", None], ["", math.nan]], ids=repr)
def test_groups_without_text(group: list[Any]) -> None:
    """A group without any text is what it was: a missing value is an error, a blank text a text."""
    with pytest.raises(TypeError, match=r"^references\[1\]\[\d\] is (None|NaN \(float\)); every text must be a str"):
        parse_segments(["a", "b"], [["x"], group])
    assert parse_segments(["a"], [["", " "]]).groups == [["", " "]]


def test_missing_group() -> None:
    """A group that is missing as a whole is named."""
    with pytest.raises(TypeError, match=r"^references\[1\] is None; every text must be a str"):
        parse_segments(["a", "b"], pa.array([["x"], None]))


def test_grouped_candidates() -> None:
    """Candidates are never grouped."""
    with pytest.raises(TypeError, match=r"^candidates\[0\] is of type list; every text must be a str"):
        parse_segments([["a"], ["b"]], ["x", "y"])
    with pytest.raises(TypeError, match=r"^candidates\[0\] is of type ndarray; every text must be a str"):
        parse_segments(np.array([["a"], ["b"]]), ["x", "y"])


def test_groups_of_groups() -> None:
    """References are grouped once, not twice."""
    with pytest.raises(TypeError, match=r"^references\[1\]\[0\] is of type list; every text must be a str"):
        parse_segments(["a", "b"], [["x"], [["y"]]])


@given(st.text(), st.characters(categories=["Cs"]), st.text())
@settings(deadline=None)
def test_lone_surrogates(before: str, surrogate: str, after: str) -> None:
    """Text that is not valid Unicode is a ValueError that names argument, index and character."""
    bad = before + surrogate + after
    for candidates, references, where in (
        (bad, "x", "candidates[0]"),
        ("x", bad, "references[0]"),
        (["a", bad], ["x", "y"], "candidates[1]"),
        (["a", "b"], ["x", bad], "references[1]"),
        (["a", "b"], [["x"], ["y", "z", bad]], "references[1][2]"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"{where} holds a lone surrogate at character {len(before)},")):
            parse_segments(candidates, references)


def test_lone_surrogate_in_a_subclass() -> None:
    """A lone surrogate is also found in numpy's str."""
    with pytest.raises(ValueError, match=r"^candidates\[0\] holds a lone surrogate at character 1, which is not valid"):
        parse_segments([np.str_(SURROGATE)], ["x"])


def test_characters_outside_the_basic_plane_are_text() -> None:
    """A character that UTF-16 writes as two surrogates is one character here, and no error."""
    assert parse_segments("\U0001f600", "\U00010000").candidates == ["😀"]


# --- arguments that are no sequence of texts --------------------------------------------------------------------------

NO_SEQUENCE: dict[str, tuple[Any, str]] = {
    "None": (None, "NoneType"),
    "int": (5, "int"),
    "nan": (math.nan, "float"),
    "bytes": (b"cat", "bytes"),
    "bytearray": (bytearray(b"cat"), "bytearray"),
    "dict": ({"cat": 1}, "dict"),
    "set": ({"cat"}, "set"),
    "frozenset": (frozenset({"cat"}), "frozenset"),
    "DataFrame": (pd.DataFrame({"text": ["cat"]}), "DataFrame"),
    "numpy 0-d": (np.array("cat"), "0-dimensional ndarray"),
    "tensor 0-d": (torch.tensor(1), "0-dimensional Tensor"),
    "object": (object(), "object"),
}


@pytest.mark.parametrize("case", NO_SEQUENCE)
def test_argument_that_is_no_sequence(case: str) -> None:
    """An argument that is not a sequence of texts is named with its type."""
    value, type_name = NO_SEQUENCE[case]
    message = f"must be a sequence of texts, got (a )?{re.escape(type_name)}\\."
    with pytest.raises(TypeError, match=f"^candidates {message}"):
        parse_segments(value, ["x"])
    with pytest.raises(TypeError, match=f"^references {message}"):
        parse_segments(["a"], value)


@pytest.mark.parametrize("case", ["None", "nan", "int", "bytes"])
def test_text_beside_what_is_no_sequence(case: str) -> None:
    """Beside a single text, it is the other argument that is named where that one holds no texts at all."""
    value, type_name = NO_SEQUENCE[case]
    with pytest.raises(TypeError, match=f"^references .*{re.escape(type_name)}"):
        parse_segments("a", value)
    with pytest.raises(TypeError, match=f"^candidates .*{re.escape(type_name)}"):
        parse_segments(value, "a")


def table() -> Any:
    """Return a pyarrow table."""
    return pa.table({"text": ["cat"]})


def dataset() -> Any:
    """Return a dataset."""
    return pytest.importorskip("datasets").Dataset.from_dict({"text": ["cat"]})


@pytest.mark.parametrize("make", [lambda: pd.DataFrame({"text": ["cat"]}), table, dataset], ids=["pandas", "pa", "ds"])
def test_whole_table(make: Callable[[], Any]) -> None:
    """A whole table is refused with the advice to pass one of its columns."""
    with pytest.raises(TypeError, match=r"^candidates must be a sequence of texts, got \w+\. Pass one column of it\."):
        parse_segments(make(), ["x"])
    with pytest.raises(TypeError, match=r"^references must be a sequence of texts, got \w+\. Pass one column of it\."):
        parse_segments(["a"], make())


def test_text_on_one_side_only() -> None:
    """A text beside a list is refused, not scored by characters, even where the lengths agree."""
    one_of_many = r'^candidates is one str and references are 2; .* pass .* as in \["a cat"\], \[\["r1", "r2"\]\]\.$'
    with pytest.raises(TypeError, match=one_of_many):
        parse_segments("ab", ["x", "y"])
    with pytest.raises(TypeError, match=r"^candidates is one str but references is not; put it in a list"):
        parse_segments("ab", ["x"])
    with pytest.raises(TypeError, match=r"^references is one str but candidates is not; put it in a list"):
        parse_segments(["a", "b"], "xy")
    with pytest.raises(TypeError, match=r"^candidates is one str but references is not"):
        parse_segments("ab", [["x", "y"]])


def test_flat_and_grouped_mixed() -> None:
    """Flat and grouped references in one call are refused with the index of one of each."""
    message = r"^references mixes single texts \(references\[{}\]\) and groups \(references\[{}\]\); make every entry"
    with pytest.raises(TypeError, match=message.format(1, 0)):
        parse_segments(["a", "b", "c"], [["x"], "Hey", ["z"]])
    with pytest.raises(TypeError, match=message.format(0, 2)):
        parse_segments(["a", "b", "c"], ["x", "y", ("z",)])


def test_empty_group() -> None:
    """A candidate without a reference is refused with its index, whatever the group is."""
    for empty in ([], (), np.array([]), pd.Series([], dtype=object), iter(())):
        with pytest.raises(
            ValueError, match=r"^references\[1\] is an empty group; every candidate needs a reference\."
        ):
            parse_segments(["a", "b"], [["x"], empty])
    with pytest.raises(ValueError, match=r"^references\[0\] is an empty group"):
        parse_segments(["a"], [[]])


# --- lengths ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.integers(0, 6), st.booleans())
@settings(deadline=None)
def test_different_lengths(n_candidates: int, n_references: int, grouped: bool) -> None:
    """Different lengths are a ValueError with both lengths; equal ones are none."""
    references: list[Any] = [["x"] * 9 if grouped else "x"] * n_references
    if n_candidates == n_references:
        assert len(parse_segments(["a"] * n_candidates, references)) == n_candidates
        return
    message = f"must have the same number of entries, got {n_candidates} candidates and {n_references} references\\."
    with pytest.raises(ValueError, match=f"^candidates and references {message}$"):
        parse_segments(["a"] * n_candidates, iter(references))


@pytest.mark.parametrize(
    "references",
    [
        [["x1", "y1", "z1"], ["x2", "y2", "z2"]],
        (("x1", "y1", "z1"), ("x2", "y2", "z2")),
        [["x1", "y1", "z1"]],
        np.array([["x1", "y1", "z1"], ["x2", "y2", "z2"]]),
        [pd.Series(["x1", "y1", "z1"]), pd.Series(["x2", "y2", "z2"])],
    ],
    ids=["lists", "tuples", "one set", "numpy", "pandas"],
)
def test_transposed_references(references: Any) -> None:
    """References as sacrebleu wants them, one list a reference set, bring the line that turns them."""
    with pytest.raises(ValueError, match=rf"got 3 candidates and {len(references)} references\.") as caught:
        parse_segments(["a", "b", "c"], references)
    assert "group it by candidate with list(zip(*references))" in str(caught.value)
    turned = parse_segments(["a", "b", "c"], list(zip(*references, strict=True)))
    assert turned.reference_counts == [len(references)] * 3
    assert turned.references[: len(references)] == [str(row[0]) for row in np.array(references).tolist()]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        ([None], ["x"], r"^preds\[0\] is None"),
        (["a"], [None], r"^target\[0\] is None"),
        (["a"], [[None]], r"^target\[0\]\[0\] is None"),
        (["a"], [[]], r"^target\[0\] is an empty group"),
        (["a", "b"], [["x"], "y"], r"^target mixes single texts \(target\[1\]\) and groups \(target\[0\]\)"),
        (
            "a",
            ["x"],
            r"^preds is one str but target is not; put it in a list \(\[preds\]\), one entry for each of target",
        ),
        (["a"], "x", r"^target is one str but preds is not; put it in a list \(\[target\]\)"),
        (["a"], {"x"}, r"^target must be a sequence of texts, got set"),
        ({"a"}, ["x"], r"^preds must be a sequence of texts, got set"),
        (["a"], [], r"^preds and target must have the same number of entries, got 1 preds and 0 target"),
        (["a", "b"], [["x", "y"]], r"target looks like one list per reference set; .*list\(zip\(\*target\)\)"),
        ([SURROGATE], ["x"], r"^preds\[0\] holds a lone surrogate"),
    ],
)
def test_names(candidates: Any, references: Any, message: str) -> None:
    """A room's own names for the arguments are the only ones in its messages."""
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        parse_segments(candidates, references, names=("preds", "target"))
    assert "candidates" not in str(caught.value)
    assert "references" not in str(caught.value)


@pytest.mark.parametrize("container", FLAT)
def test_check_references(container: str) -> None:
    """References alone become groups, flat ones of one text each, and are checked under their own name."""
    assert check_references(FLAT[container](TEXTS)) == [[text] for text in TEXTS]
    assert check_references([iter(TEXTS), ("a",)]) == [TEXTS, ["a"]]
    with pytest.raises(TypeError, match=r"^gold\[1\]\[0\] is None"):
        check_references([["a"], [None]], "gold")


@pytest.mark.parametrize("container", FLAT)
def test_check_texts(container: str) -> None:
    """Texts alone, such as those for idf, are checked in the same way and under their own name."""
    assert check_texts(FLAT[container](TEXTS), "idf") == TEXTS
    with pytest.raises(TypeError, match=r"^idf\[1\] is None"):
        check_texts(["a", None], "idf")
    with pytest.raises(TypeError, match=r"^idf must be a sequence of texts, got str\."):
        check_texts("a cat", "idf")


@given(st.lists(st.lists(st.text(max_size=2), min_size=1, max_size=3), max_size=7), st.integers(1, 8))
def test_pieces_are_the_segments_in_order(groups: list[list[str]], most: int) -> None:
    """Pieces hold at most so many segments, and together all of them."""
    segments = parse_segments([f"c{number}" for number in range(len(groups))], groups)
    pieces = list(segments.pieces(most))
    assert all(0 < len(piece) <= most for piece in pieces)
    assert [text for piece in pieces for text in piece.candidates] == segments.candidates
    assert [group for piece in pieces for group in piece.groups] == segments.groups
