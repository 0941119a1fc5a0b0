"""The caller's precision settings neither change a score nor are changed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
from conftest import model_path
from fakes import HashEncoder

from bertscore_metric import BERTScore, BERTScorer, BERTScoreResult
from bertscore_metric.models.numerics import own_arithmetic

CANDIDATES = ["the cat sat on the mat .", "a quick brown fox", "hello there, general kenobi!"]
REFERENCES = ["a cat was sitting on the mat .", "the fast brown fox jumped over the lazy dog", "hello there"]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Change torch's default dtype for a block."""
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Change torch's matmul precision for a block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


SURROUNDINGS: dict[str, Any] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
    "medium": lambda: matmul_precision("medium"),
    "high": lambda: matmul_precision("high"),
    "default_device": lambda: torch.device("meta"),
}


def settings_of_torch() -> tuple[Any, ...]:
    """Return every global setting that a call could leave changed."""
    return (
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


def run(around: AbstractContextManager[Any], *, idf: bool = False) -> BERTScoreResult:
    """Load and score inside a surrounding, and check that it is the same afterwards."""
    with around:
        before = settings_of_torch()
        result = BERTScorer(model_path("minilm"), num_layers=5, idf=idf).score(CANDIDATES, REFERENCES)
        assert settings_of_torch() == before
    return result


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_same_numbers_in_any_surrounding(name: str, idf: bool) -> None:
    """Scores are the same to the bit inside autocast, inference mode, and under other defaults of torch."""
    expected = run(nullcontext(), idf=idf)
    result = run(SURROUNDINGS[name](), idf=idf)
    for got, right in zip(result, expected, strict=True):
        assert got.dtype == torch.float32
        assert not got.is_inference()
        assert not got.requires_grad
        torch.testing.assert_close(got, right, atol=0, rtol=0)


def test_the_surroundings_would_matter() -> None:
    """Without the guard, autocast and matmul precision do change what a product of float32 matrices is."""
    a = torch.randn(64, 64)
    exact = a.double() @ a.double()
    for around in (torch.autocast("cpu", dtype=torch.bfloat16), default_dtype(torch.bfloat16)):
        with around:
            made = torch.ones(1) if torch.get_default_dtype() != torch.float32 else a @ a
            assert made.dtype == torch.bfloat16
            with own_arithmetic("float32", torch.device("cpu")):
                assert torch.ones(1).dtype == torch.float32
                torch.testing.assert_close((a @ a).double(), exact, atol=1e-4, rtol=0)


def test_settings_are_restored_after_an_error() -> None:
    """An error inside leaves the caller's settings as they were."""
    with matmul_precision("medium"), default_dtype(torch.float64):
        before = settings_of_torch()
        with pytest.raises(RuntimeError, match="inside"), own_arithmetic("tf32", torch.device("cpu")):
            raise RuntimeError("inside")
        assert settings_of_torch() == before


def test_tf32_asks_the_gpu_only() -> None:
    """`tf32` switches the GPU's products to TF32 for the call; a CPU computes in float32 all the same."""
    with own_arithmetic("tf32", torch.device("cpu")):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"


def test_an_own_encoder_runs_without_autocast() -> None:
    """The guard holds for custom encoders as well."""
    from transformers import AutoTokenizer

    class Watching(HashEncoder):
        seen: tuple[Any, ...] = ()

        def embed(self, tokens: Any) -> torch.Tensor:
            self.seen = settings_of_torch()
            return super().embed(tokens)

    encoder = Watching()
    scorer = BERTScorer(encoder=encoder, tokenizer=AutoTokenizer.from_pretrained(model_path("bert")))
    with torch.autocast("cpu", dtype=torch.bfloat16), default_dtype(torch.float64):
        scorer.score(["the cat"], ["a cat"])
    assert encoder.seen[0] == torch.float32
    assert encoder.seen[4] is False


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_reduced_precision_stays_close(dtype: str) -> None:
    """bfloat16 and float16 move a segment by less than .01, and matching still accumulates in float32."""
    result = BERTScorer(model_path("minilm"), num_layers=5, dtype=dtype).score(CANDIDATES, REFERENCES)
    expected = run(nullcontext())
    for got, right in zip(result, expected, strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, right, atol=0.01, rtol=0)
    assert result.signature["dtype"] == dtype
    assert not torch.equal(result.f1, expected.f1)


@pytest.mark.parametrize(
    ("capabilities", "resolved"),
    [
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx2": True}, "float32"),
        (None, "float32"),
    ],
)
def test_auto_is_what_the_cpu_can_do(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool] | None, resolved: str
) -> None:
    """`auto` is bfloat16 where there is hardware for it, and the signature and the config name what it became."""
    if capabilities is None:  # as in older versions of torch
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    scorer = BERTScorer(model_path("bert"), num_layers=2, dtype="auto", device="cpu")
    assert scorer.config.dtype == resolved
    assert f"|dtype:{resolved}|" in str(scorer.signature)
    named = BERTScorer(model_path("bert"), num_layers=2, dtype=resolved, device="cpu")
    assert torch.equal(scorer.score("a cat sat", "the cat").f1, named.score("a cat sat", "the cat").f1)


def test_auto_in_the_metric() -> None:
    """A metric keeps what `auto` became, so that its states and tolerances are those of that dtype."""
    metric = BERTScore(model_path("bert"), num_layers=2, dtype="auto")
    metric.update(["a cat sat"] * 2, ["the cat"] * 2, sample_ids=[0, 0])
    assert "|dtype:auto|" not in str(metric.signature)
    other = metric.clone()
    other.merge_state(metric)
    assert torch.equal(other.compute()["f1"], metric.compute()["f1"])
    assert torch.isfinite(metric.compute()["f1"])
