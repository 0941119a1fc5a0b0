"""The reward: the core's numbers in TRL's convention, and nothing of the caller's changed."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import environment, run
from conftest import TESTS, model_path

from bertscore_metric import score
from bertscore_metric.adapters import reward as room
from bertscore_metric.adapters.reward import BERTScoreReward

BERT = model_path("bert")
COMPLETIONS = ["the cat sat on the mat .", "", "I like it."]
ANSWERS: list[Any] = ["a cat was sitting on the mat .", "no", "I love it!"]


@pytest.fixture(scope="module")
def reward() -> BERTScoreReward:
    """Return the reward of the tiny model."""
    return BERTScoreReward("answer", model_name_or_path=BERT, num_layers=2)


@pytest.fixture(scope="module")
def wanted() -> list[float]:
    """Return what the core says of the texts above."""
    with pytest.warns(match="empty"):
        return score(COMPLETIONS, ANSWERS, BERT, num_layers=2).f1.tolist()


def test_equals_the_core(reward: BERTScoreReward, wanted: list[float]) -> None:
    """Texts, chat messages and unused columns give the core's scores as floats, and no warning."""
    columns = {"answer": ANSWERS, "prompts": ["x"] * 3, "completion_ids": [[1]] * 3, "trainer_state": None}
    assert reward(completions=COMPLETIONS, **columns) == pytest.approx(wanted, abs=1e-6)
    chats = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    assert reward(chats, **columns) == pytest.approx(wanted, abs=1e-6)
    assert all(type(one) is float for one in reward(chats, **columns))


def test_groups_and_other_scores(wanted: list[float]) -> None:
    """The column may hold groups of references, and precision or recall may be the reward."""
    recall = BERTScoreReward("answer", reward="recall", model_name_or_path=BERT, num_layers=2)
    groups = [["other", ANSWERS[0]], [ANSWERS[2], "it"]]
    texts = [COMPLETIONS[0], COMPLETIONS[2]]
    assert recall(texts, answer=groups) == pytest.approx(score(texts, groups, BERT, num_layers=2).recall.tolist())
    assert recall.__name__ == "bertscore_recall"


def test_leaves_the_callers_arithmetic(reward: BERTScoreReward, wanted: list[float]) -> None:
    """In a training step under autocast rewards are the same, and torch's settings stay."""
    state = torch.random.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16), torch.enable_grad():
        assert reward(COMPLETIONS, answer=ANSWERS) == pytest.approx(wanted, abs=1e-6)
        assert torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_is_loaded_once_and_pickles(reward: BERTScoreReward, wanted: list[float]) -> None:
    """All calls use one scorer, and a copy in another process has the same rewards."""
    scorer = reward._scorer.scorer
    assert reward(COMPLETIONS, answer=ANSWERS) == pytest.approx(wanted, abs=1e-6)
    assert reward._scorer.scorer is scorer
    assert pickle.loads(pickle.dumps(reward))(COMPLETIONS, answer=ANSWERS) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward": "bleu"}, "reward must be precision, recall or f1; got 'bleu'"),
        ({"idf": True}, "pass texts as idf= instead of True"),
        ({"all_layers": True}, "and no all_layers"),
    ],
)
def test_settings_that_are_no_reward(settings: dict[str, Any], message: str) -> None:
    """What would not give one number that a text alone decides is refused before a model is loaded."""
    with pytest.raises(ValueError, match=message):
        BERTScoreReward("answer", model_name_or_path=BERT, **settings)


@pytest.mark.parametrize(
    ("completions", "columns", "message"),
    [
        (["a"], {"target": ["b"]}, "No column 'answer' with references; the rows have target"),
        (["a"], {"answer": [None]}, r"answer\[0\] is None"),
        ([[]], {"answer": ["a"]}, r"completions\[0\] is of type list"),
        (["a"], {"answer": ["a", "b"]}, "completions and answer must have the same number of entries"),
    ],
)
def test_rows_that_do_not_fit(reward: BERTScoreReward, completions: Any, columns: dict[str, Any], message: str) -> None:
    """A missing column and what is no text are named in the caller's words."""
    with pytest.raises((TypeError, ValueError), match=message):
        reward(completions, **columns)


def test_is_short() -> None:
    """The room holds no arithmetic and stays within 60 lines."""
    assert len(Path(room.__file__).read_text(encoding="utf-8").splitlines()) <= 60


GRPO = f"""
import json
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from bertscore_metric.adapters.reward import BERTScoreReward
rows = Dataset.from_dict({{"prompt": ["the cat", "I like"] * 2, "answer": ["the cat sat", "I like it."] * 2}})
tokenizer = AutoTokenizer.from_pretrained({str(TESTS / "tiny_models" / "gpt2")!r})
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
settings = GRPOConfig("out", max_steps=1, num_generations=2, per_device_train_batch_size=2, max_completion_length=4,
                      report_to=[], use_cpu=True, bf16=False, logging_steps=1, gradient_checkpointing=False)
reward = BERTScoreReward("answer", model_name_or_path={BERT!r}, num_layers=2)
trainer = GRPOTrainer({str(TESTS / "tiny_models" / "gpt2")!r}, reward, args=settings, train_dataset=rows,
                      processing_class=tokenizer)
trainer.train()
print(json.dumps({{k: v for one in trainer.state.log_history for k, v in one.items() if "bertscore_f1" in k}}))
"""


@pytest.mark.slow
def test_a_step_of_grpo(tmp_path: Path) -> None:
    """TRL's GRPO trainer takes the reward as it is, and logs it under its name."""
    logged = json.loads(run(environment("trl", tmp_path / "env"), GRPO, tmp_path))
    assert -1 <= logged["rewards/bertscore_f1/mean"] <= 1
