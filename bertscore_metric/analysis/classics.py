"""BLEU, chrF and TER by sacrebleu, ROUGE by rouge-score, beside BERTScore and under their own signatures."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscore_metric.core.significance import Interval, mean_interval

CORPUS_METRICS = ("bleu", "chrf", "ter")
SEGMENT_METRICS = ("rouge1", "rouge2", "rougeL")
CLASSICS = (*CORPUS_METRICS, *SEGMENT_METRICS)
_BOOTSTRAP, _TRIALS = 1000, 10000  # sacrebleu's own defaults
CORPUS_TEST = f"sacrebleu's paired approximate randomization, {_TRIALS} trials; its bootstrap gives the intervals"
_LATIN = frozenset(string.ascii_lowercase)
_MOST_OTHER = 0.5  # share of the references' letters that rouge-score drops


@dataclass(frozen=True)
class ClassicScore:
    """A corpus' score by a classic metric: 0 to 100 of sacrebleu, 0 to 1 of ROUGE, with 95 % interval and signature."""

    name: str
    score: float
    interval: Interval | None
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        data: dict[str, Any] = {"score": self.score, "signature": self.signature}
        return data if self.interval is None else {**data, "interval": list(self.interval)}


@dataclass(frozen=True)
class CorpusScores:
    """The scores of systems by one corpus metric, each with its 95 % bootstrap interval, and the signature."""

    scores: dict[str, tuple[float, Interval]]
    signature: str


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names of classics, each once, or say which is none.

    Raises:
        ValueError: an unknown name.
    """
    unknown = [name for name in names if name not in CLASSICS]
    if unknown:
        raise ValueError(f"There is no metric {unknown[0]!r} to set beside BERTScore; it is one of "
                         f"{', '.join(CLASSICS)}.")  # fmt: skip
    return list(dict.fromkeys(names))


def classic_scores(
    names: Sequence[str],
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lang: str | None = None,
    interval: bool = False,
    seed: int = 0,
) -> list[ClassicScore]:
    """Score one system by classic metrics.

    Args:
        names: of `CLASSICS`.
        candidates: texts [segment].
        references: groups of texts [segment]; empty ones beside others are left out.
        lang: language; BLEU's tokenizer follows it (zh, ja, ko).
        interval: whether with 95 % intervals: of sacrebleu's bootstrap, and as for BERTScore for ROUGE.
        seed: of the intervals of ROUGE; sacrebleu has its own, which its signature names.

    Raises:
        ImportError: sacrebleu, rouge-score or a tokenizer is not installed.
        ValueError: an unknown name, no segments, or ROUGE for a script that it cannot read.
    """
    found = []
    for name in check_names(names):
        if name in SEGMENT_METRICS:
            values = rouge(name, candidates, references)
            sure = mean_interval(values, seed=seed) if interval else None
            found.append(ClassicScore(name, float(values.mean()), sure, rouge_signature(name)))
        elif interval:
            all_scores = corpus_scores(name, {"": candidates}, references, lang)
            found.append(ClassicScore(name, *all_scores.scores[""], all_scores.signature))
        else:
            metric = _metric(name, lang)
            score = float(metric.corpus_score(list(candidates), _streams(references)).score)
            found.append(ClassicScore(name, score, None, str(metric.get_signature())))
    return found


def corpus_scores(
    name: str,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    lang: str | None = None,
) -> CorpusScores:
    """Return BLEU, chrF or TER of systems with the interval of sacrebleu's bootstrap, its mean and CI."""
    streams, scores, signature = _streams(references), {}, ""
    for system, texts in systems.items():
        named = [(system, list(texts))]
        signatures, result = _paired(name, named, streams, lang, test_type="bs", n_samples=_BOOTSTRAP)
        scores[system] = (result[0].score, Interval(float(result[0].mean - result[0].ci),
                                                    float(result[0].mean + result[0].ci)))  # fmt: skip
        signature = signatures
    return CorpusScores(scores, signature)


def corpus_p(
    name: str,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    pairs: Sequence[tuple[str, str]],
    lang: str | None = None,
) -> list[float]:
    """Return the p of each pair by sacrebleu's paired approximate randomization, [pair].

    Systems with the same texts have p = 1, where sacrebleu's strict comparison would report the smallest p there is.
    """
    streams = _streams(references)
    against: dict[str, list[str]] = {}
    for first, second in pairs:
        against.setdefault(second, []).append(first)
    p: dict[tuple[str, str], float] = {}
    for second, firsts in against.items():
        named = [(system, list(systems[system])) for system in (second, *firsts)]
        _, results = _paired(name, named, streams, lang, test_type="ar", n_samples=_TRIALS)
        for first, result in zip(firsts, results[1:], strict=True):
            same = list(systems[first]) == list(systems[second])
            p[first, second] = 1.0 if same else float(result.p_value)
    return [p[pair] for pair in pairs]


def sentence_scores(
    name: str, candidates: Sequence[str], references: Sequence[Sequence[str]], lang: str | None = None
) -> NDArray[np.float64]:
    """Return the score of every segment by itself, [segment]; for BLEU with sacrebleu's smoothing, TER negated.

    TER counts errors, so that its negative is what should rise with human judgements.
    """
    if name in SEGMENT_METRICS:
        return rouge(name, candidates, references)
    metric = _metric(name, lang, sentences=True)
    groups = [_texts(group) for group in references]
    values = [metric.sentence_score(text, group).score for text, group in zip(candidates, groups, strict=True)]
    return np.asarray(values, dtype=np.float64) * (-1 if name == "ter" else 1)


def rouge(name: str, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return ROUGE's F measure of every segment with its best reference, [segment] from 0 to 1.

    Raises:
        ValueError: more than half of the references' letters are outside a-z, which rouge-score drops.
    """
    groups = [_texts(group) for group in references]
    if not groups:
        raise ValueError("ROUGE of no segments is nothing; give some.")
    letters = [letter for group in groups for text in group for letter in text.lower() if letter.isalpha()]
    other = sum(letter not in _LATIN for letter in letters)
    if letters and other / len(letters) > _MOST_OTHER:
        raise ValueError(
            f"{other / len(letters):.0%} of the references' letters are outside a-z, and rouge-score drops them: even "
            f"identical texts would score 0. Leave {name} out; chrf works for any script."
        )
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ImportError("ROUGE is computed by rouge-score: pip install 'bertscore_metric[stats]'.") from error
    scorer = RougeScorer([name], use_stemmer=False)
    return np.array([scorer.score_multi(group, text)[name].fmeasure
                     for text, group in zip(candidates, groups, strict=True)], dtype=np.float64)  # fmt: skip


def rouge_signature(name: str) -> str:
    """Return how ROUGE is computed, in one line."""
    return f"{name}|measure:f|stemmer:no|tokenizer:default|refs:max|rouge_score:{version('rouge-score')}"


def _texts(group: Sequence[str]) -> list[str]:
    return [text for text in group if text.strip()] or list(group[:1])


def _streams(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return the references as sacrebleu wants them: a list for each number, `None` where there is none."""
    groups = [_texts(group) for group in references]
    if not groups:
        raise ValueError("A corpus metric of no segments is nothing; give some.")
    most = max(map(len, groups))
    return [[group[number] if number < len(group) else None for group in groups] for number in range(most)]


def _paired(
    name: str, named: list[tuple[str, list[str]]], streams: list[list[str | None]], lang: str | None, **how: Any
) -> tuple[str, list[Any]]:
    """Return the signature and sacrebleu's result for each system, the first being the baseline."""
    signatures, table = _sacrebleu("significance").PairedTest(named, {name: _metric(name, lang)}, streams, **how)()
    (key,) = signatures
    return str(signatures[key]), table[key]


def _metric(name: str, lang: str | None, *, sentences: bool = False) -> Any:
    """Return a new metric of sacrebleu, for its references are kept in it."""
    metrics = _sacrebleu("metrics")
    if name == "chrf":
        return metrics.CHRF()
    if name == "ter":
        return metrics.TER()
    try:
        return metrics.BLEU(trg_lang=lang or "", effective_order=sentences, force=True)
    except (RuntimeError, ImportError) as error:
        raise ImportError(f"BLEU of {lang} needs its tokenizer: pip install 'sacrebleu[{lang}]' ({error}).") from error


def _sacrebleu(module: str) -> Any:
    try:
        from sacrebleu import metrics, significance
    except ImportError as error:
        raise ImportError(
            "BLEU, chrF and TER are computed by sacrebleu: pip install 'bertscore_metric[stats]'."
        ) from error
    return {"metrics": metrics, "significance": significance}[module]
