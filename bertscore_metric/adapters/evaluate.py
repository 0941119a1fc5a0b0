"""BERTScore as an `evaluate.Metric`, in place of the Hub's `bertscore`.

metric = evaluate.load("hub_card/bertscore.py", model_type="offline")
metric.compute(predictions=predictions, references=references)   # {"precision": [...], ..., "hashcode": "..."}
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import Any

from bertscore_metric.callers import warn
from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.optional import explained
from bertscore_metric.scorer_handle import ScorerHandle
from bertscore_metric.warnings import BERTScoreWarning

try:
    import datasets  # type: ignore[import-untyped]
    import evaluate  # type: ignore[import-untyped]
except ImportError as error:
    raise explained(
        error,
        ("evaluate", "datasets"),
        "The evaluate module needs evaluate and datasets, which are not installed: "
        "pip install 'bertscore_metric[evaluate]'",
    ) from error

DESCRIPTION = """\
BERTScore compares generated texts with reference texts: both are embedded token by token with a pretrained encoder,
every token is matched to its most similar token on the other side (cosine), and the matches are averaged to precision,
recall and F1, optionally weighted by inverse document frequency. Embeddings are contextual, so paraphrases count.
"""

INPUTS = """
Computes BERTScore of texts against one or several references each.

Args:
    predictions (list of str): generated texts.
    references (list of str, or list of list of str): trusted texts, one or a group of them for each prediction.
    model_type (str): a hub name, a folder, or "offline" for the model of the extra [offline]; also model_name_or_path.
    lang (str): language code; chooses the model where none is named, and the baseline.
    num_layers (int): layer to use; by default the one that is known to be best for the model.
    all_layers (bool): score every layer; the results are then one list for each layer.
    idf (bool, list of str or mapping): weight tokens by their idf in the references of this call, in these texts, or by
        this mapping from token id to weight.
    rescale_with_baseline (bool), baseline_path (str): report (x - b) / (1 - b), with the table's baseline or a file's.
    batch_size (int), device (str), verbose (bool): change no score.
    nthreads, use_fast_tokenizer: no effect; the Hub's bertscore has them.
    max_length, long_text, dtype, compile, match_special_tokens, empty, revision, trust_remote_code,
        use_safetensors, local_files_only: as in bertscore_metric.ScoreConfig.

    All settings but revision may also be given to evaluate.load(...), where they hold until compute names another
    value; evaluate.load takes its revision to be that of the module.

Returns:
    precision, recall, f1 (list of float): one number for each prediction.
    hashcode (str): every setting that changes a score, to be reported with the scores.

Examples:
    >>> bertscore = BERTScore(model_type="offline", num_layers=5, keep_in_memory=True)
    >>> results = bertscore.compute(predictions=["hello there"], references=[["hi there", "hello"]])
    >>> [round(value, 3) for value in results["f1"]]
    [0.876]
"""

CITATION = """\
@inproceedings{zhang2020bertscore,
  title={BERTScore: Evaluating Text Generation with BERT},
  author={Tianyi Zhang and Varsha Kishore and Felix Wu and Kilian Q. Weinberger and Yoav Artzi},
  booktitle={International Conference on Learning Representations},
  year={2020},
  url={https://openreview.net/forum?id=SkeHuCVFDr}
}
"""

SETTINGS = tuple(field.name for field in dataclasses.fields(ScoreConfig))
RUN_SETTINGS = ("batch_size", "device", "verbose")
SWITCHES = tuple(field.name for field in dataclasses.fields(ScoreConfig) if isinstance(field.default, bool))
# Only for the constructor: other metrics have a `model` and a `tokenizer` of another kind.
OBJECTS = ("model", "tokenizer", "encoder")
WITHOUT_EFFECT = ("nthreads", "use_fast_tokenizer")
# Arguments of other metrics that look like ours; `combine` passes everything to everyone.
FOREIGN = ("all_labels", "device_id", "max_len", "max_text_length", "mode", "model", "model_id", "num_labels")
_TEXTS = datasets.Value("string")
FLAT = datasets.Features({"predictions": _TEXTS, "references": _TEXTS})
GROUPED = datasets.Features({"predictions": _TEXTS, "references": datasets.Sequence(_TEXTS)})


class BERTScore(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """The Hub's `bertscore` on this package's core: the same arguments and results.

    Texts are kept as evaluate keeps them, in a file or in memory, until `compute` scores and forgets them. idf is
    counted in those texts alone. The encoder is shared by the process.

    Args:
        config_name, keep_in_memory, cache_dir, num_process, process_id, seed, experiment_id, hash,
            max_concurrent_cache_files, timeout: as in `evaluate.Metric`.
        settings: those of `compute`, see `inputs_description`; and `model`, `tokenizer`, `encoder` as in `BERTScorer`.

    Raises:
        TypeError, ValueError: a setting has a wrong value, or its name is nearly one of ours. Other names are left to
            other metrics, with a warning.

    Example:
        >>> metric = BERTScore(model_type="offline", num_layers=5, keep_in_memory=True)
        >>> metric.add_batch(predictions=["hello there"], references=["hello"])
        >>> metric.add(prediction="a cat sat", reference=["the dog", "a cat sat down"])
        >>> [round(value, 3) for value in metric.compute()["f1"]]
        [0.799, 0.888]
    """

    writer: Any
    filelock: Any
    filelocks: Any
    file_paths: Any

    def __init__(
        self,
        config_name: str | None = None,
        keep_in_memory: bool = False,
        cache_dir: str | None = None,
        num_process: int = 1,
        process_id: int = 0,
        seed: int | None = None,
        experiment_id: str | None = None,
        hash: str | None = None,
        max_concurrent_cache_files: int = 10000,
        timeout: int | float = 100,
        **settings: Any,
    ) -> None:
        self._warned: set[str] = set()
        self._objects = {name: settings.pop(name, None) for name in OBJECTS}
        self._given = self._own(settings)
        self._config({})
        self._scorer: ScorerHandle | None = None
        self._read: dict[str, list[Any]] | None = None  # what compute has read, until it has scored it
        self._failure: Exception | None = None  # of this process, told to the others
        self._loaded: tuple[ScoreConfig, dict[str, Any]] | None = None
        super().__init__(
            config_name=config_name,
            keep_in_memory=keep_in_memory,
            cache_dir=cache_dir,
            num_process=num_process,
            process_id=process_id,
            seed=seed,
            experiment_id=experiment_id,
            hash=hash,
            max_concurrent_cache_files=max_concurrent_cache_files,
            timeout=timeout,
        )
        self._experiments = (self.experiment_id, f"{self.experiment_id}-next")

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one text and its reference, or its references.

        Raises:
            TypeError, ValueError: wrong texts; what was added before stays as it is.
        """
        prediction = kwargs.pop("predictions", prediction)  # so `combine` calls them here as well
        reference = kwargs.pop("references", reference)
        try:
            segments = parse_segments([prediction], [reference], names=("prediction", "reference"))
        except (TypeError, ValueError) as error:  # one text has no number
            message = str(error).replace("prediction[0]", "prediction").replace("reference[0]", "reference")
            raise type(error)(message) from None
        super().add(prediction=segments.candidates[0], reference=segments.references, **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add texts and their references: lists, columns of a dataset, arrays; references flat or grouped.

        Raises:
            TypeError, ValueError: wrong texts, named by their row; what was added before stays as it is.
        """
        super().add_batch(**_grouped(predictions, references), **kwargs)

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any] | None:
        """Score what was added and what is passed, and forget it; `None` where `process_id` is not 0.

        Raises:
            TypeError, ValueError, OSError: wrong settings or texts, or the model cannot be loaded; what was added
                before stays as it is. With several processes it is forgotten by all of them.
            RuntimeError: another process failed to pass its share.
        """
        if self.num_process > 1:
            return self._compute_together(predictions, references, kwargs)
        if predictions is None and references is None and self.writer is None:
            raise ValueError("Nothing to score: pass predictions= and references=, or call add or add_batch before.")
        texts = self._prepare(predictions, references, kwargs)
        added = len(self)
        try:
            scores: dict[str, Any] = super().compute(**texts)
        except BaseException:
            read = self._read
            self._let_go()
            if read is not None and added:
                super().add_batch(**{name: column[:added] for name, column in read.items()})
            raise
        self._let_go()
        return scores

    def _compute_together(self, predictions: Any, references: Any, settings: dict[str, Any]) -> dict[str, Any] | None:
        """Score with the other processes; one that fails takes part all the same, so that none waits for it."""
        try:
            if self.writer is None:
                self._init_writer()  # the others wait for this one, also where it has no texts
            try:
                texts = self._prepare(predictions, references, settings)
                if texts:
                    self.add_batch(**texts)
            except Exception as error:
                self._failure = error
                # No text is None, so this tells process 0.
                self.writer.write({"predictions": None, "references": [repr(error)]})
            scores: dict[str, Any] | None = super().compute()
            if self._failure is not None:
                raise self._failure
            return scores
        finally:
            self._let_go()
            # Two names in turn: a process that is ahead must not find the locks of the round that others still finish.
            self._experiments = self._experiments[::-1]
            self._module_info.experiment_id = self._experiments[0]

    def _prepare(self, predictions: Any, references: Any, settings: dict[str, Any]) -> dict[str, list[Any]]:
        """Check what `compute` was given, load the scorer where one is needed, and return the texts."""
        config, run = self._config(self._own(settings))
        given = predictions is not None or references is not None
        texts = _grouped(predictions, references) if given else {}
        if self.process_id == 0:
            self._load(config, run)
        return texts

    def _info(self) -> Any:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=[FLAT, GROUPED],
            homepage="https://github.com/Tiiiger/bert_score",
            codebase_urls=["https://github.com/Tiiiger/bert_score"],
            reference_urls=["https://openreview.net/forum?id=SkeHuCVFDr", "https://github.com/Tiiiger/bert_score"],
        )

    def _compute(self, *, predictions: Any, references: Any) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        messages = [texts[0] for text, texts in zip(predictions, references, strict=True) if text is None]
        if messages:
            raise RuntimeError(f"Another process failed to pass its share: {messages[0]}")
        self._read = {"predictions": predictions, "references": references}
        assert self._scorer is not None
        result = self._scorer.scorer.score(predictions, references)
        return {
            "precision": result.precision.tolist(),
            "recall": result.recall.tolist(),
            "f1": result.f1.tolist(),
            "hashcode": str(result.signature),
        }

    def _own(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return those settings that are ours, under our names; `None` stands for not given, as in the Hub's.

        Raises:
            TypeError: an encoder, which only the constructor takes.
            ValueError: a name that is nearly one of ours.
        """
        own: dict[str, Any] = {}
        for name, value in settings.items():
            if name == "encoder":
                raise TypeError("encoder= is an argument of the constructor, not of compute.")
            if name in WITHOUT_EFFECT:
                continue
            if name not in (*SETTINGS, *RUN_SETTINGS, "model_type"):
                self._foreign(name)
            elif value is not None:
                core_name = "model_name_or_path" if name == "model_type" else name
                if core_name in own and own[core_name] != value:
                    raise ValueError("model_type and model_name_or_path are two names for one setting; give one.")
                as_number = name in SWITCHES and isinstance(value, int) and value in (0, 1)  # which the Hub's takes
                own[core_name] = bool(value) if as_number else value
        return own

    def _foreign(self, name: str) -> None:
        """Leave a setting to other metrics, with a warning, unless its name is nearly one of ours.

        Raises:
            ValueError: it is.
        """
        known = [*SETTINGS, *RUN_SETTINGS, *WITHOUT_EFFECT, "model_type"]
        near = [] if name in FOREIGN else difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"Unknown setting {name!r}; did you mean {near[0]!r}? Known: {', '.join(known)}.")
        if name not in self._warned:
            self._warned.add(name)
            hint = " (an object of your own goes to the constructor)" if name in OBJECTS else ""
            warn(
                f"bertscore has no setting {name!r} and leaves it to the other metrics{hint}.",
                BERTScoreWarning,
            )

    def _config(self, changes: dict[str, Any]) -> tuple[ScoreConfig, dict[str, Any]]:
        """Return what holds for a call: the constructor's settings, changed by the call's."""
        settings = {**self._given, **changes}
        if settings.get("all_layers"):  # as in bert_score, where these two may stand beside each other
            settings.pop("num_layers", None)
        if not settings.get("rescale_with_baseline"):
            settings.pop("baseline_path", None)
        run = {name: settings.pop(name) for name in RUN_SETTINGS if name in settings}
        return ScoreConfig.from_mapping(settings), {"device": None, **run}

    def _load(self, config: ScoreConfig, run: dict[str, Any]) -> None:
        if config.model_name_or_path is None and config.lang is None and not any(self._objects.values()):
            raise ValueError(
                "Name a model (model_type='offline' needs no network, 'roberta-large' is the usual one for English) or "
                "a language (lang='en'), here or in evaluate.load."
            )
        if self._scorer is None or self._loaded != (config, run):
            self._scorer = ScorerHandle(config, store_bytes=0, **run, **self._objects)
            self._loaded = (config, run)

    def _infer_feature_from_batch(self, batch: Any) -> Any:
        return GROUPED  # so that flat and grouped batches may follow each other, and empty ones too

    def _infer_feature_from_example(self, example: Any) -> Any:
        return GROUPED

    def _init_writer(self, timeout: int = 1) -> None:
        self.selected_feature_format = GROUPED
        super()._init_writer(timeout)

    def _let_go(self) -> None:
        """Drop files and locks that a call which failed has left; after one that did not, there are none."""
        for lock, path in reversed(list(zip(self.filelocks or [], self.file_paths or [], strict=True))):
            if lock.is_locked:
                self.data = None
                Path(path).unlink(missing_ok=True)
                lock.release()
        if self.filelock is not None:
            self.filelock.release()
        self._read = self._failure = None
        self.data = self.filelocks = self.file_paths = self.filelock = None
        self.writer = self.buf_writer = self.cache_file_name = self.selected_feature_format = None


def _grouped(predictions: Any, references: Any) -> dict[str, list[Any]]:
    """Return checked texts as evaluate's arguments, every prediction with a group of references."""
    segments = parse_segments(predictions, references, names=("predictions", "references"))
    return {"predictions": segments.candidates, "references": segments.groups}
