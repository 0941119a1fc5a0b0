"""`bertscore-metric compare`: systems on the same segments -> differences, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli import options, systems
from bertscore_metric.cli.console import put, show_progress, voice
from bertscore_metric.config import EMPTY_RULES
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.analysis.comparison import Comparison, PairOfSystems
    from bertscore_metric.scorer import BERTScorer


def compare(
    candidates: Annotated[
        list[str] | None,
        typer.Option("--candidates", "-c", metavar="FILE...", help="Texts of each system, one a line, named by file."),
    ] = None,
    references: options.References = None,
    scores: systems.Saved = None,
    candidate_column: options.CandidateColumn = None,
    reference_column: options.ReferenceColumn = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare the others with this system, not all pairs.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Also compare within each domain or language of this column.")
    ] = None,
    group_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Segments of a document belong together: draw whole ones.")
    ] = None,
    with_: systems.With = None,
    detect: Annotated[
        float | None, typer.Option(metavar="D", help="Say how many segments would show a difference of D.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(metavar="FILE", help="Say how often people agree; a file of calibrate.")
    ] = None,
    model: options.NamedModel = None,
    lang: options.Lang = None,
    config: options.Config = None,
    num_layers: options.NumLayers = None,
    idf: options.Idf = None,
    rescale: options.Rescale = None,
    baseline_path: options.BaselinePath = None,
    max_length: options.MaxLength = None,
    long_text: options.LongText = None,
    empty: Annotated[
        str | None, typer.Option(metavar="|".join(EMPTY_RULES), help="Count empty segments as 0, or leave them out.")
    ] = None,
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: options.Output = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Also write a page with pictures and explanations.")
    ] = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Compare systems on the same segments.

    Prints means and paired differences with 95 % intervals, wins, p with and without Holm's correction, and the
    smallest difference that so many segments can show.
    """
    inputs = [*(candidates or []), *(references or []), *(scores or [])]
    files.check_stdin(inputs)
    _check_sources(candidates, scores, with_)
    if report is not None and Path(report).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report writes a page and needs a name that ends with .html, got {report!r}.")
    settings = options.given(
        model_name_or_path=model, lang=lang, num_layers=num_layers, idf=idf,
        rescale_with_baseline=rescale if baseline_path is None else True, baseline_path=baseline_path,
        max_length=max_length, long_text=long_text, empty=empty, dtype=dtype, revision=revision,
        trust_remote_code=trust_remote_code, use_safetensors=options.safetensors(pickled_weights),
    )  # fmt: skip
    if scores and (settings or config):
        raise ValueError("--scores are compared as they are; a model and its settings are for --candidates.")
    chosen = None if scores else options.config(config, None, **settings)
    read = [*inputs, config, calibration, *([] if chosen is None else options.read_by(chosen))]
    files.check_outputs({"--output": output, "--report": report}, read)
    tables = [*(references or []), *(candidates or [])]
    labels, groups = (systems.read_labels(tables, column, option)
                      for column, option in ((by, "--by"), (group_column, "--group-column")))  # fmt: skip
    texts, trusted = ({}, []) if not candidates else systems.named_texts(
        candidates, references or [], candidate_column, reference_column or [])  # fmt: skip
    with voice(quiet):
        from bertscore_metric.analysis import comparison
        from bertscore_metric.analysis.calibration import Calibration
        from bertscore_metric.scorer import BERTScorer

        judged = None if calibration is None else Calibration.from_json(files.read_text(calibration), calibration)
        scorer = None if chosen is None else BERTScorer.from_config(
            chosen, batch_size=batch_size, device=device, verbose=show_progress(quiet))  # fmt: skip
        found = comparison.compare(
            texts or systems.read_saved(scores or []), trusted or None, scorer=scorer, baseline=baseline, groups=groups,
            by=labels, classics=systems.classic_names(with_), calibration=judged, detect=detect, seed=seed,
        )  # fmt: skip
        if report is not None:
            _write_page(report, found, scorer, texts, trusted)
    put(f"{found.to_json(indent=2)}\n" if json else "\n".join(_as_text(found)) + "\n", output)


def _check_sources(candidates: list[str] | None, scores: list[str] | None, classics: str | None) -> None:
    if bool(candidates) == bool(scores):
        raise ValueError("Give the systems' texts (--candidates A B, with --references) or saved --scores A B.")
    if scores and classics is not None:
        raise ValueError("--with computes its metrics from texts; give --candidates and --references, not --scores.")
    if scores and len(set(scores)) < len(scores):
        raise ValueError("A file of scores is named twice.")


def _write_page(
    report: str, found: Comparison, scorer: BERTScorer | None, texts: dict[str, list[Any]], trusted: list[Any]
) -> None:
    from bertscore_metric.analysis.comparison_page import comparison_page

    groups = [[group] if isinstance(group, str) else list(group) for group in trusted]
    files.write_text(report, comparison_page(found, scorer, texts, groups))


def _as_text(found: Comparison) -> Iterator[str]:
    """Yield the lines about F1, then those by domain, then those of the classics."""
    yield str(found.signature or "scores without a signature")
    yield from _tables(found)
    for name, part in found.by.items():
        yield from ("", f"{name}:")
        yield from _tables(part)
    for name, part in found.classics.items():
        yield from ("", f"{name}  {part.signature}")
        yield from _tables(part)


def _tables(found: Comparison) -> Iterator[str]:
    left = f", {found.n_left_out} empty ones left out" if found.n_left_out else ""
    groups = "" if found.n_groups is None else f" in {found.n_groups} groups"
    yield f"{found.n_segments} segments{groups}{left}; {100 * found.level:g} % intervals"
    width = max(len(system.name) for system in found.systems)
    digits = 2 if found.metric in ("bleu", "chrf", "ter") else 6
    for system in found.systems:
        low, high = system.interval
        yield f"{system.name:{width}}  {system.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    yield ""
    compared = "1 comparison" if len(found.pairs) == 1 else f"{len(found.pairs)} comparisons"
    yield f"p: {found.test}; p (Holm): corrected for {compared}"
    rows = [_header(found), *(list(_row(pair, found, digits)) for pair in found.pairs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()


def _header(found: Comparison) -> list[str]:
    needed = [] if found.detect is None else [f"segments for {found.detect:g}"]
    agree = [""] if any(pair.agreement for pair in found.pairs) else []
    return ["pair", "difference", "interval", "wins", "ties", "losses", "p", "p (Holm)", "can show", *needed, *agree]


def _row(pair: PairOfSystems, found: Comparison, digits: int) -> Iterator[str]:
    """Yield the cells of a pair; what a corpus metric does not have is a dash."""
    yield f"{pair.first} - {pair.second}"
    yield f"{pair.difference:+.{digits}f}"
    yield "-" if pair.interval is None else f"[{pair.interval.low:+.{digits}f}, {pair.interval.high:+.{digits}f}]"
    for count in (pair.wins, pair.ties, pair.losses):
        yield "-" if count is None else str(count)
    yield f"{pair.p:.4f}"
    yield f"{pair.p_holm:.4f}"
    yield "-" if pair.detectable is None else f"{pair.detectable:.4f}"
    if found.detect is not None:
        yield "-" if pair.needed is None else str(pair.needed)
    if any(one.agreement for one in found.pairs):
        yield "larger than any judged difference" if pair.agreement is None else str(pair.agreement)
