"""The hub card's table of architectures is the generated one."""

import support_table
from architectures import ARCHITECTURES


def test_card_has_the_generated_table() -> None:
    """The card says what the tests check; `python tests/support_table.py` writes it anew."""
    assert support_table.in_card() == support_table.table()


def test_a_cell_needs_a_test() -> None:
    """A property that no test checks for an architecture would leave its cell empty."""
    assert support_table.checked_by(support_table.checks.test_layers) == list(ARCHITECTURES)
    assert support_table.checked_by(test_card_has_the_generated_table) == []
