"""`bertscore-metric pairwise`: two files -> the matrix of all pairs, or the best partners of every text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.console import put, show_progress, voice
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.pairwise import PairwiseBest, PairwiseScores

_MATRICES = ("f1", "precision", "recall")


def pairwise(
    candidates: Annotated[
        str, typer.Option("--candidates", "-c", metavar="FILE", help="Texts, one a line, a row each; - is stdin.")
    ],
    references: Annotated[
        str | None,
        typer.Option("--references", "-r", metavar="FILE", help="Texts, a column each; without them the same file."),
    ] = None,
    candidate_column: options.CandidateColumn = None,
    reference_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of references.")] = None,
    top: Annotated[
        int | None, typer.Option(metavar="K", help="Only the K best columns of every row, and no matrix in memory.")
    ] = None,
    by: Annotated[str, typer.Option(metavar="|".join(_MATRICES), help="Which matrix to print.")] = "f1",
    model: options.NamedModel = None,
    lang: options.Lang = None,
    config: options.Config = None,
    num_layers: options.NumLayers = None,
    idf: options.Idf = None,
    idf_texts: options.IdfTexts = None,
    idf_table: options.IdfTableFile = None,
    rescale: options.Rescale = None,
    baseline_path: options.BaselinePath = None,
    max_length: options.MaxLength = None,
    long_text: options.LongText = None,
    match_special_tokens: options.MatchSpecialTokens = None,
    dtype: options.Dtype = None,
    compile: options.Compile = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: all three matrices, or index and F1.")] = False,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    """Score all texts against all of another file, or one another.

    Prints the signature, then a line a row with its scores, tab-separated; with --top a line for each of the best
    columns: row, column, F1, numbered from 0.
    """
    files.check_stdin([candidates, references, idf_texts])
    if by not in _MATRICES:
        raise ValueError(f"--by must be one of {', '.join(_MATRICES)}; got {by!r}.")
    if top is not None and by != "f1":
        raise ValueError("--top chooses by F1, so it takes no --by.")
    chosen = options.config(
        config,
        model_name_or_path=model,
        lang=lang,
        num_layers=num_layers,
        idf=options.fixed_idf(idf, idf_texts, idf_table),
        rescale_with_baseline=rescale if baseline_path is None else True,
        baseline_path=baseline_path,
        max_length=max_length,
        long_text=long_text,
        match_special_tokens=match_special_tokens,
        dtype=dtype,
        compile=compile,
        revision=revision,
        trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )
    inputs = [candidates, references, config, idf_texts, idf_table, *options.read_by(chosen)]
    files.check_outputs({"--output": output}, inputs)
    rows = files.read_candidates(candidates, candidate_column)
    columns = None
    if references is not None or reference_column is not None:
        columns = files.read_candidates(references or candidates, reference_column, "--reference-column")
    with voice(quiet):
        from bertscore_metric.scorer import BERTScorer

        scorer = BERTScorer.from_config(
            options.with_table(chosen, idf_table), batch_size=batch_size, device=device, verbose=show_progress(quiet)
        )
        if top is None:
            matrices = scorer.pairwise(rows, columns)
            text = _dumped(matrices) if json else _matrix(matrices, by)
        else:
            best = scorer.pairwise(rows, columns, top)
            text = _dumped(best) if json else _best(best)
    put(text, output)


def _dumped(found: PairwiseScores | PairwiseBest) -> str:
    import json

    return json.dumps(found.to_dict(), allow_nan=False) + "\n"


def _matrix(found: PairwiseScores, by: str) -> str:
    lines = ("\t".join(f"{score:.6f}" for score in row.tolist()) for row in getattr(found, by))
    return "\n".join([str(found.signature), *lines]) + "\n"


def _best(found: PairwiseBest) -> str:
    rows = zip(found.index.tolist(), found.f1.tolist(), strict=True)
    lines = [
        f"{row}\t{column}\t{score:.6f}"
        for row, (columns, scores) in enumerate(rows)
        for column, score in zip(columns, scores, strict=True)
    ]
    return "\n".join([str(found.signature), *lines]) + "\n"
