"""`bertscore-metric calibrate`: judged systems -> how often people agree about a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bertscore_metric.cli import options, systems
from bertscore_metric.cli.console import put, show_progress, voice
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.analysis.calibration import Calibration


def calibrate(
    systems_: systems.Systems = None,
    references: options.References = None,
    scores: systems.Saved = None,
    human: systems.Human = None,
    score_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column of people's scores; higher is better.")
    ] = "score",
    candidate_column: options.CandidateColumn = None,
    reference_column: options.ReferenceColumn = None,
    language_pair: Annotated[
        str | None, typer.Option(metavar="SRC-TGT", help="Of the systems, such as de-en; needed to add files later.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="FILE...", help="Pool files of this command with the same target language."),
    ] = None,
    model: options.NamedModel = None,
    lang: options.Lang = None,
    config: options.Config = None,
    num_layers: options.NumLayers = None,
    idf: options.Idf = None,
    rescale: options.Rescale = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Learn how often people agree about a difference of mean F1.

    Writes a JSON file for `compare --calibration`; with --output it also prints the pairs by size of the difference.
    """
    inputs = [*(systems_ or []), *(references or []), *(scores or []), *(add or []), human, config]
    files.check_stdin(inputs)
    files.check_outputs({"--output": output}, inputs)
    _check_sources(systems_, scores, add, human)
    with voice(quiet):
        from bertscore_metric.analysis import calibration

        if add:
            found = calibration.pool([calibration.Calibration.from_json(files.read_text(path), path) for path in add])
        else:
            judged = systems.read_human(str(human), score_column)
            if scores:
                saved = systems.read_saved(scores)
                found = calibration.calibrate_scores(saved, judged, language_pair)
            else:
                texts, trusted = systems.named_texts(
                    systems_ or [], references or [], candidate_column, reference_column or []
                )
                calibration.check_same_systems(dict.fromkeys(texts, 0.0), judged)
                chosen = options.config(
                    config, model_name_or_path=model, lang=lang, num_layers=num_layers, idf=idf,
                    rescale_with_baseline=rescale, dtype=dtype,
                )  # fmt: skip
                from bertscore_metric.scorer import BERTScorer

                scorer = BERTScorer.from_config(
                    chosen, batch_size=batch_size, device=device, verbose=show_progress(quiet)
                )
                found = calibration.calibrate_texts(scorer, texts, trusted, judged, language_pair)
    put(found.to_json(), output)
    if output is not None and output != files.STDOUT:
        put(_as_text(found), None)


def _check_sources(texts: list[str] | None, scores: list[str] | None, add: list[str] | None, human: str | None) -> None:
    if sum(map(bool, (texts, scores, add))) != 1:
        raise ValueError("Give --systems FILES with --references, or saved --scores FILES, or --add FILES to pool.")
    if not add and human is None:
        raise ValueError(
            "Name people's scores of the systems: --human FILE, a table with the columns system and score."
        )


def _as_text(found: Calibration) -> str:
    """Return a line for each class of differences, and the curve."""
    lines = [
        str(found.signature),
        f"{found.n_systems} systems, {len(found.pairs)} pairs",
        "difference      pairs  agree",
    ]
    for row in found.by_size():
        to = "" if row["to"] is None else f"{row['to']:.3f}"
        share = "-" if row["agree"] is None else f"{100 * row['agree']:.0f} %"
        lines.append(f"{row['from']:.3f} to {to:5}  {row['n_pairs']:5d}  {share:>5}")
    low, high = found.limits
    lines.append(f"slope {found.slope:.1f} ({low:.1f} to {high:.1f} with one system left out)")
    return "\n".join(lines) + "\n"
