"""Why a stage is likely to differ: what two records say about their settings and versions, else the usual suspects."""

from __future__ import annotations

from collections.abc import Mapping

from bertscore_metric.analysis.verification_record import Record
from bertscore_metric.analysis.verification_stages import Stage
from bertscore_metric.signature import Signature

# stage -> parts of the signature that decide about it, in words that name no other stage
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "token ids": {"maxlen": "length limit", "long": "rule for long texts"},
    "weights": {"model": "model"},
    "embeddings": {"layer": "layer", "dtype": "dtype", "compiled": "compiling"},
    "matches": {"special": "rule for special tokens"},
    "idf": {"idf": "idf"},
    "scores": {"idf": "weighting", "empty": "rule for empty texts", "special": "rule for special tokens"},
    "rescaled": {"rescale": "baseline"},
}
# stage -> the packages that decide about it
_PACKAGES = {
    "token ids": ("transformers", "tokenizers", "bertscore_metric"),
    "weights": ("transformers", "bertscore_metric"),
    "embeddings": ("transformers", "torch", "bertscore_metric"),
    "matches": ("bertscore_metric", "torch"),
    "idf": ("bertscore_metric", "torch"),
    "scores": ("bertscore_metric", "torch"),
    "rescaled": ("bertscore_metric",),
}
_USUAL = {
    "token ids": "another tokenizer: its files, or what is put in front of a text (the space of RoBERTa)",
    "weights": "other weights: the model's files were saved, trained or downloaded anew",
    "embeddings": "another layer is read, or the model computes otherwise",
    "matches": "the best similarities are found by another rule, for instance with a maximum that is clamped at 0",
    "idf": "idf is counted or smoothed by another rule",
    "scores": "precision, recall and F1 are averaged by another rule",
    "rescaled": "another baseline, or another rule of rescaling",
}


def likely_cause(recorded: Record, now: Record, stage: Stage) -> str:
    """Return the likely cause of a stage's difference in a sentence, which names no other stage.

    Settings that are others come first, then versions of what computes it and the kind of device, then what usually is
    the reason where all of these are equal.
    """
    then, here = (dict(Signature.parse(record.signature).items) for record in (recorded, now))
    for key, words in _SETTINGS[stage.name].items():
        if then.get(key) != here.get(key):
            return f"another {words}: {here.get(key, 'none')} here, {then.get(key, 'none')} recorded."
    if stage.name == "rescaled" and recorded.baseline != now.baseline:
        return "another baseline: the table or the file that it is read from has changed."
    versions = [
        f"{package} {now.made_with.get(package)} here, {recorded.made_with.get(package)} recorded"
        for package in _PACKAGES[stage.name]
        if now.made_with.get(package) != recorded.made_with.get(package)
    ]
    devices = [record.made_with.get("device") for record in (recorded, now)]
    if stage.name == "embeddings" and devices[0] != devices[1]:
        versions.append(f"computed on {devices[1]} here, on {devices[0]} when recorded, beyond the usual tolerance")
    usual = _USUAL[stage.name]
    return f"{'; '.join(versions)}. If that is not it: {usual}." if versions else f"{usual}."
