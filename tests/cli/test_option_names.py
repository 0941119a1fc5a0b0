"""The command line says everything in its own words: options, not the settings of a program."""

import pytest
import torch

from bertscore_metric import registry
from bertscore_metric.cli.option_names import translated
from bertscore_metric.core.baseline import find_baseline
from bertscore_metric.core.weighting import IdfTable
from bertscore_metric.models.source import ModelSource, load_error, resolve


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Use long_text='windows' or 'truncate'.", "Use --long-text windows or 'truncate'."),
        ("empty='skip' leaves them out.", "--empty skip leaves them out."),
        ("empty must be one of score, skip.", "--empty must be one of score, skip."),
        ("3 segments are empty and idf is on.", "3 segments are empty and idf is on."),
        ("num_layers=9, but x has 4 layers.", "--num-layers 9, but x has 4 layers."),
        ("raise max_length.", "raise --max-length."),
        ("No file 'long_text.txt'.", "No file 'long_text.txt'."),
        ("/data/num_layers/x.csv is empty.", "/data/num_layers/x.csv is empty."),
        ("max_length.csv, line 1", "max_length.csv, line 1"),
        ("idf=True needs it", "--idf needs it"),
    ],
)
def test_settings_become_options(message: str, expected: str) -> None:
    """Names of settings become options, with their values; file names, quotations and plain words stay."""
    assert translated(message) == expected


def said(error: Exception) -> str:
    """Return what the command line says of an error."""
    return translated(str(error))


def test_the_core_errors_in_options() -> None:
    """Errors that name what to pass name an option of the command line."""
    with pytest.raises(ValueError, match="Name a model") as caught:
        resolve(None)
    assert said(caught.value) == (
        "Name a model (--model offline needs no network, 'roberta-large' is the usual one for English) or a language "
        "(--lang en)."
    )
    with pytest.raises(ValueError, match="needs the language") as caught:
        find_baseline(lang=None, model="x", num_layers=1, depth=None, path=None)
    assert said(caught.value) == "--rescale needs the language (--lang en), or a file (--baseline-path ...)."
    with pytest.raises(ValueError, match="no default model for the language") as caught:
        registry.model_for_language("qq")
    assert "Pass a code that `bertscore-metric models` lists" in said(caught.value)
    hub = ModelSource("a/b", "a/b", local=False)
    pickled = load_error(hub, OSError("there is no model.safetensors"))
    assert "Pass --pickled-weights if you trust its pickled weights" in said(pickled)
    code = load_error(hub, OSError("set trust_remote_code=True to run it"))
    assert "Pass --trust-remote-code if you trust the code" in said(code)
    folder = load_error(ModelSource("m", "m", local=True), OSError("no tokenizer"))
    assert said(folder).endswith("Save model and tokenizer there with save_pretrained.")
    with pytest.raises(ValueError, match="no default") as caught:
        IdfTable({1: 1.0}).weights(torch.tensor([2]))
    assert said(caught.value).endswith('no weight for token id 2 and no default; give it one under the key "default".')
