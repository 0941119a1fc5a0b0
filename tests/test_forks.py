"""A child that is forked while another thread scores scores too, with the caller's settings and nothing half made."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import model_path, shared_scorer
from fakes import HashEncoder
from transformers import AutoTokenizer

from bertscore_metric import BERTScorer
from bertscore_metric.models.numerics import own_arithmetic
from bertscore_metric.models.tokenizer import TextTokenizer
from bertscore_metric.scorer_handle import SharedBatchCache
from bertscore_metric.state.reference_cache import ReferenceCache

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
PAIR = (["the cat sat", "a dog"], ["a cat sat", "the dog walked past"])


def passes_in_child(check: Callable[[], bool]) -> bool:
    """Return whether a check is true in a forked child, which has 20 seconds for it."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if check() else 3)
        finally:  # a child must not go on with the tests
            os._exit(4)
    return os.waitpid(child, 0)[1] == 0


def while_held(hold: Callable[[threading.Event, threading.Event], None], do: Callable[[], Any]) -> Any:
    """Call `do` while another thread is inside `hold`, which tells when it is and waits until it may leave."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(inside, leave))
    thread.start()
    try:
        assert inside.wait(20)
        return do()
    finally:
        leave.set()
        thread.join()


def settings() -> tuple[Any, ...]:
    """Return the settings of the process that scoring changes."""
    return (
        torch.get_default_dtype(),
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.mkldnn.matmul.fp32_precision,
    )


def test_check_can_fail() -> None:
    """A child that finds something wrong, or dies, is noticed."""
    assert passes_in_child(lambda: True)
    assert not passes_in_child(lambda: False)
    assert not passes_in_child(lambda: bool(1 / 0))


def test_child_scores_while_another_thread_is_inside() -> None:
    """All locks are held by another thread, and the child has the same scores and the caller's settings."""
    scorer = shared_scorer("bert", num_layers=2)
    wanted = scorer.score(*PAIR).f1
    torch.set_default_dtype(torch.float64)
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        before = settings()

        def hold(inside: threading.Event, leave: threading.Event) -> None:
            with (
                own_arithmetic("float32", torch.device("cpu")),
                own_arithmetic("tf32", torch.device("cpu")),
                scorer.model.tokenizer._lock,
                scorer.model.encoder._lock,  # type: ignore[attr-defined]
            ):
                assert settings() != before
                inside.set()
                assert leave.wait(30)

        def check() -> bool:
            return settings() == before and torch.equal(scorer.score(*PAIR).f1, wanted) and settings() == before

        assert while_held(hold, lambda: passes_in_child(check))
        assert settings() == before
    finally:
        torch.set_default_dtype(torch.float32)
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_fork_inside_a_call() -> None:
    """A child that is forked inside a call has the caller's settings, at once and after the call's end."""
    before = settings()

    def check() -> bool:
        return settings() == before

    torch.set_default_dtype(torch.float64)
    try:
        before = settings()
        with own_arithmetic("float32", torch.device("cpu")):
            assert settings() != before
            assert passes_in_child(check)
            child = os.fork()
        if child == 0:  # the child leaves the call as well
            os._exit(0 if check() else 3)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_default_dtype(torch.float32)


def test_nothing_is_shared_with_the_child() -> None:
    """The store of references is empty in the child and as it was here, and so is the batch that metrics share."""
    store, latest = ReferenceCache(1000), SharedBatchCache()
    store.admit(b"ids", torch.zeros(1, 3, 4))
    latest.set("batch", 1, "rows")

    def hold(inside: threading.Event, leave: threading.Event) -> None:
        with store._lock:
            inside.set()
            assert leave.wait(30)

    def check() -> bool:
        empty = (len(store), store.n_bytes, store.lookups, latest.get("batch", 2)) == (0, 0, 0, None)
        store.admit(b"ids", torch.zeros(1, 3, 4))
        return empty and len(store) == 1

    assert while_held(hold, lambda: passes_in_child(check))
    assert len(store) == 1
    assert latest.get("batch", 2) == "rows"


def test_tokenizer_in_use() -> None:
    """A fast tokenizer that another thread was using can be set to another limit in the child."""
    tokenizer = TextTokenizer(AutoTokenizer.from_pretrained(model_path("bert")), max_length=8)
    wanted = tokenizer(["the cat sat on the mat"]).ids
    long = ["the cat sat on the red table. " * 4000] * 8

    def hold(inside: threading.Event, leave: threading.Event) -> None:
        inside.set()
        while not leave.is_set():
            tokenizer._encode(long)

    def check() -> bool:
        ids = tokenizer(["the cat sat on the mat", "the cat " * 40]).ids
        return torch.equal(ids[: len(wanted)], wanted)

    assert all(while_held(hold, lambda: [passes_in_child(check) for _ in range(5)]))


def test_parent_used_several_threads() -> None:
    """A child scores where the parent had used OpenMP's threads, which it lacks, and keeps the caller's number."""
    scorer = shared_scorer("bert", num_layers=2)
    texts = [f"the cat sat on the red table {number}" for number in range(200)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        wanted = scorer.score(texts, texts[::-1]).f1

        def check() -> bool:
            found = scorer.score(texts, texts[::-1]).f1
            return torch.allclose(found, wanted, atol=1e-6) and torch.get_num_threads() == 2

        assert passes_in_child(check)
    finally:
        torch.set_num_threads(before)


def test_cuda_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the parent had used a GPU, the child is told to be spawned, also one that would take the first GPU."""
    encoder, tokenizer = HashEncoder(), AutoTokenizer.from_pretrained(model_path("bert"))
    scorer = BERTScorer(encoder=encoder, tokenizer=tokenizer, device="cpu")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)

    def refused(use: Callable[[], Any]) -> bool:
        with pytest.raises(RuntimeError, match=r"forked from one that had used CUDA.* Start processes with spawn"):
            use()
        return True

    def enter() -> None:
        with own_arithmetic("float32", torch.device("cuda")):
            raise AssertionError("A GPU was used.")

    assert passes_in_child(lambda: refused(enter))
    assert passes_in_child(lambda: refused(lambda: BERTScorer(model_path("bert"), num_layers=2)))
    assert passes_in_child(lambda: scorer.score(*PAIR).n_segments == 2)
    assert passes_in_child(lambda: passes_in_child(lambda: refused(enter)))  # a grandchild
    with own_arithmetic("float32", torch.device("cpu")):  # here nothing changes
        pass


BUSY = """
import os, signal, threading, time, warnings
import torch
from bertscore_metric import BERTScorer
warnings.simplefilter("ignore")
torch.set_num_threads(1)
scorer, stop = BERTScorer("offline"), []
def busy():
    while not stop:
        scorer.score(["a cat sat"] * 60, ["the cat sat"] * 60)
thread = threading.Thread(target=busy)
thread.start()
time.sleep(0.3)
ended = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if abs(scorer.score(["a cat"], ["the cat"]).f1.item() - .8) < .2 else 3)
    ended.append(os.waitpid(child, 0)[1])
    time.sleep(0.01)
stop.append(1)
thread.join()
print(set(ended))
"""


@pytest.mark.slow
def test_fork_while_scoring() -> None:
    """Of twenty children, forked at any moment of another thread's calls, none hangs."""
    run = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=400, check=False)
    assert run.stdout == "{0}\n", run.stderr
