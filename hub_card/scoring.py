"""What the page shows: texts and files in, numbers, pictures and sentences out.

It translates between the page and `bertscore_metric`, which does all the counting. Texts of users leave
as text, or escaped.
"""

from __future__ import annotations

import csv
import functools
import html
import inspect
import io
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from bertscore_metric import BERTScorer, BERTScoreWarning, ScoreConfig
from bertscore_metric.analysis.explain import Explanation
from bertscore_metric.analysis.explanation_html import to_html
from bertscore_metric.analysis.heat_map import undrawable
from bertscore_metric.analysis.report_page import spreadsheet_cell
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.io import files
from bertscore_metric.registry import baselines_for
from bertscore_metric.state.kept_embeddings import EmbeddingCollector
from bertscore_metric.state.state_columns import to_columns
from bertscore_metric.state.stream import Stream

# The shipped configs that the page offers: what they are called, their languages, and what is downloaded once.
MODELS = {
    "offline": "MiniLM (English; built in)",
    "en": "RoBERTa large (English; 1.4 GB)",
    "en_best": "DeBERTa xlarge (English; 3 GB, slow)",
    "multilingual": "Multilingual BERT (104 languages; 0.7 GB)",
    "zh": "BERT (Chinese; 0.4 GB)",
    "ko": "KcBERT (Korean; 0.4 GB)",
    "sci": "SciBERT (English science; 0.4 GB)",
}
DEFAULT = next(iter(MODELS))
MAX_CHARACTERS = 5_000  # of a candidate, and of a reference
MAX_TOGETHER = 20_000  # of a candidate with all its references: what others may have to wait for
MAX_REFERENCES = 20
MAX_IDF_CHARACTERS = 200_000
MAX_FILE_BYTES = 2_000_000
MAX_ROWS = 5_000
MAX_DRAWN_TOKENS = 120  # on a side of the heat map; beyond that nobody can read it
SHOWN_ROWS = 100  # of a file's scores; the download has all
ROWS_A_STEP = 64  # at most; between two looks at the progress, and between two turns of other users
KEPT_SCORERS = 4
KEPT_BYTES = 2**30  # embeddings of a text with its references, far beyond what the limits above allow
LONGEST_MESSAGE = 600
NAMED_CHARACTERS = 20
NUMBERS = ("precision", "recall", "f1")

KINDS = {"str": (str, "a text"), "bool": (bool, "true or false"), "list[str]": (list, "a list of texts")}
# What the package says to programmers, and what users of the page have instead.
PHRASES = (
    (r" empty='skip' leaves them out of the mean\.", ""),
    (r" \(long_text='windows' scores all, long_text='error' refuses such texts\)", ""),
    (r"\bnum_layers=", "layer "),
    (r"\bsegments\b", "rows"),
    (r"counted from 0, ind(?:ex|ices) ([\d, ]*\d)", lambda match: f"row{'s' * (', ' in match[1])} {_from_1(match[1])}"),
    (r"\bcandidates\[(\d+)\]", lambda match: f"The candidate of row {_from_1(match[1])}"),
    (r"\breferences\[(\d+)\](?:\[\d+\])?", lambda match: f"A reference of row {_from_1(match[1])}"),
)

_hearing = threading.Lock()  # Python's record of warnings is the process's


def in_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's arguments, which anybody may send, and let its errors appear on the page as messages.

    The page renders those as HTML and a program reads them as text, so every `<` is followed by a word joiner: that is
    no markup there, and not to be seen here.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def told(*arguments: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*arguments, **named)
            for name, value in given.arguments.items():
                given.arguments[name] = _checked(name, value, signature.parameters[name].annotation)
            return function(*given.args, **given.kwargs)
        except (TypeError, ValueError, OSError, ImportError, NotImplementedError) as error:
            message = plain(str(error))
        except Exception:
            logging.getLogger(__name__).exception("An error that the page does not expect")
            message = "Something went wrong that this page did not expect; whoever runs it finds more in its log."
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}…"
        raise gr.Error(message.replace("<", "<\u2060"), duration=None, print_exception=False)

    return told


def _checked(name: str, value: Any, annotation: str) -> Any:
    """Return an argument; null is as if nothing had been typed or chosen."""
    if annotation not in KINDS:
        return value
    kind, words = KINDS[annotation]
    if value is None:
        return kind()
    if not isinstance(value, kind) or (kind is list and not all(isinstance(one, str) for one in value)):
        raise ValueError(f"{name.replace('_', ' ').capitalize()}: this must be {words}; got {value!r}.")
    return value


def plain(message: str) -> str:
    """Return a message of the package in the words of the page, whose rows count from 1."""
    for pattern, instead in PHRASES:
        message = re.sub(pattern, instead, message)
    return message


def _from_1(numbers: str) -> str:
    return ", ".join(str(int(number) + 1) for number in numbers.split(", "))


@functools.lru_cache(maxsize=KEPT_SCORERS)
def scorer_for(model: str, layer: int | None, rescale: bool, language: str, idf: bool | tuple[str, ...]) -> BERTScorer:
    """Return a scorer; those used last are kept, and scorers of the same model and layer share its encoder."""
    model = model or DEFAULT
    if model not in MODELS:  # a path would be read as a file of settings
        raise ValueError(f"This page offers the models {', '.join(MODELS)}; got {model!r}.")
    config = ScoreConfig.from_yaml(model)
    if rescale:
        _check_baseline(str(config.model_name_or_path), language or config.lang)
    chosen = {"num_layers": layer, "lang": language or None, "rescale_with_baseline": rescale or None, "idf": idf}
    given = {name: value for name, value in chosen.items() if value is not None}
    return BERTScorer(**{**config.to_mapping(), **given})


def model_names() -> dict[str, str]:
    """Return the names under which the hub has the page's models."""
    return {model: str(ScoreConfig.from_yaml(model).model_name_or_path) for model in MODELS}


def models_without_baseline() -> list[str]:
    """Return what the page calls the models whose scores cannot be rescaled."""
    return [MODELS[model].partition(" (")[0] for model, name in model_names().items() if not _languages(name)]


def _languages(model: str) -> list[str]:
    return [code for code, _ in baselines_for(model=model)]


def _check_baseline(model: str, language: str | None) -> None:
    languages = _languages(model)
    if not languages:
        others = "; ".join(f"{name} ({', '.join(codes)})" for name in model_names().values()
                           if (codes := _languages(name)))  # fmt: skip
        raise ValueError(f"There is no baseline for {model}, so it cannot be rescaled. There are for {others}.")
    if language not in languages:
        got = f"got {language!r}" if language else "none is given"
        raise ValueError(f"To rescale, the language must be one that {model} has a baseline for: "
                         f"{', '.join(languages)}; {got}.")  # fmt: skip


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what the package warns of inside the block, to say it on the page; threads take turns."""
    notes: list[str] = []
    with _hearing, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BERTScoreWarning)
        yield notes
        notes += dict.fromkeys(plain(str(one.message)) for one in caught if issubclass(one.category, BERTScoreWarning))


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
    _check_segment("", candidate, trusted)
    _check_length("The idf corpus", len(idf_texts), MAX_IDF_CHARACTERS)
    scorer = scorer_for(model, _layer(layer), rescale, language.strip(), idf or False)
    segments = scorer.tokenize([candidate], [trusted])
    collector = EmbeddingCollector(KEPT_BYTES)
    matches = scorer.match_tokens(segments, collector=collector)
    with heard() as notes:
        result = scorer.report(to_columns(matches))
        scores = {name: getattr(result, name).item() for name in NUMBERS}
        pair = scorer.explain_embeddings(collector.segment(segments, scorer.layers))
        pair = pair.as_scored(**scores, n_references=len(trusted))
        figure = _heat_map(pair, notes)
    if len(trusted) > 1:
        notes.append("P, R and F1 are each those of the reference that is best in it; shown is the best in F1.")
    number = result.best_reference.item()
    best = f"{number + 1}: {trusted[number]}"
    printed = (f"{scores[name]:.6f}" for name in NUMBERS)
    return *printed, best, "\n".join(notes), figure, _frame(to_html(pair, framed=True)), str(result.signature)


def _heat_map(pair: Explanation, notes: list[str]) -> Any:
    """Return the picture of a pair, or nothing where nobody could read it; a note then says why."""
    tokens = max(pair.similarity.shape)
    if tokens > MAX_DRAWN_TOKENS:
        notes.append(f"The heat map is drawn up to {MAX_DRAWN_TOKENS} tokens a side; this pair has {tokens}.")
        return None
    if missing := undrawable(pair):
        notes.append(
            f"No font of this page's server has the characters {''.join(sorted(missing)[:NAMED_CHARACTERS])}, so the "
            f"heat map is not drawn; the coloured texts show the same matches."
        )
        return None
    try:
        return pair.plot()
    except Exception:  # whatever fails in a picture, the scores are shown
        logging.getLogger(__name__).exception("A heat map could not be drawn")
        notes.append("The heat map could not be drawn; whoever runs this page finds more in its log.")
        return None


@in_words
def score_file(
    file: str,
    candidate_column: str,
    reference_columns: list[str],
    model: str,
    layer: str,
    idf: bool,
    rescale: bool,
    language: str,
    progress: gr.Progress = gr.Progress(),  # noqa: B008, gradio looks for it among the defaults
) -> tuple[Any, ...]:
    """Return what the second tab shows: means, notes, a table, a file with all scores, and the signature."""
    candidates, references = _read(file, candidate_column, reference_columns)
    scorer = scorer_for(model, _layer(layer), rescale, language.strip(), idf)
    stream = Stream(scorer)
    for step in _steps(candidates, references):
        progress((step.start, len(candidates)), desc="Scoring", unit="rows")
        stream.add(parse_segments(candidates[step], references[step]))
    with heard() as notes:
        result = stream.report()
    rows = result.to_rows()
    content = _csv(rows, candidates, references)
    path = save_bytes_to_cache(content, f"{Path(file).stem}.bertscore.csv", get_upload_folder())
    if len(rows) > SHOWN_ROWS:
        notes.append(
            f"The table shows the {SHOWN_ROWS} of {len(rows)} rows with the lowest F1; the file to download has all."
        )
    worst = sorted(range(len(rows)), key=lambda number: rows[number]["f1"])[:SHOWN_ROWS]
    shown = [
        [number + 1, *(round(rows[number][name], 6) for name in NUMBERS), candidates[number],
         _numbered(_group(references[number]))]
        for number in worst
    ]  # fmt: skip
    means = (f"{getattr(result.mean, name):.6f} ± {getattr(result.std, name):.6f}" for name in NUMBERS)
    return *means, "\n".join(notes), shown, path, str(result.signature)


def _numbered(references: list[str]) -> str:
    """Return the references of a row so that one is told from the next."""
    return references[0] if len(references) == 1 else "\n".join(f"{k}: {text}" for k, text in enumerate(references, 1))


def _csv(rows: list[dict[str, Any]], candidates: list[str], references: list[Any]) -> bytes:
    """Return the table to download, with the texts; rows and references count from 1."""
    stream = io.StringIO(newline="")
    table = csv.writer(stream)
    most = max(len(_group(group)) for group in references)
    named = [f"reference_{k}" for k in range(1, most + 1)]
    table.writerow(["row", *NUMBERS, "best_reference", "candidate", *named])
    for number, (row, candidate, group) in enumerate(zip(rows, candidates, references, strict=True), 1):
        texts = map(spreadsheet_cell, (candidate, *_group(group)))
        table.writerow([number, *(f"{row[name]:.6f}" for name in NUMBERS), row["best_reference"] + 1, *texts])
    return stream.getvalue().encode()


def _steps(candidates: list[str], references: list[Any]) -> Iterator[slice]:
    """Cut rows into steps of at most `ROWS_A_STEP` rows and, but for a single row, `MAX_TOGETHER` characters."""
    begin = characters = 0
    for row, (candidate, group) in enumerate(zip(candidates, references, strict=True)):
        size = len(candidate) + sum(map(len, _group(group)))
        if row > begin and (row - begin == ROWS_A_STEP or characters + size > MAX_TOGETHER):
            yield slice(begin, row)
            begin, characters = row, 0
        characters += size
    yield slice(begin, len(candidates))


@in_words
def columns_of(file: str) -> tuple[Any, Any]:
    """Return the choices of columns in an uploaded file, with those chosen whose names say what they are."""
    names = [] if not file else _named(file, lambda: files.column_names(file))
    candidate = next((name for name in names if name.lower() == "candidate"), None)
    references = [name for name in names if name.lower().startswith("reference")]
    return gr.update(choices=names, value=candidate), gr.update(choices=names, value=references)


def _read(file: str, candidate_column: str, reference_columns: list[str]) -> tuple[list[str], list[Any]]:
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
        _check_segment(f" of row {number}", candidate, _group(group))
    return candidates, references


def _named(file: str, read: Callable[[], Any]) -> Any:
    """Read, and call the file in errors by the name that the user knows."""
    try:
        return read()
    except ValueError as error:
        raise ValueError(str(error).replace(file, Path(file).name)) from None


def _check_segment(place: str, candidate: str, references: list[str]) -> None:
    if len(references) > MAX_REFERENCES:
        raise ValueError(f"There are {len(references):,} references{place}; this page takes up to {MAX_REFERENCES}.")
    texts = {"The candidate": candidate, **{f"Reference {k}": text for k, text in enumerate(references, 1)}}
    for name, text in texts.items():
        _check_length(f"{name}{place}", len(text), MAX_CHARACTERS)
    together = sum(len(text) for text in texts.values())
    _check_length(f"The candidate with all its references{place}", together, MAX_TOGETHER)


def _check_length(name: str, characters: int, limit: int) -> None:
    if characters > limit:
        raise ValueError(f"{name} has {characters:,} characters; this page takes up to {limit:,}.")


def _layer(layer: str) -> int | None:
    if layer.strip() and not (layer.strip().isdecimal() and len(layer.strip()) < 4):
        raise ValueError(f"The layer must be a whole number from 0, or empty for the model's best; got {layer!r}.")
    return int(layer) if layer.strip() else None


def _lines(texts: str) -> list[str]:
    return [line.strip() for line in texts.split("\n") if line.strip()]


def _group(references: str | list[str]) -> list[str]:
    return [references] if isinstance(references, str) else references


def _frame(page: str) -> str:
    """Put a page into a frame of an origin of its own, whose scripts reach nothing outside it."""
    return f'<iframe title="Explanation" sandbox="allow-scripts" srcdoc="{html.escape(page)}"></iframe>'
