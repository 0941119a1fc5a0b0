"""Shared fixtures: everything offline, the tiny models of `tests/tiny_models` and the embedded model."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# One thread a process: tests run in as many processes as there are cores, and threads that wait for one another spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from bertscore_metric import BERTScorer

TESTS = Path(__file__).parent
MODELS = TESTS / "tiny_models"
DATA = TESTS.parent.parent / "shared" / "data"  # third-party text; tests that read it skip where it is absent

# Scores are compared in float32: sums over some 30 tokens of values near 1 differ by a few 1e-7 with the order.
TOLERANCE = 1e-6


# These folders were written by transformers 5 in formats that transformers 4 does not read; the other architectures are
# tested on both.
UNREADABLE_BEFORE_5 = {"llama", "modernbert", "t5", "xlnet"}


def model_path(name: str) -> str:
    """Return the folder of a tiny model, or the embedded model for `minilm`."""
    if name in UNREADABLE_BEFORE_5 and version("transformers") < "5":
        pytest.skip(f"the tiny {name} model is in a format that transformers 4 does not read")
    return "offline" if name == "minilm" else str(MODELS / name)


@cache
def shared_scorer(name: str, **settings: object) -> BERTScorer:
    """Return a scorer that tests share; they use only `score`, which leaves nothing behind."""
    return BERTScorer(model_path(name), **settings)  # type: ignore[arg-type]


@pytest.fixture
def scorer() -> BERTScorer:
    """Return a scorer with the embedded model at layer 5, without anything streamed."""
    return BERTScorer("offline", num_layers=5)


@pytest.fixture
def tiny() -> BERTScorer:
    """Return a scorer with the tiny BERT at layer 2, without anything streamed."""
    return BERTScorer(model_path("bert"), num_layers=2)
