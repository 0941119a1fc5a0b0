"""`bertscore-metric score`: files -> config -> scorer -> report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric import files
from bertscore_metric.cli.voice import put, show_progress, voice
from bertscore_metric.config import DTYPES, EMPTY_RULES, LONG_TEXT_RULES, ScoreConfig

if TYPE_CHECKING:
    from bertscore_metric.report import BERTScoreResult

_COLUMNS = ("precision", "recall", "f1")


def score(
    candidates: Annotated[
        list[str],
        typer.Option("--candidates", "-c", metavar="FILE...", help="Generated texts, one a line; - is stdin."),
    ],
    references: Annotated[
        list[str] | None,
        typer.Option(
            "--references", "-r", metavar="FILE...", help="References, one a line; several files give several."
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="-c and -r hold texts themselves, not files.")] = False,
    candidate_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of candidates in .tsv (never quoted), .csv and .jsonl files."),
    ] = None,
    reference_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME...", help="Columns of references; without -r in the same file.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="Hub name, folder, or 'offline'.")
    ] = None,
    lang: Annotated[str | None, typer.Option(metavar="CODE", help="Language; chooses model and baseline.")] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Settings in YAML, or a shipped config; other options override.")
    ] = None,
    num_layers: Annotated[
        int | None,
        typer.Option("--num-layers", "-l", metavar="N", help="Blocks to run; 0 scores the embedding output."),
    ] = None,
    idf: Annotated[bool | None, typer.Option("--idf", help="Weight tokens by idf, counted in the references.")] = None,
    idf_texts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Count idf in these texts, one a line, instead.")
    ] = None,
    idf_table: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take idf weights from this JSON table instead.")
    ] = None,
    rescale: Annotated[
        bool | None, typer.Option("--rescale", help="Rescale with the baseline of model, layer and language.")
    ] = None,
    baseline_path: Annotated[
        str | None, typer.Option(metavar="FILE", help="Rescale with this file (LAYER,P,R,F).")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(metavar="N", help="Longest text in tokens; at most the model's own limit.")
    ] = None,
    long_text: Annotated[
        str | None, typer.Option(metavar="|".join(LONG_TEXT_RULES), help="What to do with longer texts.")
    ] = None,
    empty: Annotated[
        str | None, typer.Option(metavar="|".join(EMPTY_RULES), help="Count empty segments as 0, or leave them out.")
    ] = None,
    match_special_tokens: Annotated[
        bool | None, typer.Option(help="Whether tokens may be matched to special tokens.", show_default=False)
    ] = None,
    dtype: Annotated[str | None, typer.Option(metavar="|".join(DTYPES), help="Arithmetic of the encoder.")] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", "-b", metavar="N", help="Most texts in an encoder batch.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps.")] = None,
    revision: Annotated[str | None, typer.Option(metavar="REV", help="Branch, tag or commit on the hub.")] = None,
    trust_remote_code: Annotated[
        bool | None, typer.Option("--trust-remote-code", help="Allow model code from the hub to run.")
    ] = None,
    segments: Annotated[
        bool, typer.Option("--segments", "-s", help="A line per segment: number, P, R, F1, tab-separated.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; with --segments the rows too.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of stdout.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no warnings.")] = False,
) -> None:
    """Score candidates against references.

    Prints the signature, then mean and standard deviation of precision, recall and F1 with the counts.
    """
    if sum(given is not None and given is not False for given in (idf, idf_texts, idf_table)) > 1:
        raise ValueError("Give one of --idf, --idf-texts and --idf-table.")
    settings = {
        "model_name_or_path": model,
        "lang": lang,
        "num_layers": num_layers,
        "idf": files.read_candidates(idf_texts) if idf_texts else idf,
        "rescale_with_baseline": True if baseline_path else rescale,
        "baseline_path": baseline_path,
        "max_length": max_length,
        "long_text": long_text,
        "empty": empty,
        "match_special_tokens": match_special_tokens,
        "dtype": dtype,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
    }
    base = ScoreConfig.from_yaml(config).to_mapping() if config else {}
    if model is not None and model != base.get("model_name_or_path"):
        base.pop("num_layers", None)  # that layer was chosen for the config's model
    chosen = ScoreConfig.from_mapping(
        {**base, **{name: value for name, value in settings.items() if value is not None}}
    )
    if output:
        files.check_output(output, [*([] if text else candidates), *([] if text else references or [])])
    if idf_table and not Path(idf_table).expanduser().is_file():
        raise FileNotFoundError(f"No file {idf_table!r} with an idf table.")
    systems, trusted = _read_texts(candidates, references or [], text, candidate_column, reference_column or [])
    with voice(quiet):
        results = _score(chosen, idf_table, systems, trusted, batch_size=batch_size, device=device, quiet=quiet)
    put(_as_json(results, segments) if json else _as_text(results, segments), output)


def _read_texts(
    candidates: list[str], references: list[str], text: bool, candidate_column: str | None, reference_columns: list[str]
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the candidates of each system by the name of its file, and the references."""
    if text:
        if not references or candidate_column or reference_columns:
            raise ValueError("--text needs the candidate after -c and its references after -r, and no columns.")
        return {"text": candidates}, [references if len(references) > 1 else references[0]] * len(candidates)
    if [*candidates, *references].count(files.STDIN) > 1:
        raise ValueError("Standard input (-) can be read once.")
    if not references and not reference_columns:
        raise ValueError("Name the references: --references FILE, or --reference-column NAME in a table of pairs.")
    if len(set(candidates)) < len(candidates):
        raise ValueError("A candidates file is named twice.")
    if not references and len(candidates) > 1:
        raise ValueError("Several candidates files need their references in files of their own (--references FILE).")
    systems = {path: files.read_candidates(path, candidate_column) for path in candidates}
    trusted = files.read_references(references or candidates, reference_columns)
    for path, texts in systems.items():
        if len(texts) != len(trusted):
            raise ValueError(
                f"{path} has {len(texts)} candidates, but {', '.join(references)} has {len(trusted)} references; "
                f"line by line they must belong together."
            )
    return systems, trusted


def _score(
    config: ScoreConfig,
    idf_table: str | None,
    systems: dict[str, list[Any]],
    references: list[Any],
    *,
    batch_size: int | None,
    device: str | None,
    quiet: bool,
) -> dict[str, BERTScoreResult]:
    import dataclasses

    from bertscore_metric.model import BERTScoreWarning
    from bertscore_metric.scorer import BERTScorer
    from bertscore_metric.weighting import IdfTable

    if idf_table:
        config = dataclasses.replace(config, idf=IdfTable.load(idf_table))
    scorer = BERTScorer.from_config(config, batch_size=batch_size, device=device, verbose=show_progress(quiet))
    results = {}
    for name, texts in systems.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BERTScoreWarning)
            results[name] = scorer.score(texts, references)
        for warning in caught:
            warnings.warn(f"{name}: {warning.message}" if len(systems) > 1 else warning.message, BERTScoreWarning, 2)
    return results


def _as_json(results: dict[str, BERTScoreResult], segments: bool) -> str:
    import json

    if len(results) == 1:
        return next(iter(results.values())).to_json(segments=segments, indent=2) + "\n"
    rows = [{"candidates": name, **result.to_dict(segments=segments)} for name, result in results.items()]
    return json.dumps({"systems": rows}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_text(results: dict[str, BERTScoreResult], segments: bool) -> str:
    lines = [str(next(iter(results.values())).signature)]
    for name, result in results.items():
        prefix = "" if len(results) == 1 else f"{name}\t"
        lines += [prefix + line for line in _summary(result)]
        if segments:
            lines += [prefix + line for line in _segment_lines(result)]
    return "\n".join(lines) + "\n"


def _summary(result: BERTScoreResult) -> list[str]:
    """Return a line with means, deviations and counts; with all layers a line a layer."""
    share = f"{result.unk_share.candidates:.1%} / {result.unk_share.references:.1%}"
    counts = f"{result.n_segments} segments, {result.n_empty} empty, {result.n_truncated} truncated texts"
    if result.has_windows:
        counts += f", {result.n_windows} windows"
    columns = [_layers(getattr(part, name)) for name in _COLUMNS for part in (result.mean, result.std)]
    rows = [f"P {p:.6f} ± {p2:.6f}  R {r:.6f} ± {r2:.6f}  F1 {f:.6f} ± {f2:.6f}"
            for p, p2, r, r2, f, f2 in zip(*columns, strict=True)]  # fmt: skip
    if len(rows) > 1:
        rows = [f"layer {number}\t{row}" for number, row in enumerate(rows)]
    return [*rows[:-1], f"{rows[-1]}  ({counts}, unknown tokens {share})"]


def _segment_lines(result: BERTScoreResult) -> Iterator[str]:
    """Yield number, P, R and F1 of each segment; with all layers a line a layer, its number behind the segment's."""
    for number, row in enumerate(result.to_rows()):
        layers = list(zip(*(_layers(row[name]) for name in _COLUMNS), strict=True))
        for layer, scores in enumerate(layers):
            numbers = [number] if len(layers) == 1 else [number, layer]
            yield "\t".join([*map(str, numbers), *(f"{score:.6f}" for score in scores)])


def _layers(value: Any) -> list[float]:
    return list(value) if isinstance(value, tuple | list) else [value]
