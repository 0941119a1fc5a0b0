"""`bertscore-metric tune`: texts with human judgements -> the best layer."""

from __future__ import annotations

import json as json_
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli import systems as judged
from bertscore_metric.cli.console import heard, put, say_loading, show_progress, voice
from bertscore_metric.io import files
from bertscore_metric.io.read import delimiter_of

if TYPE_CHECKING:
    from bertscore_metric.analysis.judging import SystemJudgement
    from bertscore_metric.analysis.tuning import BestLayer, TuningResult

_GROUP = "group"
_F1 = 2  # among the scores of a layer


def tune(
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="Texts with human scores: .tsv (never quoted), .csv or .jsonl.")
    ] = None,
    model: options.NamedModels = None,
    systems: judged.Systems = None,
    references: options.References = None,
    human: judged.Human = None,
    scores: judged.Saved = None,
    with_: judged.With = None,
    lang: Annotated[str | None, typer.Option(metavar="CODE", help="Language, for the tokenizer of bleu.")] = None,
    candidate_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of candidates.  [default: candidate]")
    ] = None,
    reference_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME...", help="Columns of references.  [default: reference]")
    ] = None,
    score_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column of human scores; higher is better.")
    ] = "score",
    group_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Correlate within these groups (language pairs) and average.  [default: group, if it is there]",
        ),
    ] = None,
    delimiter: options.Delimiter = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the correlations by layer (.png, .pdf, .svg).")
    ] = None,
    resamples: Annotated[int, typer.Option(metavar="N", help="Bootstrap resamples for the best layer.")] = 1000,
    seed: options.Seed = 0,
    max_length: options.MaxLength = None,
    long_text: options.LongText = None,
    match_special_tokens: options.MatchSpecialTokens = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with the correlations of each group.")] = False,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Find the layer whose scores agree best with people.

    Prints the correlation of P, R and F1 with human scores for every layer, without and with idf, the mean norm of the
    embeddings, and the best layer (Pearson, F1) with its 95 % bootstrap interval; and below, saved scores and other
    metrics. With --systems (or saved --scores of systems) and --human it judges whole systems instead.
    """
    models: list[str | None] = [*model] if model else [None]
    folder = [file for name in model or [] for file in options.in_folder(name)]
    inputs = [data, human, *(systems or []), *(references or []), *(scores or []), *folder]
    files.check_outputs({"--output": output, "--plot": plot}, inputs)
    _check_sources(data, systems, scores, human, model, with_)
    if plot is not None and len(models) > 1:
        raise ValueError(f"--plot draws the layers of one model, and got {len(models)}; call it once for each.")
    settings = options.given(
        max_length=max_length, long_text=long_text, match_special_tokens=match_special_tokens, dtype=dtype,
        batch_size=batch_size, device=device, revision=revision, trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )  # fmt: skip
    names = judged.classic_names(with_)
    if data is None:
        texts, trusted = ({}, []) if not systems else judged.named_texts(
            systems, references or [], candidate_column, reference_column or [])  # fmt: skip
        people = judged.read_human(str(human), score_column)
        with voice(quiet):
            from bertscore_metric.analysis import judging
            from bertscore_metric.models.encoder import release_encoders

            found = []
            for name in models:
                found.append(judging.judge_systems(
                    texts, trusted, people, name, saved=judged.read_saved(scores or []), others=names, lang=lang,
                    verbose=show_progress(quiet), **settings,
                ))  # fmt: skip
                release_encoders()
        put(_systems_as_json(found) if json else "\n".join(map(_systems_as_text, found)), output)
        return
    mark = delimiter_of(delimiter)
    if group_column is None and files.has_column(data, _GROUP, delimiter=mark):
        group_column = _GROUP
    people_of_segments = files.read_numbers(data, score_column, delimiter=mark)
    with heard(quiet):
        candidates = files.read_candidates(data, candidate_column or "candidate", delimiter=mark)
        trusted = files.read_references([data], reference_column or ["reference"], delimiter=mark)
        groups = group_column and files.read_candidates(data, group_column, "--group-column", delimiter=mark)
    with voice(quiet):
        if model is not None:
            say_loading(", ".join(model), quiet)
        from bertscore_metric.analysis import figures, judging, tuning, tuning_plot
        from bertscore_metric.models.encoder import release_encoders

        if plot is not None:
            figures.new_figure(1, 1)  # fails before there is work
        rows = judging.rows_beside(judged.read_saved(scores or []), names, candidates, trusted, lang)
        others = judging.judge_segments(rows, people_of_segments, groups)
        results = {}
        for name in model or []:
            results[name] = tuning.tune(
                candidates, trusted, people_of_segments, name, groups=groups, resamples=resamples, seed=seed,
                verbose=show_progress(quiet), **settings,
            )  # fmt: skip
            release_encoders()
        if json:
            put(_as_json(results, others), output)
        else:
            signatures = "\n".join(str(result.signature) for result in results.values())
            put(_as_text(results, others), output, signature=signatures or None)
        if plot is not None:
            for result in results.values():
                tuning_plot.plot_tuning(result, plot)


def _check_sources(
    data: str | None,
    systems: list[str] | None,
    scores: list[str] | None,
    human: str | None,
    model: list[str] | None,
    classics: str | None,
) -> None:
    if data is not None and (systems or human):
        raise ValueError("--data judges segments, --systems and --human judge systems; give one of them.")
    if data is None and not (human and (systems or scores)):
        raise ValueError(
            "Name judged segments (--data FILE), or judged systems: --systems FILES with --references, or saved "
            "--scores FILES, and --human FILE."
        )
    if not model and not scores and classics is None:
        raise ValueError("Name what is judged: --model NAME, saved --scores FILES, or --with chrf,...")
    if classics is not None and data is None and not systems:
        raise ValueError("--with computes its metrics from texts; give --systems and --references.")


_COLUMNS = "  pearson spearman kendall accuracy"
_HEADER = f"""
               P                                    R                                    F1
layer    norm  {"  ".join(3 * [_COLUMNS])}  best"""


def _as_json(results: dict[str, TuningResult], others: Mapping[str, Any]) -> str:
    own = [result.to_dict() for result in results.values()]
    data = {**({"models": own} if len(own) > 1 else own[0] if own else {}), **({"others": others} if others else {})}
    return json_.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _systems_as_json(found: list[SystemJudgement]) -> str:
    if len(found) == 1:
        return f"{found[0].to_json(indent=2)}\n"
    return json_.dumps({"models": [json_.loads(one.to_json()) for one in found]}, indent=2, ensure_ascii=False) + "\n"


def _as_text(results: dict[str, TuningResult], others: Mapping[str, Any]) -> str:
    """Return the tables of the layers, and below a line for the best layer of each model and each metric beside it."""
    text = "\n".join(map(_layers_as_text, results.values()))
    if not others and len(results) < 2:
        return text
    rows = {}
    for name, result in results.items():
        model = f"{name}, " if len(results) > 1 else ""
        best_of = zip(("without idf", "with idf"), result.correlations, result.best, strict=True)
        for weighting, by_layer, best in best_of:
            rows[f"{model}layer {best.layer}, F1 {weighting}"] = by_layer[best.layer, _F1].tolist()
    for name, by_statistic in others.items():
        rows[name] = [math.nan if one["mean"] is None else one["mean"] for one in by_statistic.values()]
    width = max(map(len, rows))
    lines = [*([""] if text else []), f"{'side by side':{width}}  pearson spearman  kendall accuracy"]
    lines += [f"{name:{width}}" + "".join(f" {mean:8.4f}" for mean in means) for name, means in rows.items()]
    return text + "\n".join(lines) + "\n"


def _systems_as_text(found: SystemJudgement) -> str:
    """Return a line for each metric: the share of pairs of systems that it orders as people do, and correlations."""
    width = max(len(one.name) for one in found.metrics)
    lines = [f"{name}  {signature}" for name, signature in found.signatures.items()]
    lines += [
        f"Agreement with people on {found.n_systems} systems",
        f"{'':{width}}  accuracy      of pairs   pearson kendall",
    ]
    for one in found.metrics:
        agreed = f"{one.accuracy * one.n_pairs:g} of {one.n_pairs}"
        lines.append(f"{one.name:{width}}  {one.accuracy:8.4f} {agreed:>13} {one.pearson:9.4f} {one.kendall:7.4f}")
    return "\n".join(lines) + "\n"


def _layers_as_text(result: TuningResult) -> str:
    """Return a table a weighting: a line a layer, `best` being its share of the resamples, and the best layer."""
    from bertscore_metric.analysis.tuning import WEIGHTINGS

    groups = f", mean of {len(result.groups)} groups" if len(result.groups) > 1 else ""
    lines = [f"Correlation with human scores: {result.n_segments} segments{groups}"]
    for weighting, by_layer, best in zip(WEIGHTINGS, result.correlations.tolist(), result.best, strict=True):
        lines += ["", f"{weighting}:{_HEADER}"]
        for layer, (norm, by_score) in enumerate(zip(result.norms, by_layer, strict=True)):
            cells = "".join(f"  {r:9.4f} {rho:8.4f} {tau:7.4f} {a:8.4f}" for r, rho, tau, a in by_score)
            lines.append(f"{layer:5d} {norm:7.2f}{cells}  {best.times_best[layer]:4.0%}")
        lines.append(_best(best, result))
    return "\n".join(lines) + "\n"


def _best(best: BestLayer, result: TuningResult) -> str:
    share = f"best in {best.times_best[best.layer]:.0%} of {result.resamples} resamples, seed {result.seed}"
    return (
        f"best: layer {best.layer}, F1 Pearson {best.correlation:.4f} "
        f"(95 % interval {best.low:.4f} to {best.high:.4f}; {share})"
    )
