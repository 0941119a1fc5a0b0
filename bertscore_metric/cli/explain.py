"""`bertscore-metric explain`: files -> one segment -> why it scores as it does."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bertscore_metric.cli import options
from bertscore_metric.cli.console import heard, in_color, put, say_loading, show_progress, voice
from bertscore_metric.cli.texts import read_texts
from bertscore_metric.io import files


def explain(
    candidates: options.Candidates,
    references: options.References = None,
    text: options.Text = False,
    candidate_column: options.CandidateColumn = None,
    reference_column: options.ReferenceColumn = None,
    delimiter: options.Delimiter = None,
    segment: Annotated[int, typer.Option(metavar="N", help="Which one, as score --segments numbers them.")] = 0,
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
    by: Annotated[
        str, typer.Option(metavar="f1|precision|recall", help="Explain the reference that is best in this.")
    ] = "f1",
    words: Annotated[bool, typer.Option("--words", help="Join the pieces of words.")] = False,
    dtype: options.Dtype = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = None,
    pickled_weights: options.PickledWeights = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there: .html, .txt, .png, .svg or .pdf."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Explain the score of one segment, token by token.

    Prints every token with its match, their cosine, its weight and what it contributes to P or R.
    """
    texts = [] if text else [*candidates, *(references or [])]
    files.check_stdin([*texts, idf_texts])
    chosen = options.config(
        config,
        model_name_or_path=model,
        lang=lang,
        num_layers=num_layers,
        idf=options.fixed_idf(idf, idf_texts, idf_table),
        rescale_with_baseline=rescale,
        baseline_path=baseline_path,
        max_length=max_length,
        long_text=long_text,
        match_special_tokens=match_special_tokens,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        use_safetensors=options.safetensors(pickled_weights),
    )
    files.check_outputs({"--output": output}, [*texts, config, idf_texts, idf_table, *options.read_by(chosen)])
    to_file = output is not None and output != files.STDOUT
    with heard(quiet):
        systems, trusted = read_texts(
            candidates, references or [], text, candidate_column, reference_column or [], delimiter
        )
    if len(systems) > 1:
        raise ValueError("explain is about one candidates file; name one.")
    (judged,) = systems.values()
    if not 0 <= segment < len(judged):
        raise ValueError(f"There is no segment {segment}; the files have {len(judged)}, numbered from 0.")
    with voice(quiet):
        say_loading(options.model_of(chosen), quiet)
        from bertscore_metric.scorer import BERTScorer

        chosen = options.with_table(chosen, idf_table)
        scorer = BERTScorer.from_config(chosen, device=device, verbose=show_progress(quiet))
        corpus = scorer.corpus_table(_flat(trusted))
        result = scorer.explain(judged[segment], trusted[segment], by=by, corpus=corpus)  # type: ignore[arg-type]
        result = result.words() if words else result
        if to_file:
            result.save(str(output))
    if not to_file:
        put(result.to_text(color=in_color()), None, signature=result.signature)


def _flat(references: list[Any]) -> list[str]:
    return [text for group in references for text in ([group] if isinstance(group, str) else group)]
