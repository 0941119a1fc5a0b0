"""`bertscore-metric baseline`: sentences -> a baseline file."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.console import heard, put, say_loading, show_progress, voice
from bertscore_metric.io import files
from bertscore_metric.io.paths import user_path
from bertscore_metric.io.read import delimiter_of

if TYPE_CHECKING:
    from bertscore_metric.analysis.baseline import BaselineResult


def baseline(
    texts: Annotated[str, typer.Option(metavar="FILE", help="Sentences of one language, one a line; - is stdin.")],
    model: options.Models,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the texts in tables.")] = None,
    delimiter: options.Delimiter = None,
    pairs: Annotated[
        int | None, typer.Option(metavar="N", help="Random pairs to score.  [default: half the number of texts]")
    ] = None,
    seed: options.Seed = 0,
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the baseline there (LAYER,P,R,F), for --baseline-path; of several models a folder.",
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Make a baseline: mean scores of random pairs, by layer.

    Prints the means with their standard errors; no text is in two pairs.
    """
    targets = _targets(model, output)
    read = [texts, *(file for one in model for file in options.in_folder(one))]
    for target in targets.values():
        files.check_outputs({"--output": target}, read)
    with heard(quiet):
        sentences = files.read_candidates(texts, column, "--column", delimiter=delimiter_of(delimiter))
    settings = options.given(
        max_length=max_length, long_text=long_text, match_special_tokens=match_special_tokens, dtype=dtype,
        compile=compile,
        batch_size=batch_size, device=device, revision=revision, trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )  # fmt: skip
    rows = []
    with voice(quiet):
        say_loading(", ".join(model), quiet)
        from bertscore_metric.analysis.baseline import make_baseline
        from bertscore_metric.models.encoder import release_encoders

        for name, target in targets.items():
            made = make_baseline(sentences, name, pairs=pairs, seed=seed, verbose=show_progress(quiet), **settings)
            if target is not None:
                put(made.to_csv(), target)
            rows.append(made)
            release_encoders()
    if output is None or (output != files.STDOUT and sys.stdout is not None):
        if json:
            put(_as_json(rows), None)
        for made in () if json else rows:
            put(_as_text(made), None, signature=made.signature)


def _targets(models: list[str], output: str | None) -> dict[str, str | None]:
    """Return the file for the baseline of each model; those of several go into a folder, by the models' names."""
    if len(models) == 1 or output is None:
        return dict.fromkeys(models, output)
    if len(set(models)) < len(models):
        raise ValueError("A model is named twice.")
    folder = user_path(output)
    if not folder.is_dir():
        raise ValueError(f"--output of several models must be a folder that exists, got {output!r}.")
    return {model: str(folder / f"{model.strip('/').replace('/', '_')}.csv") for model in models}


def _as_json(rows: list[BaselineResult]) -> str:
    if len(rows) == 1:
        return f"{rows[0].to_json(indent=2)}\n"
    return json_.dumps({"models": [json_.loads(made.to_json()) for made in rows]}, indent=2, ensure_ascii=False) + "\n"


def _as_text(made: BaselineResult) -> str:
    lines = [f"{made.n_pairs} random pairs of {made.n_texts} different texts, seed {made.seed}"]
    lines.append("layer  P                    R                    F1")
    for layer, row in enumerate(zip(made.values.tolist(), made.standard_errors.tolist(), strict=True)):
        cells = (f"{value:.6f} ± {error:.6f}" for value, error in zip(*row, strict=True))
        lines.append(f"{layer:5d}  {'  '.join(cells)}")
    return "\n".join(lines) + "\n"
