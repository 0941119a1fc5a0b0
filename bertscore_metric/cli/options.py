"""Options that several commands share."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bertscore_metric.cli.option_names import FileError
from bertscore_metric.config import DTYPES, LONG_TEXT_RULES, OF_THE_MODEL, ScoreConfig
from bertscore_metric.io import files
from bertscore_metric.io.paths import user_path

Candidates = Annotated[
    list[str],
    typer.Option("--candidates", "-c", metavar="FILE...", help="Generated texts, one a line; - is stdin. Or tables."),
]
References = Annotated[
    list[str] | None,
    typer.Option("--references", "-r", metavar="FILE...", help="References, one a line; several files give several."),
]
Text = Annotated[
    bool, typer.Option("--text", help="-c and -r hold texts themselves: one candidate and its references.")
]
CandidateColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of candidates in .tsv (never quoted), .csv, .jsonl, .parquet, .arrow."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="CHAR", help="What separates the cells of .csv and .tsv files, where it is no comma or tab."),
]
ReferenceColumn = Annotated[
    list[str] | None, typer.Option(metavar="NAME...", help="Columns of references; without -r in the same file.")
]
NamedModel = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="Hub name, folder, or 'offline'.")
]
Lang = Annotated[str | None, typer.Option(metavar="CODE", help="Language; chooses model and baseline.")]
Config = Annotated[
    str | None, typer.Option(metavar="FILE", help="Settings in YAML, or a shipped config; other options override.")
]
Like = Annotated[
    str | None,
    typer.Option(metavar="SIGNATURE", help="The settings of an old result's signature; other options override."),
]
NumLayers = Annotated[
    int | None,
    typer.Option("--num-layers", "-l", metavar="N", help="Blocks to run; 0 scores the embedding output."),
]
Idf = Annotated[bool | None, typer.Option("--idf", help="Weight tokens by idf, counted in the references.")]
IdfTexts = Annotated[str | None, typer.Option(metavar="FILE", help="Count idf in these texts, one a line, instead.")]
IdfTableFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help='Take idf weights from this JSON table instead: token id to weight, "default" for others.',
    ),
]
Rescale = Annotated[
    bool | None, typer.Option("--rescale", help="Rescale with the baseline of model, layer and language.")
]
BaselinePath = Annotated[str | None, typer.Option(metavar="FILE", help="Rescale with this file (LAYER,P,R,F).")]
Model = Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="Hub name, folder, or 'offline'.")]
Models = Annotated[
    list[str], typer.Option("--model", "-m", metavar="NAME...", help="Hub names, folders, or 'offline'.")
]
NamedModels = Annotated[
    list[str] | None, typer.Option("--model", "-m", metavar="NAME...", help="Hub names, folders, or 'offline'.")
]
MaxLength = Annotated[
    int | None, typer.Option(metavar="N", help="Longest text in tokens; at most the model's own limit.")
]
LongText = Annotated[str | None, typer.Option(metavar="|".join(LONG_TEXT_RULES), help="What to do with longer texts.")]
MatchSpecialTokens = Annotated[
    bool | None, typer.Option(help="Whether tokens may be matched to special tokens.", show_default=False)
]
Dtype = Annotated[str | None, typer.Option(metavar="|".join(DTYPES), help="Arithmetic of the encoder.")]
Compile = Annotated[bool | None, typer.Option("--compile", help="Compile the model, for long runs.")]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", "-b", metavar="N", help="Most texts in an encoder batch.")
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps.")]
Revision = Annotated[str | None, typer.Option(metavar="REV", help="Branch, tag or commit on the hub.")]
PickledWeights = Annotated[
    bool | None,
    typer.Option("--pickled-weights", help="Allow pickled weights, which can hide code."),
]
TrustRemoteCode = Annotated[
    bool | None, typer.Option("--trust-remote-code", help="Allow model code from the hub to run.")
]
Output = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of stdout.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no warnings.")]


def given(**settings: object) -> dict[str, object]:
    """Return the settings that were given; the others keep their defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def safetensors(pickled_weights: bool | None) -> bool | None:
    """Return `use_safetensors` for `--pickled-weights`, `None` where it is not given."""
    return None if pickled_weights is None else not pickled_weights


def fixed_idf(idf: bool | None, texts: str | None, table: str | None) -> Any:
    """Return the setting `idf`: the texts to count in, or True where a table follows, read once torch is there.

    Raises:
        ValueError: more than one of the options, or a file without texts.
        FileNotFoundError: there is no such table.
    """
    if sum(given is not None and given is not False for given in (idf, texts, table)) > 1:
        raise ValueError("Give one of --idf, --idf-texts and --idf-table.")
    if texts is not None:
        counted = files.read_candidates(texts)
        if not counted:
            raise ValueError(f"{texts} holds no texts to count idf in.")
        return counted
    if table is None:
        return idf
    if not user_path(table).is_file():
        raise FileNotFoundError(f"No file {table!r} with an idf table.")
    return True


def with_table(config: ScoreConfig, table: str | None) -> ScoreConfig:
    """Return the settings with the idf weights of a table."""
    if table is None:
        return config
    from bertscore_metric.core.weighting import IdfTable

    return dataclasses.replace(config, idf=IdfTable.load(table))


def config(source: str | None, like: str | None = None, **settings: object) -> ScoreConfig:
    """Return the settings of a YAML file, of a shipped config or of a signature, overridden by those that were given.

    What the file says about its own model is left out where another model or language is given.

    Raises:
        ValueError: the file holds an idf table of its model's tokens, and another model is given; or it allows code of
            a model to run, and no option does; both a file and a signature; or a signature that does not tell all.
    """
    if like is not None:
        if source is not None:
            raise ValueError("--config and --like each say the settings; give one of them.")
        return ScoreConfig.from_signature(like, **given(**settings))
    base = {} if source is None else _settings_of(source)
    chosen = {**base, **given(**settings)}
    own = _model(base)
    if own is not None and own != _model(chosen):
        chosen = {**{name: value for name, value in base.items() if name not in OF_THE_MODEL}, **given(**settings)}
        if isinstance(chosen.get("idf"), Mapping):
            raise ValueError(f"{source} holds an idf table for the tokens of {own}; name another one with --idf-table.")
    if chosen.get("trust_remote_code") and not settings.get("trust_remote_code"):
        raise FileError(
            f"{source} says trust_remote_code: true, which runs code that comes with the model. If you trust that "
            f"code, after reading it, add --trust-remote-code."
        )
    return ScoreConfig.from_mapping(chosen)


def _settings_of(source: str) -> dict[str, Any]:
    try:
        return ScoreConfig.from_yaml(source, trust_remote_code=True).to_mapping()  # asked for in `config`
    except (TypeError, ValueError) as error:
        raise FileError(str(error)) from error


def _model(settings: Mapping[str, object]) -> object:
    return settings.get("model_name_or_path") or settings.get("lang")


def model_of(config: ScoreConfig) -> str:
    """Return what the model of these settings is called, before the tables are asked."""
    return config.model_name_or_path or f"the model for {config.lang or 'no language'}"


def read_by(config: ScoreConfig) -> list[str]:
    """Return the files that a scorer of these settings reads: the baseline, and those in the model's folder."""
    files = [] if config.model_name_or_path is None else in_folder(config.model_name_or_path)
    return files if config.baseline_path is None else [*files, config.baseline_path]


def in_folder(model: str) -> list[str]:
    """Return the files of a model that is a folder."""
    folder = user_path(model)
    return [str(file) for file in folder.iterdir()] if folder.is_dir() else []
