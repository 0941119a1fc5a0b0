"""`bertscore-metric mbr`: samples of each source -> the one with the highest expected score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.console import put, show_progress, voice
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.mbr import MBRResult


def mbr(
    candidates: Annotated[
        str,
        typer.Option("--candidates", "-c", metavar="FILE", help=".jsonl with a list a row, or a table of samples."),
    ],
    column: Annotated[str, typer.Option(metavar="NAME", help="Column of samples.")],
    group_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column that names the source, where a row has one sample.")
    ] = None,
    utility: Annotated[str, typer.Option(metavar="f1|precision|recall", help="What is expected.")] = "f1",
    model: options.NamedModel = None,
    lang: options.Lang = None,
    config: options.Config = None,
    num_layers: options.NumLayers = None,
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
    segments: Annotated[
        bool, typer.Option("--segments", "-s", help="A line for every sample, not only for the chosen one.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all expected scores.")] = False,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> None:
    r"""Choose the best of several samples by minimum Bayes risk.

    Prints the signature, then a line a source: its number or name, the index of the chosen sample, its expected score,
    its text, tab-separated; tabs and ends of lines in a text are written as \t and \n.
    """
    files.check_stdin([candidates, idf_texts])
    chosen = options.config(
        config,
        model_name_or_path=model,
        lang=lang,
        num_layers=num_layers,
        idf=options.fixed_idf(None, idf_texts, idf_table),
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
    files.check_outputs({"--output": output}, [candidates, config, idf_texts, idf_table, *options.read_by(chosen)])
    lists = files.read_lists(candidates, column, group_column)
    with voice(quiet):
        from bertscore_metric.scorer import BERTScorer

        scorer = BERTScorer.from_config(
            options.with_table(chosen, idf_table), batch_size=batch_size, device=device, verbose=show_progress(quiet)
        )
        found = scorer.mbr(list(lists.values()), utility=utility)
    put(_as_json(found, lists) if json else _as_text(found, lists, segments), output)


def _as_json(found: MBRResult, lists: dict[str, list[str]]) -> str:
    import json

    data = found.to_dict()
    for row, (name, texts) in zip(data["lists"], lists.items(), strict=True):
        row.update({"name": name, "text": texts[row["index"]]})
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_text(found: MBRResult, lists: dict[str, list[str]], segments: bool) -> str:
    return "\n".join([str(found.signature), *_lines(found, lists, segments)]) + "\n"


def _lines(found: MBRResult, lists: dict[str, list[str]], segments: bool) -> Iterator[str]:
    for (name, texts), best, scores in zip(lists.items(), found.index.tolist(), found.scores, strict=True):
        for index in range(len(texts)) if segments else [best]:
            yield f"{_one_line(name)}\t{index}\t{float(scores[index]):.6f}\t{_one_line(texts[index])}"


def _one_line(text: str) -> str:
    return text.replace("\t", r"\t").replace("\r", r"\r").replace("\n", r"\n")
