"""`bertscore-metric tune`: texts with human judgements -> the best layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.voice import heard, put, show_progress, voice
from bertscore_metric.io import files
from bertscore_metric.io.read import delimiter_of

if TYPE_CHECKING:
    from bertscore_metric.analysis.tuning import BestLayer, TuningResult

_GROUP = "group"


def tune(
    data: Annotated[
        str, typer.Option(metavar="FILE", help="Texts with human scores: .tsv (never quoted), .csv or .jsonl.")
    ],
    model: options.Model,
    candidate_column: Annotated[str, typer.Option(metavar="NAME", help="Column of candidates.")] = "candidate",
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
    embeddings, and the best layer (Pearson, F1) with its 95 % bootstrap interval.
    """
    files.check_outputs({"--output": output, "--plot": plot}, [data, *options.in_folder(model)])
    mark = delimiter_of(delimiter)
    if group_column is None and files.has_column(data, _GROUP, delimiter=mark):
        group_column = _GROUP
    human = files.read_numbers(data, score_column, delimiter=mark)
    with heard(quiet):
        candidates = files.read_candidates(data, candidate_column, delimiter=mark)
        references = files.read_references([data], reference_column or ["reference"], delimiter=mark)
    groups = group_column and files.read_candidates(data, group_column, "--group-column", delimiter=mark)
    settings = options.given(
        max_length=max_length, long_text=long_text, match_special_tokens=match_special_tokens, dtype=dtype,
        batch_size=batch_size, device=device, revision=revision, trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )  # fmt: skip
    with voice(quiet):
        from bertscore_metric.analysis import figures, tuning, tuning_plot

        if plot is not None:
            figures.new_figure(1, 1)  # fails before there is work
        result = tuning.tune(
            candidates, references, human, model, groups=groups, resamples=resamples, seed=seed,
            verbose=show_progress(quiet), **settings,
        )  # fmt: skip
        if plot is not None:
            tuning_plot.plot_tuning(result, plot)
    put(f"{result.to_json(indent=2)}\n" if json else _as_text(result), output)


_HEADER = """
               P                           R                           F1
layer    norm    pearson spearman kendall    pearson spearman kendall    pearson spearman kendall  best"""


def _as_text(result: TuningResult) -> str:
    """Return a table a weighting: a line a layer, `best` being its share of the resamples, and the best layer."""
    from bertscore_metric.analysis.tuning import WEIGHTINGS

    groups = f", mean of {len(result.groups)} groups" if len(result.groups) > 1 else ""
    lines = [str(result.signature), f"Correlation with human scores: {result.n_segments} segments{groups}"]
    for weighting, by_layer, best in zip(WEIGHTINGS, result.correlations.tolist(), result.best, strict=True):
        lines += ["", f"{weighting}:{_HEADER}"]
        for layer, (norm, by_score) in enumerate(zip(result.norms, by_layer, strict=True)):
            cells = "".join(f"  {r:9.4f} {rho:8.4f} {tau:7.4f}" for r, rho, tau in by_score)
            lines.append(f"{layer:5d} {norm:7.2f}{cells}  {best.times_best[layer]:4.0%}")
        lines.append(_best(best, result))
    return "\n".join(lines) + "\n"


def _best(best: BestLayer, result: TuningResult) -> str:
    share = f"best in {best.times_best[best.layer]:.0%} of {result.resamples} resamples, seed {result.seed}"
    return (
        f"best: layer {best.layer}, F1 Pearson {best.correlation:.4f} "
        f"(95 % interval {best.low:.4f} to {best.high:.4f}; {share})"
    )
