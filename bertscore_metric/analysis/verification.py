"""Values of every stage of scoring, recorded to be compared: whether the numbers are still those of then."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from bertscore_metric import __version__, registry
from bertscore_metric.analysis.verification_record import Record
from bertscore_metric.core import ragged, weighting
from bertscore_metric.core.aggregation import token_weights
from bertscore_metric.core.baseline import Baseline, find_baseline, rescale
from bertscore_metric.core.matching import TokenMatches, match_pairs, unit
from bertscore_metric.core.tokens import TokenizedSegments
from bertscore_metric.registry.verification import verification_pairs
from bertscore_metric.result import BERTScoreResult, Scores
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.state.kept_embeddings import EmbeddingCollector
from bertscore_metric.state.state_columns import to_columns

# What a stranger's file may not allow; whoever checks it does.
_PERMISSIONS = ("trust_remote_code", "use_safetensors", "local_files_only")
_PACKAGES = ("transformers", "tokenizers", "torch")
_SAMPLES = 4  # values kept of a text's embeddings in a layer
_MOST_BYTES = 2**33


def record(scorer: BERTScorer, pairs: Sequence[tuple[str, Sequence[str]]] | None = None) -> Record:
    """Score pairs and return the values of every stage.

    Args:
        scorer: with any settings; what it has streamed stays as it is.
        pairs: candidates, each with its references; by default the shipped ones.

    Returns:
        Of the embeddings (unit vectors) four values a text and layer, evenly spread over its tokens; of the matches
        mean and lowest of the best cosines of both sides of a pair, and those of a few fixed vectors without a model.
        Idf is that of all references, or the scorer's own table. Scores are raw; they are rescaled as well where the
        scorer does, or where the tables have a baseline.

    Example:
        >>> values = record(BERTScorer("offline"), [("a cat", ["a cat"])])
        >>> values.token_ids, values.scores
        ([[101, 1037, 4937, 102]], [[1.0, 1.0, 1.0]])
    """
    pairs = verification_pairs() if pairs is None else pairs
    with scorer.own_arithmetic():
        segments = scorer.tokenize([candidate for candidate, _ in pairs], [list(group) for _, group in pairs])
        collector = EmbeddingCollector(_MOST_BYTES)
        matches = scorer.token_matches(segments, collector=collector)
        result = scorer.report(to_columns(scorer.scored(matches)), warn=False)
        texts = [collector.rows[text] for text in range(len(segments.texts))]
        baseline = _baseline(scorer)
        return Record(
            signature=str(scorer.signature),
            settings=_settings(scorer),
            made_with={
                "device": scorer.device.type,
                "bertscore_metric": __version__,
                **{name: version(name) for name in _PACKAGES},
            },
            pairs=[(candidate, list(group)) for candidate, group in pairs],
            token_ids=[ids.tolist() for ids in _pieces(segments.texts.ids, segments.texts.lengths)],
            weights=scorer.signature["weights"],
            embeddings=[_sampled(rows) for rows in texts],
            matches=[*_summaries(matches), *_fixed_matches()],
            idf=_idf(scorer, segments),
            scores=_rows(result.raw),
            rescaled=[] if baseline is None else _rows(_rescaled(result, baseline, scorer)),
            baseline=[] if baseline is None else baseline.values.tolist(),
            hashes={
                "embeddings": _hash(texts),
                "matches": _hash([matches.candidate_best, matches.reference_best]),
            },
        )


def _settings(scorer: BERTScorer) -> dict[str, Any]:
    """Return the settings that build this scorer again, as plain values."""
    config = scorer.config
    settings = {name: value for name, value in config.to_mapping().items() if name not in _PERMISSIONS}
    if config.model_name_or_path is None and config.lang is not None:
        settings["model_name_or_path"] = scorer.model.name  # the language's model of today
    if not config.all_layers and scorer.model.num_layers is not None:
        settings["num_layers"] = scorer.model.num_layers
    if not isinstance(config.idf, bool):
        settings["idf"] = _plain_idf(config.idf)
    return settings


def _plain_idf(idf: Any) -> Any:
    if not isinstance(idf, Mapping):
        return list(idf)
    table = weighting.IdfTable(idf)
    default = {} if table.default is None else {"default": table.default}
    return {**default, **{str(token): table[token] for token in sorted(table)}}


def _baseline(scorer: BERTScorer) -> Baseline | None:
    """Return the baseline of the scorer, or of its language or of English or of any, where the tables have one."""
    config, model = scorer.config, scorer.model
    layer = None if config.all_layers else model.num_layers
    if layer is None and model.depth is None:
        return None
    if config.rescale_with_baseline:
        return find_baseline(
            lang=config.lang, model=model.name, num_layers=layer, depth=model.depth, path=config.baseline_path
        )
    known = [code for code, _ in registry.baselines_for(model=model.name)]
    lang = next((code for code in (registry.language_code(config.lang or "en"), "en") if code in known), None)
    lang = lang or next(iter(known), None)
    rows = None if lang is None else registry.baseline(lang, model.name)
    if rows is None or not {*(range((model.depth or 0) + 1) if layer is None else [layer])} <= rows.keys():
        return None
    return find_baseline(lang=lang, model=model.name, num_layers=layer, depth=model.depth, path=None)


def _rescaled(result: BERTScoreResult, baseline: Baseline, scorer: BERTScorer) -> Scores:
    if scorer.config.rescale_with_baseline:
        return Scores(*result)
    raw = [getattr(result.raw, name) for name in ("precision", "recall", "f1")]
    return Scores(*(
        rescale(values.reshape(len(baseline.values), -1), baseline.values[:, number]).reshape(values.shape)
        for number, values in enumerate(raw)
    ))  # fmt: skip


def _rows(scores: Scores) -> list[list[float]]:
    """Return P, R and F1 of each segment; with all layers all P, then all R, then all F1."""
    columns = [values.reshape(-1, values.shape[-1]) for values in (scores.precision, scores.recall, scores.f1)]
    return [_rounded(row) for row in torch.cat(columns).T]


def _idf(scorer: BERTScorer, segments: TokenizedSegments) -> dict[int, float]:
    """Return what each id of the texts weighs with idf: the scorer's own table, or counted in the references."""
    texts = segments.texts
    listed = not isinstance(scorer.config.idf, bool)
    table = scorer.fixed_idf
    if table is None:
        lengths = texts.lengths[segments.references]
        positions = ragged.positions(ragged.starts(texts.lengths)[segments.references], lengths)
        counts = weighting.document_frequencies(texts.ids[positions].long(), lengths)
        table = weighting.inverse_document_frequencies(counts)
    ids = torch.unique(texts.ids).long()
    weights, _ = token_weights(ids, torch.tensor([len(ids)]), scorer.vocabulary, table, listed_specials=listed)
    return dict(zip(ids.tolist(), _rounded(weights), strict=True))


def _sampled(rows: Tensor) -> list[float]:
    """Return a few values of a text's embeddings [layer, token, dim], the same number of every layer."""
    flat = rows.reshape(len(rows), -1)
    if not flat.shape[1]:
        return []
    chosen = torch.linspace(0, flat.shape[1] - 1, _SAMPLES, dtype=torch.float64).long()
    return _rounded(flat[:, chosen].reshape(-1))


def _summaries(matches: TokenMatches) -> list[list[float]]:
    """Return mean and lowest of the best cosines of each pair: candidate, then reference, layer after layer."""
    candidates = _pieces(matches.candidate_best, matches.candidate_lengths)
    references = _pieces(matches.reference_best, matches.reference_lengths)
    return [
        _rounded(torch.stack([part for side in pair for part in _mean_and_lowest(side)]).T.reshape(-1))
        for pair in zip(candidates, references, strict=True)
    ]


def _pieces(flat: Tensor, lengths: Tensor) -> list[Tensor]:
    """Cut [..., token] into the tokens of each text."""
    starts = ragged.starts(lengths).tolist()
    return [flat[..., begin : begin + n] for begin, n in zip(starts, lengths.tolist(), strict=True)]


def _mean_and_lowest(best: Tensor) -> tuple[Tensor, Tensor]:
    if not best.shape[1]:
        return best.new_zeros(len(best)), best.new_zeros(len(best))
    return best.mean(1), best.amin(1)


def _fixed_matches() -> list[list[float]]:
    """Return the best cosines of a few fixed vectors, for whatever a model gives: some are negative, some padded."""
    angles = torch.tensor([0.1, 0.9, 1.7, 3.9, 4.4, 2.6, 2.9, 0.4, 5.8])
    vectors = unit(torch.stack([angles.cos(), angles.sin()], dim=-1))[None]
    everything = torch.ones(len(angles), dtype=torch.bool)
    starts, lengths = torch.tensor([0, 3]), torch.tensor([3, 1])
    other_starts, other_lengths = torch.tensor([3, 5]), torch.tensor([2, 4])
    sides = match_pairs(vectors, everything, starts, lengths, other_starts, other_lengths)
    return [_rounded(side[0]) for side in sides]


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 7) + 0.0 for value in values.double().tolist()]  # + 0.0: no negative zero


def _hash(tensors: Sequence[Tensor]) -> str:
    """Return a hash of values rounded to three decimals; equal values have an equal one, nearly equal ones may not."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update((tensor * 1000).round().to(torch.int16).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
