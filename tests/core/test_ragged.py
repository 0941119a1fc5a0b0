"""Every function on ragged data equals a loop over lists."""

from itertools import accumulate

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertscore_metric.core import ragged

lengths_lists = st.lists(st.integers(0, 5), max_size=8)


def whole(values: list[int]) -> torch.Tensor:
    """Return whole numbers as a tensor, also where there are none."""
    return torch.tensor(values, dtype=torch.int64)


@given(lengths_lists)
@settings(deadline=None, max_examples=60)
def test_starts(lengths: list[int]) -> None:
    """A part begins where the ones before it end."""
    result = ragged.starts(whole(lengths))
    assert result.tolist() == [0, *accumulate(lengths)][: len(lengths)]
    assert result.dtype == torch.int64


@given(lengths_lists)
@settings(deadline=None, max_examples=60)
def test_owners(lengths: list[int]) -> None:
    """Every entry names its part; a part without entries is named by none."""
    result = ragged.owners(whole(lengths))
    assert result.tolist() == [part for part, length in enumerate(lengths) for _ in range(length)]
    assert result.dtype == torch.int64


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
@settings(deadline=None, max_examples=60)
def test_positions(parts: list[tuple[int, int]]) -> None:
    """Positions run through every part from its beginning, in the order of the parts, wherever they lie."""
    result = ragged.positions(whole([first for first, _ in parts]), whole([length for _, length in parts]))
    assert result.tolist() == [first + step for first, length in parts for step in range(length)]
    assert result.dtype == torch.int64


@given(lengths_lists)
@settings(deadline=None, max_examples=60)
def test_positions_of_all_parts(lengths: list[int]) -> None:
    """The positions of all parts in their order are all positions."""
    positions = ragged.positions(ragged.starts(whole(lengths)), whole(lengths))
    assert positions.tolist() == list(range(sum(lengths)))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
@settings(deadline=None, max_examples=60)
def test_padded_positions(parts: list[tuple[int, int]]) -> None:
    """Rows are as wide as the longest part; the mask marks its entries, and padding repeats the first of them."""
    first, lengths = [one for one, _ in parts], [length for _, length in parts]
    index, mask = ragged.padded_positions(whole(first), whole(lengths))
    width = max(lengths, default=0)
    assert index.shape == mask.shape == (len(parts), width)
    assert index.dtype == torch.int64
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[step < length for step in range(width)] for length in lengths]
    assert index.tolist() == [
        [begin + step if step < length else begin for step in range(width)] for begin, length in parts
    ]


@given(lengths_lists)
@settings(deadline=None, max_examples=60)
def test_padding_and_positions_agree(lengths: list[int]) -> None:
    """What the mask marks is what `positions` gives, in the same order."""
    first, sizes = ragged.starts(whole(lengths)), whole(lengths)
    index, mask = ragged.padded_positions(first, sizes)
    assert torch.equal(index[mask], ragged.positions(first, sizes))


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=8), st.sampled_from([torch.int64, torch.float64]))
@settings(deadline=None, max_examples=60)
def test_sums(parts: list[list[int]], dtype: torch.dtype) -> None:
    """A part's sum is that of its entries, 0 where there are none, in the type of the values."""
    flat = torch.tensor([value for part in parts for value in part], dtype=dtype)
    before = flat.clone()
    result = ragged.sums(flat, whole([len(part) for part in parts]))
    assert result.tolist() == [sum(part) for part in parts]
    assert result.dtype == dtype
    assert torch.equal(flat, before)


@given(st.integers(1, 3), st.integers(1, 3), lengths_lists, st.sampled_from([torch.int64, torch.float32]))
@example(2, 1, [2, 0, 3], torch.float32)
@settings(deadline=None, max_examples=30)
def test_sums_of_rows(layers: int, rows: int, lengths: list[int], dtype: torch.dtype) -> None:
    """Axes in front of the entries stay as they are, and each row is summed alone."""
    values = torch.arange(layers * rows * sum(lengths), dtype=dtype).reshape(layers, rows, sum(lengths))
    result = ragged.sums(values, whole(lengths))
    assert result.shape == (layers, rows, len(lengths))
    for layer in range(layers):
        for row in range(rows):
            assert torch.equal(result[layer, row], ragged.sums(values[layer, row], whole(lengths)))
