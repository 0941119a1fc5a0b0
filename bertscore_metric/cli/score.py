"""`bertscore-metric score`: files -> config -> scorer -> result."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli import systems as judged
from bertscore_metric.cli.console import heard, put, say_loading, show_progress, to_terminal, voice
from bertscore_metric.cli.extras import extras_of
from bertscore_metric.cli.like import model_of, say_what_differs
from bertscore_metric.cli.score_output import Rows, as_json, as_rows, as_text
from bertscore_metric.cli.texts import read_texts
from bertscore_metric.config import EMPTY_RULES
from bertscore_metric.io import files
from bertscore_metric.io.paths import user_path

if TYPE_CHECKING:
    from bertscore_metric.result import BERTScoreResult
    from bertscore_metric.scorer import BERTScorer

_MOST_DIGITS = 9  # a float32 has no more


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
    like: options.Like = None,
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
        bool,
        typer.Option(
            "--segments", "-s", help="A tab-separated row a segment: number, P, R, F1, best reference; else # lines."
        ),
    ] = False,
    worst: Annotated[
        int | None, typer.Option(metavar="N", help="Rows of the N segments with the lowest F1; on the page, too.")
    ] = None,
    texts: Annotated[bool, typer.Option("--texts", help="Texts at the end of the rows.")] = False,
    id_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the candidates' table that names rows.")
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="No line with the names of the rows' columns.")
    ] = False,
    digits: Annotated[
        int | None, typer.Option(metavar="N", help="Decimals.  [default: 4 on a terminal, 6 elsewhere]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; with --segments the rows, too.")] = False,
    output: options.Output = None,
    interval: Annotated[bool, typer.Option("--interval", help="Print the 95 % intervals of the means.")] = False,
    with_: judged.With = None,
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

    Prints mean and standard deviation of precision, recall and F1 with the counts, then the signature. With
    rows, all that is not a row begins with #.
    """
    sources = [] if text else [*candidates, *(references or [])]
    files.check_stdin([*sources, idf_texts])
    _check_rows(segments, worst, digits, {"--texts": texts, "--id-column": id_column, "--no-header": no_header})
    chosen = options.config(
        config,
        like,
        model_name_or_path=model,
        lang=lang,
        num_layers=num_layers,
        idf=options.fixed_idf(idf, idf_texts, idf_table),
        rescale_with_baseline=rescale,
        baseline_path=baseline_path,
        max_length=max_length,
        long_text=long_text,
        empty=empty,
        match_special_tokens=match_special_tokens,
        dtype=dtype,
        compile=compile,
        revision=revision,
        trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )
    pages = _pages(report, sample, candidates)
    if worst is not None and chosen.all_layers:
        raise ValueError("--worst is about one layer; the config asks for all_layers.")
    inputs = [*sources, config, idf_texts, idf_table, *options.read_by(chosen)]
    files.check_outputs({"--output": output, **pages}, inputs)
    if pages.get("--sample") is not None:
        from bertscore_metric.analysis.report_page import check_sample

        check_sample(user_path(str(pages["--sample"])))
    with heard(quiet):
        systems, trusted = read_texts(
            candidates, references or [], text, candidate_column, reference_column or [], delimiter
        )
    ids = None if id_column is None else _read_ids(candidates, id_column)
    with voice(quiet):
        say_loading(options.model_of(chosen), quiet)
        from bertscore_metric.scorer import BERTScorer

        with model_of(like, model):
            scorer = BERTScorer.from_config(
                options.with_table(chosen, idf_table),
                batch_size=batch_size,
                device=device,
                verbose=show_progress(quiet),
            )
        say_what_differs(like, scorer)
        results = _score(scorer, systems, trusted)
        extras = extras_of(
            results, systems, trusted, judged.classic_names(with_), lang=chosen.lang, interval=interval, seed=seed
        )
        decimals = (4 if to_terminal(output) else 6) if digits is None else digits
        if json:
            put(as_json(results, extras, segments=segments, worst=worst), output)
        elif segments or worst is not None:
            rows = Rows(worst, not no_header, ids, systems if texts else None, trusted if texts else None)
            put(as_rows(results, extras, rows, decimals), output)
        else:
            put(as_text(results, extras, decimals), output, signature=next(iter(results.values())).signature)
        if report is not None:
            _write_report(user_path(report), scorer, results, systems, trusted, worst, sample, interval, seed, sources)


def _score(scorer: BERTScorer, systems: dict[str, list[Any]], references: list[Any]) -> dict[str, BERTScoreResult]:
    from bertscore_metric.warnings import BERTScoreWarning

    results = {}
    for name, texts in systems.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BERTScoreWarning)
            results[name] = scorer.score(texts, references)
        for warning in caught:
            warnings.warn(f"{name}: {warning.message}" if len(systems) > 1 else warning.message, BERTScoreWarning, 2)
    return results


def _check_rows(segments: bool, worst: int | None, digits: int | None, beside: dict[str, Any]) -> None:
    """Refuse what shapes rows where there are none, and numbers that mean nothing."""
    if worst is not None and worst < 1:
        raise ValueError(f"--worst must be at least 1, got {worst}.")
    if digits is not None and not 1 <= digits <= _MOST_DIGITS:
        raise ValueError(f"--digits must be from 1 to {_MOST_DIGITS}, got {digits}.")
    for option, value in beside.items():
        if value and not segments and worst is None:
            raise ValueError(f"{option} is about the rows of --segments or --worst; ask for those, too.")


def _read_ids(candidates: list[str], column: str) -> list[str]:
    if len(candidates) > 1:
        raise ValueError("--id-column names a column of one candidates file, and there are several.")
    return files.read_candidates(candidates[0], column, "--id-column")


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
    worst: int | None,
    sample: int | None,
    interval: bool,
    seed: int,
    sources: list[str],
) -> None:
    from bertscore_metric.analysis import report_page

    (result,), (candidates,) = results.values(), systems.values()
    groups = [[group] if isinstance(group, str) else list(group) for group in references]
    if result.f1.ndim > 1:
        raise ValueError("--report shows one layer; the config asks for all_layers.")
    if sample is not None:
        report_page.write_sample(file.with_suffix(".csv"), result, candidates, groups, sample=sample, seed=seed)
    page = report_page.report_page(
        result,
        scorer,
        candidates,
        groups,
        worst=report_page.WORST if worst is None else worst,
        sample=report_page.SAMPLE if sample is None else sample,
        interval=interval,
        seed=seed,
        sources=sources,
    )
    files.write_text(str(file), page)
