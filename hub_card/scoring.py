"""What the page shows: texts and files in, numbers, pictures and sentences out.

It translates between the page and `bertscore_metric`, which does all the counting. Texts of users leave
as text, or escaped.
"""

from __future__ import annotations

import csv
import functools
import html
import logging
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr

from bertscore_metric import BERTScorer, BERTScoreWarning, ScoreConfig, files

MODELS = ("offline", "en", "en_best", "multilingual", "zh", "ko", "sci")  # shipped configs that the page offers
MAX_CHARACTERS = 5_000  # of a candidate, and of a reference
MAX_REFERENCES = 20
MAX_IDF_CHARACTERS = 200_000
MAX_FILE_BYTES = 2_000_000
MAX_ROWS = 5_000
MAX_DRAWN_TOKENS = 120  # on a side of the heat map; beyond that nobody can read it
SHOWN_ROWS = 100  # of a file's scores; the download has all
ROWS_A_STEP = 64  # between two looks at the progress, and between two turns of other users
KEPT_SCORERS = 4
NUMBERS = ("precision", "recall", "f1")

_hearing = threading.Lock()  # Python's record of warnings is the process's


def in_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function's errors appear on the page as messages; the page renders those as HTML, so they are escaped."""

    @functools.wraps(function)
    def told(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (TypeError, ValueError, OSError, ImportError, NotImplementedError) as error:
            message = str(error)
        except Exception:
            logging.getLogger(__name__).exception("An error that the page does not expect")
            message = "Something went wrong that this page did not expect; whoever runs it finds more in its log."
        raise gr.Error(html.escape(message), duration=None, print_exception=False)

    return told


@functools.lru_cache(maxsize=KEPT_SCORERS)
def scorer_for(model: str, layer: int | None, rescale: bool, language: str, idf: bool | tuple[str, ...]) -> BERTScorer:
    """Return a scorer; those used last are kept, and scorers of the same model and layer share its encoder."""
    if model not in MODELS:  # a path would be read as a file of settings
        raise ValueError(f"This page offers the models {', '.join(MODELS)}; got {model!r}.")
    chosen = {"num_layers": layer, "lang": language or None, "rescale_with_baseline": rescale or None, "idf": idf}
    given = {name: value for name, value in chosen.items() if value is not None}
    return BERTScorer(**{**ScoreConfig.from_yaml(model).to_mapping(), **given})


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what the package warns of inside the block, to say it on the page; threads take turns."""
    notes: list[str] = []
    with _hearing, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BERTScoreWarning)
        yield notes
        notes += dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, BERTScoreWarning))


@in_words
def score_text(
    candidate: str, references: str, model: str, layer: str, idf_texts: str, rescale: bool, language: str
) -> tuple[Any, ...]:
    """Return what the first tab shows: P, R, F1, the best reference, notes, heat map, explanation and signature."""
    trusted, idf = _lines(references), tuple(_lines(idf_texts))
    if not candidate.strip():
        raise ValueError("Type a candidate: the text to be judged.")
    if not trusted:
        raise ValueError("Type at least one reference, one a line.")
    if len(trusted) > MAX_REFERENCES:
        raise ValueError(f"There are {len(trusted)} references; this page takes up to {MAX_REFERENCES}.")
    for name, text in [("The candidate", candidate), *((f"Reference {k}", text) for k, text in enumerate(trusted, 1))]:
        _check_length(name, text, MAX_CHARACTERS)
    _check_length("The idf corpus", idf_texts or "", MAX_IDF_CHARACTERS)
    scorer = scorer_for(model, _layer(layer), rescale, language.strip(), idf or False)
    segments = scorer.tokenize([candidate], [trusted])
    matches = scorer.match(segments)
    with heard() as notes:
        result = scorer.report([matches])
        pair = scorer.explain(candidate, trusted)
        tokens = max(pair.similarity.shape)
        figure = pair.plot() if tokens <= MAX_DRAWN_TOKENS else None
    if figure is None:
        notes.append(f"The heat map is drawn up to {MAX_DRAWN_TOKENS} tokens a side; this pair has {tokens}.")
    if len(trusted) > 1:
        notes.append("P, R and F1 are each those of the reference that is best in it; shown is the best in F1.")
    number = result.best_reference.item()
    scores = (f"{getattr(result, name).item():.6f}" for name in NUMBERS)
    best = f"{number + 1}: {trusted[number]}"
    return *scores, best, _told(notes), figure, _frame(pair.to_html()), str(result.signature)


@in_words
def score_file(
    file: str | None,
    candidate_column: str | None,
    reference_columns: list[str] | None,
    model: str,
    layer: str,
    idf: bool,
    rescale: bool,
    language: str,
    progress: gr.Progress = gr.Progress(),  # noqa: B008, gradio looks for it among the defaults
) -> tuple[Any, ...]:
    """Return what the second tab shows: means, notes, a table, a file with all scores, and the signature."""
    candidates, references = _read(file, candidate_column, reference_columns or [])
    scorer = scorer_for(model, _layer(layer), rescale, language.strip(), idf)
    parts = []
    for begin in range(0, len(candidates), ROWS_A_STEP):
        progress((begin, len(candidates)), desc="Scoring", unit="rows")
        step = slice(begin, begin + ROWS_A_STEP)
        parts.append(scorer.match(scorer.tokenize(candidates[step], references[step])))
    with heard() as notes:
        result = scorer.report(parts)
    rows = result.to_rows()
    path = Path(tempfile.mkdtemp()) / f"{Path(str(file)).stem}.bertscore.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["row", *NUMBERS])
        table.writerows([number, *(f"{row[name]:.6f}" for name in NUMBERS)] for number, row in enumerate(rows, 1))
    if len(rows) > SHOWN_ROWS:
        notes.append(f"The table shows the first {SHOWN_ROWS} of {len(rows)} rows; the file to download has all.")
    shown = [
        [number, *(f"{row[name]:.6f}" for name in NUMBERS), candidate, _joined(group)]
        for number, row, candidate, group in zip(range(1, SHOWN_ROWS + 1), rows, candidates, references, strict=False)
    ]
    means = (f"{getattr(result.mean, name):.6f} ± {getattr(result.std, name):.6f}" for name in NUMBERS)
    return *means, _told(notes), shown, gr.update(value=str(path), visible=True), str(result.signature)


@in_words
def columns_of(file: str | None) -> tuple[Any, Any]:
    """Return the choices of columns in an uploaded file, with those chosen whose names say what they are."""
    names = [] if file is None else _named(file, lambda: files.column_names(file))
    candidate = next((name for name in names if name.lower() == "candidate"), None)
    references = [name for name in names if name.lower().startswith("reference")]
    return gr.update(choices=names, value=candidate), gr.update(choices=names, value=references)


def _read(file: str | None, candidate_column: str | None, reference_columns: list[str]) -> tuple[list[str], list[Any]]:
    if not file:
        raise ValueError("Upload a file: .tsv, .csv or .jsonl with a candidate and its references in every row.")
    size = Path(file).stat().st_size
    if size > MAX_FILE_BYTES:
        raise ValueError(f"The file has {size:,} bytes; this page takes up to {MAX_FILE_BYTES:,}.")
    if not candidate_column or not reference_columns:
        raise ValueError("Choose the column of the candidates, and the columns of their references.")
    candidates = _named(file, lambda: files.read_candidates(file, candidate_column))
    references = _named(file, lambda: files.read_references([file], reference_columns))
    if not candidates:
        raise ValueError("The file has no rows below its header.")
    if len(candidates) > MAX_ROWS:
        raise ValueError(f"The file has {len(candidates):,} rows; this page takes up to {MAX_ROWS:,}.")
    for number, (candidate, group) in enumerate(zip(candidates, references, strict=True), 1):
        for text in [candidate, *([group] if isinstance(group, str) else group)]:
            _check_length(f"A text of row {number}", text, MAX_CHARACTERS)
    return candidates, references


def _named(file: str, read: Callable[[], Any]) -> Any:
    """Read, and call the file in errors by the name that the user knows."""
    try:
        return read()
    except ValueError as error:
        raise ValueError(str(error).replace(file, Path(file).name)) from None


def _check_length(name: str, text: Any, limit: int) -> None:
    if len(text) > limit:
        raise ValueError(f"{name} has {len(text):,} characters; this page takes up to {limit:,}.")


def _layer(layer: str) -> int | None:
    if layer.strip() and not layer.strip().isdecimal():
        raise ValueError(f"The layer must be a whole number from 0, or empty for the model's best; got {layer!r}.")
    return int(layer) if layer.strip() else None


def _lines(texts: str | None) -> list[str]:
    return [line.strip() for line in (texts or "").split("\n") if line.strip()]


def _joined(group: str | list[str]) -> str:
    return group if isinstance(group, str) else "\n".join(group)


def _told(notes: list[str]) -> Any:
    return gr.update(value="\n".join(notes), visible=bool(notes))


def _frame(page: str) -> str:
    """Put a page into a frame of an origin of its own, whose scripts reach nothing outside it."""
    return f'<iframe title="Explanation" sandbox="allow-scripts" srcdoc="{html.escape(page)}"></iframe>'
