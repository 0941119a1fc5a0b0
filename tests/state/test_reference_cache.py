"""The store of reference embeddings."""

import threading

import pytest
import torch

from bertscore_metric.state.reference_cache import ReferenceCache


def test_admits_until_full_and_keeps() -> None:
    """What came first stays, what does not fit is not kept, and a smaller one may still fit."""
    store = ReferenceCache(max_bytes=100)
    store.admit(b"a", torch.ones(1, 5, 4))  # 80 bytes
    store.admit(b"b", torch.ones(1, 2, 4))
    store.admit(b"c", torch.ones(1, 1, 4))
    store.admit(b"a", torch.zeros(1, 5, 4))
    assert store.get(b"b") is None
    assert torch.equal(store.get(b"a"), torch.ones(1, 5, 4))  # type: ignore[arg-type]
    assert store.get(b"c") is not None
    assert (len(store), store.n_bytes) == (2, 96)
    assert store.hit_rate == pytest.approx(2 / 3)


def test_holds_copies() -> None:
    """A row of a large batch does not keep the batch alive."""
    store = ReferenceCache(max_bytes=1000)
    batch = torch.zeros(1, 1000, 4)
    store.admit(b"a", batch[:, 3:5])
    batch += 1
    kept = store.get(b"a")
    assert kept is not None
    assert kept.untyped_storage().nbytes() == kept.nbytes == 32
    assert not kept.any()


def test_clear_and_empty() -> None:
    """A cleared store is as new; a budget of 0 keeps nothing."""
    store = ReferenceCache(max_bytes=1000)
    store.admit(b"a", torch.zeros(1, 1, 4))
    store.get(b"a")
    store.clear()
    assert (len(store), store.n_bytes, store.hit_rate) == (0, 0, 0.0)
    none = ReferenceCache(max_bytes=0)
    none.admit(b"a", torch.zeros(1, 1, 4))
    assert len(none) == 0
    with pytest.raises(ValueError, match="at least 0, got -1"):
        ReferenceCache(-1)


def test_threads_do_not_exceed_the_budget() -> None:
    """Several threads may admit at once."""
    store = ReferenceCache(max_bytes=16 * 50)

    def work(number: int) -> None:
        for k in range(100):
            store.admit(f"{number} {k}".encode(), torch.zeros(1, 1, 4))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 50
    assert store.n_bytes == 16 * 50
