"""Counts add up, idf is its formula, and a table of weights means what its mapping says."""

import json
import math
import operator
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertscore_metric import IdfTable
from bertscore_metric.core.weighting import (
    DocumentFrequencies,
    document_frequencies,
    idf_weights,
    inverse_document_frequencies,
    plain_weights,
    with_fallback,
)

EXACT = {"atol": 0.0, "rtol": 0.0}
texts_of_ids = st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=8)
weights = st.just(0.0) | st.floats(1e-100, 1e6)
tables = st.dictionaries(st.integers(0, 40), weights, max_size=8)


def count(texts: list[list[int]]) -> DocumentFrequencies:
    """Count ragged lists of ids."""
    ids = torch.tensor([token for text in texts for token in text], dtype=torch.int64)
    return document_frequencies(ids, torch.tensor([len(text) for text in texts], dtype=torch.int64))


def counter_idf(texts: list[list[int]]) -> dict[int, float]:
    """Return idf as the formula says it: ln((N + 1) / (df + 1)) over sets of ids."""
    df = Counter(token for text in texts for token in set(text))
    return {token: math.log((len(texts) + 1) / (n + 1)) for token, n in df.items()}


def doubles(values: list[float]) -> Tensor:
    """Return weights as a tensor."""
    return torch.tensor(values, dtype=torch.float64)


# --- document frequencies ---------------------------------------------------------------------------------------------


@given(texts_of_ids)
@settings(deadline=None, max_examples=60)
def test_document_frequencies(texts: list[list[int]]) -> None:
    """A token counts once for each text that holds it; texts without tokens count as texts."""
    counts = count(texts)
    df = Counter(token for text in texts for token in set(text))
    assert {token: n for token, n in enumerate(counts.df.tolist()) if n} == dict(df)
    assert counts.n == len(texts)
    assert counts.df.dtype == torch.int64


many_ids = st.sampled_from([0, 1, 7, 2**16 - 1, 2**16, 2**16 + 7, 2 * 2**16, 2 * 2**16 + 1, 250_001])


@given(st.lists(st.lists(many_ids, max_size=6), max_size=8))
@settings(deadline=None, max_examples=60)
def test_document_frequencies_of_large_vocabularies(texts: list[list[int]]) -> None:
    """Ids above 16 bits, of multilingual vocabularies, are counted like small ones."""
    df = Counter(token for text in texts for token in set(text))
    found = count(texts).df
    assert {token: int(found[token]) for token in torch.nonzero(found).squeeze(1).tolist()} == dict(df)


@given(texts_of_ids, st.lists(st.integers(0, 8), max_size=4))
@settings(deadline=None, max_examples=60)
def test_counts_add_up(texts: list[list[int]], cuts: list[int]) -> None:
    """The counts of the parts of a corpus, empty ones included, add up to those of the whole, in any order."""
    edges = [0, *sorted(min(cut, len(texts)) for cut in cuts), len(texts)]
    parts = [count(texts[begin:end]) for begin, end in pairwise(edges)]
    whole = count(texts)
    for order in (parts, parts[::-1]):
        total = reduce(operator.add, order)
        assert torch.equal(total.df, whole.df)
        assert total.n == whole.n


def test_adding_edits_nothing() -> None:
    """Adding counts leaves both as they were."""
    a, b = count([[1, 2], [2]]), count([[5]])
    before = a.df.clone(), b.df.clone()
    assert (a + b).df.tolist() == [0, 1, 2, 0, 0, 1]
    assert torch.equal(a.df, before[0])
    assert torch.equal(b.df, before[1])
    assert (a.n, b.n) == (2, 1)


# --- idf --------------------------------------------------------------------------------------------------------------


@given(texts_of_ids)
@settings(deadline=None, max_examples=60)
def test_idf_formula(texts: list[list[int]]) -> None:
    """idf equals the formula in plain Python, for every id that occurs and for one that does not."""
    table = inverse_document_frequencies(count(texts))
    expected = counter_idf(texts)
    assert set(table) == set(expected)
    for token, weight in expected.items():
        assert table[token] == pytest.approx(weight, abs=1e-12)
    ids = torch.tensor([*expected, 13, 99, 10**6])
    wanted = [*expected.values(), *[math.log(len(texts) + 1)] * 3]
    torch.testing.assert_close(table.weights(ids), doubles(wanted), atol=1e-12, rtol=0)


def test_idf_of_known_counts() -> None:
    """In three texts, a token of all weighs 0, of one ln 2, of none ln 4; an id in a gap counts as unseen."""
    table = inverse_document_frequencies(count([[1, 1, 1], [1, 4], [1]]))
    expected = doubles([0.0, math.log(2), math.log(4), math.log(4)])
    torch.testing.assert_close(table.weights(torch.tensor([1, 4, 2, 77])), expected, atol=1e-12, rtol=0)


def test_idf_of_no_texts() -> None:
    """Without texts every id weighs ln 1."""
    assert inverse_document_frequencies(count([])).weights(torch.tensor([0, 7])).tolist() == [0.0, 0.0]


# --- tables -----------------------------------------------------------------------------------------------------------


@given(tables, st.none() | weights, st.lists(st.integers(0, 60), max_size=10))
@settings(deadline=None, max_examples=60)
def test_table_looks_weights_up(mapping: dict[int, float], default: float | None, ids: list[int]) -> None:
    """A table gives each id the weight of its mapping, else its default, else an error that names the id."""
    table = IdfTable(mapping, default)
    missing = [token for token in ids if token not in mapping]
    if default is None and missing:
        message = rf"^The idf table has no weight for token id {missing[0]} and no default; give it one: IdfTable\("
        with pytest.raises(ValueError, match=message):
            table.weights(torch.tensor(ids))
        return
    found = table.weights(torch.tensor(ids, dtype=torch.int64))
    torch.testing.assert_close(found, doubles([mapping.get(token, default or 0.0) for token in ids]), **EXACT)


@given(tables)
@settings(deadline=None, max_examples=60)
def test_table_is_a_mapping(mapping: dict[int, float]) -> None:
    """A table reads like the mapping that it was made of, and does not follow its changes."""
    source = dict(mapping)
    table = IdfTable(source)
    source[7] = -1.0
    assert isinstance(table, Mapping)
    assert dict(table) == mapping
    assert len(table) == len(mapping)
    assert list(table) == list(mapping)
    assert 99 not in table
    with pytest.raises(KeyError, match="99"):
        table[99]


MAPPINGS: dict[str, tuple[Callable[[], Mapping[Any, Any]], float | None]] = {
    "dict": (lambda: {7: 0.5, 3: 1.0}, None),
    "ordered": (lambda: OrderedDict({7: 0.5, 3: 1}), None),
    "read-only": (lambda: MappingProxyType({7: 0.5, 3: 1.0}), None),
    "keys of JSON": (lambda: {"7": 0.5, "3": 1.0}, None),
    "keys of numpy": (lambda: {np.int64(7): np.float32(0.5), np.int32(3): np.float64(1)}, None),
    "default as a key": (lambda: {"default": 2.5, 7: 0.5, 3: 1.0}, 2.5),
    "default of zero as a key": (lambda: {7: 0.5, 3: 1.0, "default": 0}, 0.0),
    "defaultdict": (lambda: defaultdict(lambda: 2.5, {7: 0.5, 3: 1.0}), 2.5),
    "defaultdict of float": (lambda: defaultdict(float, {7: 0.5, 3: 1.0}), 0.0),
    "defaultdict without factory": (lambda: defaultdict(None, {7: 0.5, 3: 1.0}), None),
    "Counter": (lambda: Counter({7: 0.5, 3: 1}), 0.0),
    "table": (lambda: IdfTable({7: 0.5, 3: 1.0}, default=2.5), 2.5),
}


@pytest.mark.parametrize("kind", MAPPINGS)
def test_table_of_every_mapping(kind: str) -> None:
    """Every kind of mapping brings its weights and its default along, and is not edited."""
    make, default = MAPPINGS[kind]
    source = make()
    table = IdfTable(source)
    assert dict(table) == {7: 0.5, 3: 1.0}
    assert all(type(token) is int and type(weight) is float for token, weight in table.items())
    assert table.default == default
    assert table == IdfTable({3: 1.0, 7: 0.5}, default)
    if default is not None:
        assert table.weights(torch.tensor([7, 8, 3, 2, 999])).tolist() == [0.5, default, 1.0, default, default]
    assert len(source) == len(make())
    assert dict(source) == dict(make())


@pytest.mark.parametrize("kind", MAPPINGS)
def test_default_that_is_given_goes_before(kind: str) -> None:
    """A default given beside the mapping replaces the mapping's own."""
    assert IdfTable(MAPPINGS[kind][0](), default=9.0).weights(torch.tensor([8])).tolist() == [9.0]
    assert IdfTable(MAPPINGS[kind][0](), default=0.0).weights(torch.tensor([8])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        ({"cat": 1.0}, TypeError, "idf must map token ids (int) to weights, got the key 'cat' of type str."),
        ({1.5: 1.0}, TypeError, "idf must map token ids (int) to weights, got the key 1.5 of type float."),
        ({None: 1.0}, TypeError, "idf must map token ids (int) to weights, got the key None of type NoneType."),
        ({True: 1.0}, TypeError, "idf must map token ids (int) to weights, got the key True of type bool."),
        ({(1,): 1.0}, TypeError, "idf must map token ids (int) to weights, got the key (1,) of type tuple."),
        ({-1: 1.0}, ValueError, "idf must map token ids to weights; -1 is not a token id."),
        ({"-1": 1.0}, ValueError, "idf must map token ids to weights; -1 is not a token id."),
        ({"--1": 1.0}, TypeError, "idf must map token ids (int) to weights, got the key '--1' of type str."),
        ({"²": 1.0}, TypeError, "idf must map token ids (int) to weights, got the key '²' of type str."),
        ({4: -0.5}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id 4 has -0.5."),
        ({4: math.nan}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id 4 has nan."),
        ({4: math.inf}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id 4 has inf."),
        ({4: 1e101}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id 4 has 1e+101."),
        ({4: 1e-320}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id 4 has 1e-320."),
        ({"default": -1}, ValueError, "idf weights must be 0, or from 1e-100 to 1e+100; token id default has -1.0."),
        (
            {"default": math.nan},
            ValueError,
            "idf weights must be 0, or from 1e-100 to 1e+100; token id default has nan.",
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_table_that_is_wrong(mapping: Any, error: type[Exception], message: str) -> None:
    """An id that is none, and a weight that is none, are named."""
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        IdfTable({3: 1.0, **mapping})


@pytest.mark.parametrize("weight", [None, "heavy", [1.0]], ids=repr)
def test_weight_that_is_no_number(weight: Any) -> None:
    """A weight that is not a number is named with its token id."""
    with pytest.raises((TypeError, ValueError), match=r"idf .*token id 4\b"):
        IdfTable({3: 1.0, 4: weight})


def test_table_without_ids() -> None:
    """A table of a default alone weighs every id with it; one of nothing weighs none."""
    assert IdfTable({}, default=1.5).weights(torch.tensor([0, 5])).tolist() == [1.5, 1.5]
    assert IdfTable({}).weights(torch.tensor([], dtype=torch.int64)).tolist() == []
    with pytest.raises(ValueError, match=r"^The idf table has no weight for token id 5 and no default"):
        IdfTable({}).weights(torch.tensor([5]))


@given(tables, st.none() | weights)
@settings(deadline=None, max_examples=50)
def test_table_round_trip(mapping: dict[int, float], default: float | None) -> None:
    """A table of a table is equal to it, with the same fingerprint."""
    table = IdfTable(mapping, default)
    assert IdfTable(table) == table
    assert IdfTable(table).fingerprint == table.fingerprint


def test_save_and_load(tmp_path: Path) -> None:
    """A table that was saved is read back as it was, to the last bit."""
    file = tmp_path / "table.json"

    @given(tables, st.none() | weights)
    @settings(deadline=None, max_examples=50)
    def round_trip(mapping: dict[int, float], default: float | None) -> None:
        table = IdfTable(mapping, default)
        table.save(file)
        back = IdfTable.load(str(file))
        assert back == table
        assert back.fingerprint == table.fingerprint

    round_trip()


def test_load_any_object(tmp_path: Path) -> None:
    """Any JSON object from id to weight is a table, with a default if it has one, also after a byte order mark."""
    file = tmp_path / "table.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"7": 1, "default": 0.5}).encode())
    assert IdfTable.load(file) == IdfTable({7: 1.0}, default=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{7: 1.0", r" is not an idf table: "),
        ("", r" is not an idf table: "),
        ("[1.0, 2.0]", r" must hold a JSON object from token id to weight, got list\.$"),
        ("3", r" must hold a JSON object from token id to weight, got int\.$"),
    ],
)
def test_load_what_is_no_table(tmp_path: Path, text: str, message: str) -> None:
    """A file that holds no table is named."""
    file = tmp_path / "table.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}{message}"):
        IdfTable.load(file)


def test_load_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "no.json"))):
        IdfTable.load(tmp_path / "no.json")


few = st.dictionaries(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0]), max_size=3)
few_defaults = st.sampled_from([None, 0.0, 1.0])


@given(few, few_defaults, few, few_defaults)
@settings(deadline=None, max_examples=150)
def test_fingerprint(
    a: dict[int, float], a_default: float | None, b: dict[int, float], b_default: float | None
) -> None:
    """Fingerprints, and tables, are equal where weights and default are, and only there; order means nothing."""
    one, two = IdfTable(a, a_default), IdfTable(b, b_default)
    same = a == b and a_default == b_default
    assert (one == two) is same
    assert (one.fingerprint == two.fingerprint) is same
    assert IdfTable(dict(reversed(a.items())), a_default).fingerprint == one.fingerprint


def test_fingerprint_of_minus_zero() -> None:
    """A weight of -0.0, which -log(1) is, is the weight 0, also in the fingerprint."""
    assert IdfTable({3: -math.log(1.0)}) == IdfTable({3: 0.0})
    assert IdfTable({3: -math.log(1.0)}).fingerprint == IdfTable({3: 0.0}).fingerprint


def test_table_is_compared_by_content() -> None:
    """A table equals tables only, is not hashable, and shows its size instead of all its ids."""
    assert IdfTable({3: 1.0}) != {3: 1.0}
    with pytest.raises(TypeError, match="unhashable type: 'IdfTable'"):
        hash(IdfTable({3: 1.0}))
    assert repr(IdfTable({3: 1.0}, default=2)) == "IdfTable(1 ids, default=2.0)"


# --- weights ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=60)
def test_plain_weights(ids: list[int], unweighted: set[int]) -> None:
    """Without idf a special token weighs 0 and every other 1."""
    expected = doubles([float(token not in unweighted) for token in ids])
    torch.testing.assert_close(plain_weights(torch.tensor(ids, dtype=torch.int64), unweighted), expected, **EXACT)


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 9)), tables)
@settings(deadline=None, max_examples=60)
def test_idf_weights(ids: list[int], zero: set[int], mapping: dict[int, float]) -> None:
    """With idf the ids to be left out weigh 0 whatever the table says, and every other what it says."""
    expected = doubles([0.0 if token in zero else mapping.get(token, 2.0) for token in ids])
    found = idf_weights(torch.tensor(ids, dtype=torch.int64), IdfTable(mapping, default=2.0), zero)
    torch.testing.assert_close(found, expected, **EXACT)


def test_idf_weights_without_default() -> None:
    """A table without default weighs the ids that it lists, also with gaps between them, and refuses all others."""
    table = IdfTable({2: 0.5, 7: 1.5})
    assert idf_weights(torch.tensor([7, 2, 7]), table, {2}).tolist() == [1.5, 0.0, 1.5]
    for token in (0, 3, 9):
        with pytest.raises(ValueError, match=rf"^The idf table has no weight for token id {token} and no default"):
            idf_weights(torch.tensor([7, token]), table, {token})


few_weights = st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.7, 2.0]), st.sampled_from([0.0, 1.0])), max_size=4)


@given(st.lists(few_weights, max_size=6))
@settings(deadline=None, max_examples=60)
def test_fallback(texts: list[list[tuple[float, float]]]) -> None:
    """Only a text whose weights are all 0 gets its plain ones, if it has any; the others keep theirs bit for bit."""
    given_weights = doubles([weight for text in texts for weight, _ in text])
    plain = doubles([weight for text in texts for _, weight in text])
    before = given_weights.clone(), plain.clone()
    found, fell = with_fallback(given_weights, plain, torch.tensor([len(text) for text in texts], dtype=torch.int64))
    wanted, wanted_fell = [], []
    for text in texts:
        no_weight, has_plain = not any(weight for weight, _ in text), any(weight for _, weight in text)
        wanted_fell.append(no_weight and has_plain)
        wanted += [weight for _, weight in text] if no_weight and has_plain else [weight for weight, _ in text]
    torch.testing.assert_close(found, doubles(wanted), **EXACT)
    assert fell.tolist() == wanted_fell
    assert torch.equal(given_weights, before[0])
    assert torch.equal(plain, before[1])
