"""`bertscore-metric verify`: a file of values, or the shipped ones -> scorer -> which stages are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.console import put, voice
from bertscore_metric.config import ScoreConfig
from bertscore_metric.io import files
from bertscore_metric.io.paths import user_path
from bertscore_metric.models.source import OFFLINE_NAME

if TYPE_CHECKING:
    from bertscore_metric.analysis.verification_record import Record
    from bertscore_metric.scorer import BERTScorer


def verify(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="What --record wrote; without it the shipped values.")
    ] = None,
    model: options.NamedModel = None,
    lang: options.Lang = None,
    config: options.Config = None,
    num_layers: options.NumLayers = None,
    idf: options.Idf = None,
    idf_table: options.IdfTableFile = None,
    rescale: options.Rescale = None,
    baseline_path: options.BaselinePath = None,
    max_length: options.MaxLength = None,
    match_special_tokens: options.MatchSpecialTokens = None,
    dtype: options.Dtype = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    record: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the values of this model and these settings there.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that every stage still gives the recorded values.

    Prints a line a stage; where one differs, also the first one with its likely cause, and the exit code is 1. Without
    FILE and options the embedded model is checked. Other options override what FILE says.
    """
    if file is not None and record is not None:
        raise ValueError("Give FILE to check it, or --record FILE to write one; not both.")
    if file is not None and config is not None:
        raise ValueError("FILE says the settings; drop --config, or drop FILE.")
    settings = options.given(
        model_name_or_path=model,
        lang=lang,
        num_layers=num_layers,
        idf=options.fixed_idf(idf, None, idf_table),
        rescale_with_baseline=rescale,
        baseline_path=baseline_path,
        max_length=max_length,
        match_special_tokens=match_special_tokens,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )
    with voice(quiet):
        if file is not None:
            recorded = _read(file)
            chosen = _overridden(file, recorded, settings)
        else:
            recorded = None
            if model is lang is config is None:
                settings["model_name_or_path"] = OFFLINE_NAME
            chosen = options.config(config, None, **settings)
        files.check_outputs({"--record": record}, [config, idf_table, *options.read_by(chosen)])
        scorer = _scorer(options.with_table(chosen, idf_table), device)
        if record is not None:
            put(_record(scorer, record), None)
            return
        text, same = _compare(recorded or _shipped(scorer), scorer, json)
    put(text, None)
    if not same:
        raise typer.Exit(1)


def _read(file: str) -> Record:
    from bertscore_metric.analysis.verification_record import read_record

    path = user_path(file)
    if not path.is_file():
        raise FileNotFoundError(f"No file {file!r} with recorded values; `verify --record FILE` writes one.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not a file of `bertscore-metric verify --record`: {error}.") from None
    return read_record(text, file)


def _overridden(file: str, recorded: Record, settings: dict[str, Any]) -> ScoreConfig:
    if "model_name_or_path" not in {**recorded.settings, **settings}:
        raise ValueError(f"{file} names no model; say with --model which one it is about.")
    try:
        return ScoreConfig.from_mapping({**recorded.settings, **settings})
    except (TypeError, ValueError) as error:
        raise type(error)(f"{file}: {error}") from error


def _scorer(config: ScoreConfig, device: str | None) -> BERTScorer:
    import dataclasses

    from bertscore_metric.scorer import BERTScorer

    if config.long_text == "error":  # refuses texts and changes no number; some of the pairs are long
        config = dataclasses.replace(config, long_text="truncate")
    return BERTScorer.from_config(config, device=device)


def _record(scorer: BERTScorer, file: str) -> str:
    from bertscore_metric.analysis.verification import record

    values = record(scorer)
    files.write_text(file, values.to_json())
    return f"{values.signature}\nrecorded: {len(values.pairs)} pairs in {file}\n"


def _shipped(scorer: BERTScorer) -> Record:
    """Return the shipped values of a scorer's settings, whatever the weights, tokens and versions are."""
    from bertscore_metric.analysis.verification_record import read_record
    from bertscore_metric.registry.verification import shipped_values

    known = [read_record(file.read_text(encoding="utf-8"), file.name) for file in shipped_values()]
    asked = _decided(str(scorer.signature), scorer.config.to_mapping())
    for record in known:
        if _decided(record.signature, record.settings) == asked:
            return record
    shipped = ", ".join("|".join(record.signature.split("|")[:2]) for record in known)
    wanted = "|".join(f"{key}:{value}" for key, value in asked.items() if value)
    raise ValueError(
        f"No values are shipped for {wanted}; they are for {shipped} with default settings. "
        f"Write your own with --record FILE, and check them later with verify FILE."
    )


def _decided(signature: str, settings: dict[str, Any]) -> dict[str, str]:
    """Return what somebody chose among what a signature names; the rest is what is to be checked."""
    parts = dict(part.split(":", 1) for part in signature.split("|"))
    chosen = {key: parts.get(key, "") for key in ("model", "layer", "idf", "rescale", "dtype", "special", "empty")}
    return {**chosen, **{name: str(settings.get(name, "")) for name in ("max_length", "long_text", "compile")}}


def _compare(recorded: Record, scorer: BERTScorer, as_json: bool) -> tuple[str, bool]:
    from bertscore_metric.analysis.verification import record
    from bertscore_metric.analysis.verification_causes import likely_cause
    from bertscore_metric.analysis.verification_stages import compare, first_that_differs

    now = record(scorer, recorded.pairs)
    stages = compare(recorded, now)
    first = first_that_differs(stages)
    cause = None if first is None else likely_cause(recorded, now, first)
    if as_json:
        import json

        rows = [{"name": s.name, "same": s.same, "difference": s.difference or None, "exact": s.exact} for s in stages]
        content = {
            "signature": now.signature,
            "recorded": recorded.signature,
            "stages": rows,
            "first": first and first.name,
            "cause": cause,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n", first is None
    lines = [*map(str, stages)]
    if first is not None:
        lines.append(f"The first stage that differs is {first.name}. Likely cause: {cause}")
    return "\n".join(lines) + "\n", first is None
