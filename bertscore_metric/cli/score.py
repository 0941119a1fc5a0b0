"""`bertscore-metric score`: files -> config -> scorer -> result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.texts import read_texts
from bertscore_metric.cli.voice import heard, put, show_progress, voice
from bertscore_metric.config import EMPTY_RULES, user_path
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.report import BERTScoreResult
    from bertscore_metric.scorer import BERTScorer

_COLUMNS = ("precision", "recall", "f1")


def score(
    candidates: options.Candidates,
    references: options.References = None,
    text: options.Text = False,
    candidate_column: options.CandidateColumn = None,
    reference_column: options.ReferenceColumn = None,
    delimiter: options.Delimiter = None,
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
    empty: Annotated[
        str | None, typer.Option(metavar="|".join(EMPTY_RULES), help="Count empty segments as 0, or leave them out.")
    ] = None,
    match_special_tokens: options.MatchSpecialTokens = None,
    dtype: options.Dtype = None,
    compile: options.Compile = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    segments: Annotated[
        bool, typer.Option("--segments", "-s", help="A line per segment: number, P, R, F1, tab-separated.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; with --segments the rows too.")] = False,
    output: options.Output = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Also write a page: pictures, worst segments, a sample.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Segments drawn for the page, and as FILE.csv for annotators.")
    ] = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Score candidates against references.

    Prints the signature, then mean and standard deviation of precision, recall and F1 with the counts.
    """
    texts = [] if text else [*candidates, *(references or [])]
    files.check_stdin([*texts, idf_texts])
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
        empty=empty,
        match_special_tokens=match_special_tokens,
        dtype=dtype,
        compile=options.compiled(compile),
        revision=revision,
        trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )
    pages = _pages(report, sample, candidates)
    inputs = [*texts, config, idf_texts, idf_table, *options.read_by(chosen)]
    files.check_outputs({"--output": output, **pages}, inputs)
    if pages.get("--sample") is not None:
        from bertscore_metric.analysis.report_page import check_sample

        check_sample(user_path(str(pages["--sample"])))
    with heard(quiet):
        systems, trusted = read_texts(
            candidates, references or [], text, candidate_column, reference_column or [], delimiter
        )
    with voice(quiet):
        from bertscore_metric.scorer import BERTScorer

        scorer = BERTScorer.from_config(
            options.with_table(chosen, idf_table), batch_size=batch_size, device=device, verbose=show_progress(quiet)
        )
        results = _score(scorer, systems, trusted)
        if report is not None:
            _write_report(user_path(report), scorer, results, systems, trusted, sample, seed)
    put(_as_json(results, segments) if json else _as_text(results, segments), output)


def _score(scorer: BERTScorer, systems: dict[str, list[Any]], references: list[Any]) -> dict[str, BERTScoreResult]:
    from bertscore_metric.model import BERTScoreWarning

    results = {}
    for name, texts in systems.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BERTScoreWarning)
            results[name] = scorer.score(texts, references)
        for warning in caught:
            warnings.warn(f"{name}: {warning.message}" if len(systems) > 1 else warning.message, BERTScoreWarning, 2)
    return results


def _pages(report: str | None, sample: int | None, candidates: list[str]) -> dict[str, str | None]:
    """Return what `--report` and `--sample` write, each with its option."""
    if report is None:
        if sample is not None:
            raise ValueError("--sample says how many segments --report FILE.html shows; name that file too.")
        return {}
    if Path(report).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report writes a page and needs a name that ends with .html, got {report!r}.")
    if len(candidates) > 1:
        raise ValueError("--report is about one candidates file; call it once for each.")
    if sample is not None and sample < 0:
        raise ValueError(f"--sample must be at least 0, got {sample}.")
    return {"--report": report, "--sample": None if sample is None else str(Path(report).with_suffix(".csv"))}


def _write_report(
    file: Path,
    scorer: BERTScorer,
    results: dict[str, BERTScoreResult],
    systems: dict[str, list[Any]],
    references: list[Any],
    sample: int | None,
    seed: int,
) -> None:
    from bertscore_metric.analysis import report_page

    (result,), (candidates,) = results.values(), systems.values()
    groups = [[group] if isinstance(group, str) else list(group) for group in references]
    if result.f1.ndim > 1:
        raise ValueError("--report shows one layer; the config asks for all_layers.")
    if sample is not None:
        report_page.write_sample(file.with_suffix(".csv"), result, candidates, groups, sample=sample, seed=seed)
    n = report_page.SAMPLE if sample is None else sample
    page = report_page.report_page(result, scorer, candidates, groups, sample=n, seed=seed)
    files.write_text(str(file), page)


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
