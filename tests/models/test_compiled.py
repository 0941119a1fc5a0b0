"""Compiled models: when, the same numbers, and what happens where compiling fails."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import MODELS, model_path, shared_scorer

from bertscore_metric import BERTScore, BERTScorer, BERTScoreWarning, release_encoders
from bertscore_metric.models.compiled import CompiledModel
from bertscore_metric.models.scoring_model import use_encoder

CANDIDATES = ["a cat sat on the mat", "hello there my friend", "this one is longer than the others by some words", "no"]
REFERENCES = [["the cat was sitting on a mat"], ["hi there", "hello"], ["what"], ["hello there my friend"]]


class Plain:
    """A model that returns its ids as embeddings, and counts its calls; `calls` is shared by what is made of it."""

    def __init__(self) -> None:
        self.calls = 0
        self.fault: Exception | None = None
        self.off = 0.0

    def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
        self.calls += 1
        if self.fault is not None:
            raise self.fault
        return SimpleNamespace(last_hidden_state=input_ids[..., None].float() + 1 + self.off)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Plain:
    """Return what `torch.compile` makes of any model."""
    made = Plain()
    monkeypatch.setattr(torch, "compile", lambda *_, **__: made)
    return made


IDS = torch.arange(20).reshape(2, 10)


def call(model: CompiledModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    """Return the embeddings of a batch."""
    embeddings: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return embeddings


def test_compiled_from_the_first_batch(fast: Plain) -> None:
    """It compiles at the first batch, whose plain output is the measure, and then runs what was compiled."""
    plain = Plain()
    model = CompiledModel(plain, dtype="float32")
    for _ in range(3):
        assert torch.equal(call(model)[..., 0], IDS.float() + 1)
    assert (plain.calls, fast.calls, model.error) == (1, 3, None)


def test_one_text_runs_as_it_is(fast: Plain) -> None:
    """A batch of one text is never compiled, and not what is compared."""
    plain = Plain()
    model = CompiledModel(plain, dtype="float32")
    call(model, IDS[:1])
    assert fast.calls == 0
    call(model)
    call(model, IDS[:1])
    assert (plain.calls, fast.calls) == (3, 1)


def test_other_embeddings_are_not_used(fast: Plain) -> None:
    """What was compiled wrongly is noticed at once and never used."""
    fast.off = 0.5
    model = CompiledModel(Plain(), dtype="float32")
    for _ in range(2):
        assert torch.equal(call(model)[..., 0], IDS.float() + 1)
    assert model.error == "compiled, it gives other embeddings"
    assert fast.calls == 1


def test_padding_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a batch is padded, both may give anything."""
    mask = torch.ones_like(IDS)
    mask[0, 5:] = 0

    class Padded(Plain):
        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            output = super().__call__(input_ids)
            output.last_hidden_state[0, 5:] = self.off
            return output

    other = Padded()
    other.off, plain = 1e6, Padded()
    monkeypatch.setattr(torch, "compile", lambda *_, **__: other)
    model = CompiledModel(plain, dtype="bfloat16")
    other.off, plain.off = 0.0, 0.0
    model(input_ids=IDS, attention_mask=mask)
    assert model.error is None


@pytest.mark.parametrize("later", [False, True])
def test_what_cannot_be_compiled_runs_as_it_is(fast: Plain, later: bool) -> None:
    """A failure at the first batch, or at a size that comes later, is told and costs no result."""
    model = CompiledModel(Plain(), dtype="float32")
    if later:
        call(model)
    fast.fault = RuntimeError("InvalidCxxCompiler:\n  no compiler")
    assert torch.equal(call(model)[..., 0], IDS.float() + 1)
    assert torch.equal(call(model)[..., 0], IDS.float() + 1)
    assert model.error == "InvalidCxxCompiler: no compiler"


def test_what_was_not_compared_is_not_used(fast: Plain) -> None:
    """A first compiled batch that runs out of memory leaves the comparison to the next one."""
    model = CompiledModel(Plain(), dtype="float32")
    fast.fault, fast.off = torch.OutOfMemoryError("CUDA out of memory."), 0.5
    with pytest.raises(torch.OutOfMemoryError):
        call(model)
    fast.fault = None
    for _ in range(2):
        assert torch.equal(call(model)[..., 0], IDS.float() + 1)
    assert model.error == "compiled, it gives other embeddings"


@pytest.mark.parametrize("later", [False, True])
def test_out_of_memory_is_no_reason_to_give_up(fast: Plain, later: bool) -> None:
    """Too large a batch is the caller's to halve; the smaller one runs compiled."""
    model = CompiledModel(Plain(), dtype="float32")
    if later:
        call(model)
    fast.fault = torch.OutOfMemoryError("CUDA out of memory.")
    with pytest.raises(torch.OutOfMemoryError):
        call(model)
    fast.fault = None
    call(model)
    assert model.error is None


def test_scorer_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer that cannot compile says so once, when it is made, and its signature is that of its numbers."""

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", fail)
    with pytest.warns(BERTScoreWarning, match=r"could not be compiled and runs as it is: No working C\+\+") as told:
        scorer = BERTScorer(model_path("bert"), num_layers=1, compile=True)
    assert [warning.filename for warning in told] == [__file__]
    assert scorer.signature == shared_scorer("bert", num_layers=1).signature
    result = scorer.score(CANDIDATES, REFERENCES)
    assert torch.equal(result.f1, shared_scorer("bert", num_layers=1).score(CANDIDATES, REFERENCES).f1)


def test_own_encoder_compiles_itself() -> None:
    """The setting is for models that this package loads."""
    from fakes import HashEncoder

    from bertscore_metric import ScoreConfig

    with pytest.raises(ValueError, match=r"compile is for a named model or model=; your own encoder= compiles itself"):
        use_encoder(ScoreConfig(compile=True), HashEncoder(), None)


@pytest.fixture(scope="module")
def real() -> BERTScorer:
    """Return a scorer that torch really compiled; the process may still keep one that could not be."""
    release_encoders()
    return BERTScorer(model_path("bert"), num_layers=1, compile=True)


def test_the_same_numbers(real: BERTScorer) -> None:
    """Compiled, every score is within 1e-5; the signature says it, and the two are not declared comparable."""
    plain = shared_scorer("bert", num_layers=1)
    one, other = real.score(CANDIDATES, REFERENCES), plain.score(CANDIDATES, REFERENCES)
    for name in ("precision", "recall", "f1"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-5)
    assert real.model.encoder._compiled._compiled is not None  # type: ignore[attr-defined]
    assert str(real.signature) == str(plain.signature).replace("|maxlen", "|compiled:yes|maxlen")
    assert not real.signature.comparable_to(plain.signature)


def test_metric_that_is_kept_out_of_compiling_compiles_its_encoder(real: BERTScorer) -> None:
    """The metric shares the compiled encoder, though its own methods are outside `torch.compile`."""
    metric = BERTScore(model_path("bert"), num_layers=1, compile=True, reduction="none")
    metric.update(CANDIDATES, REFERENCES)
    torch.testing.assert_close(
        metric.compute()["f1"], real.score(CANDIDATES, REFERENCES).f1, rtol=0, atol=1e-6, check_device=False
    )
    assert str(metric.signature) == str(real.signature)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [folder.name for folder in sorted(MODELS.iterdir()) if folder.is_dir()])
@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"all_layers": True}], ids=["cut", "all"])
def test_architectures(folder: str, settings: dict[str, Any]) -> None:
    """Every kind of model gives the same numbers compiled, or says that it runs as it is."""
    path = model_path(folder)
    if folder == "longformer":  # inductor of torch 2.13 cannot read its infinities
        with pytest.warns(BERTScoreWarning, match="could not be compiled"):
            scorer = BERTScorer(path, compile=True, **settings)
    else:
        scorer = BERTScorer(path, compile=True, **settings)
    plain = shared_scorer(folder, **settings)
    torch.testing.assert_close(
        scorer.score(CANDIDATES, REFERENCES).f1, plain.score(CANDIDATES, REFERENCES).f1, rtol=0, atol=1e-5
    )


@pytest.mark.slow
def test_machine_without_a_compiler(tmp_path: Path) -> None:
    """Where really no compiler is, the scores are there and a warning says what to install."""
    program = (
        "from bertscore_metric import score\n"
        f"print(score(['a cat', 'a'], ['a dog', 'b'], {model_path('bert')!r}, num_layers=1, compile=True).signature)"
    )
    environment = {**os.environ, "CXX": "/nonexistent/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert "could not be compiled and runs as it is" in ran.stderr
    assert "|maxlen" in ran.stdout
    assert "compiled" not in ran.stdout
