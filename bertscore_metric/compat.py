"""bert_score's names and arguments on this package's core.

    >>> import bertscore_metric.compat as bert_score
    >>> P, R, F1 = bert_score.score(["a cat sat"], ["a cat sat"], model_type="offline")
    >>> round(F1.item(), 6)
    1.0

The numbers are those of `bertscore_metric.score`: so F1 is 0 where precision or recall is not positive, where
bert_score's harmonic mean has no bounds, and missing references of a group are left out. `nthreads` and
`use_fast_tokenizer` are accepted and have no effect: there is one tokenizer, with the ids of the slow one. A hash code
is the core's signature as `str`, so it reads differently from bert_score's. What bert_score prints is a
`BERTScoreWarning` here, what it asserts a `ValueError`.
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertscore_metric import __version__, registry
from bertscore_metric.core.baseline import find_baseline, rescale
from bertscore_metric.core.matching import similarity, unit
from bertscore_metric.core.pairs import check_texts, parse_segments
from bertscore_metric.core.weighting import document_frequencies, inverse_document_frequencies
from bertscore_metric.models import source
from bertscore_metric.models.numerics import own_arithmetic
from bertscore_metric.models.tokenizer import TextTokenizer
from bertscore_metric.optional import explained
from bertscore_metric.scorer import BERTScorer as CoreScorer
from bertscore_metric.warnings import BERTScoreWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BERTScorer", "__version__", "get_idf_dict", "lang2model", "model2layers", "plot_example", "score"]

logger = logging.getLogger(__name__)

Scores = tuple[Tensor, Tensor, Tensor]

# Views of the tables, read-only: the layer of a model that is not listed is passed as num_layers.
model2layers: Mapping[str, int] = registry.known_models()
lang2model: Mapping[str, str] = registry.known_languages()


class _Default(int):
    """A default that can be told from the same number passed by a caller."""


def score(
    cands: Any,
    refs: Any,
    model_type: str | None = None,
    num_layers: int | None = None,
    verbose: bool = False,
    idf: bool | Mapping[int, float] = False,
    device: str | torch.device | None = None,
    batch_size: int = 64,
    nthreads: int = 4,
    all_layers: bool = False,
    lang: str | None = None,
    return_hash: bool = False,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
) -> Scores | tuple[Scores, str]:
    """Score candidates against references in one call.

    Args:
        cands: texts, [segment].
        refs: texts [segment], or groups of texts, one group for each candidate.
        model_type: hub name, folder or `offline`; by default the model of `lang`.
        num_layers: the layer, by default that of the table; not used with `all_layers`.
        verbose: show a progress bar on stderr.
        idf: weight tokens by their idf in `refs`, or by a mapping from token id to weight.
        batch_size: most texts in a batch of the encoder; no number depends on it.
        all_layers: score every layer; the results are [layer, segment].
        lang: language code, in any case.
        return_hash: also return the signature of the settings.
        rescale_with_baseline: rescale the scores, by default with the table's baseline for `lang`.
        baseline_path: file with another baseline; not used unless `rescale_with_baseline` is set.
        device: where the model runs; by default the first GPU, else the CPU.
        nthreads: no effect.
        use_fast_tokenizer: no effect.

    Returns:
        `(P, R, F1)`, each [segment] float32 on the CPU, or `((P, R, F1), signature)`.

    Raises:
        TypeError, ValueError: wrong settings or texts; the message says what is allowed.
    """
    once = BERTScorer(
        model_type, num_layers, batch_size, all_layers=all_layers, idf=idf, device=device, lang=lang,
        rescale_with_baseline=rescale_with_baseline, baseline_path=baseline_path,
    )  # fmt: skip
    return once._score(cands, refs, verbose, batch_size, return_hash)


class BERTScorer:
    """A scorer whose model is loaded once.

    Args:
        batch_size: most texts in a batch, where `score` is not given another number.
        idf: weight tokens by their idf in `idf_sents` or the texts of `compute_idf`, or by a mapping from id to weight.
        idf_sents: texts to compute idf weights from; as in bert_score they are not used unless `idf` is set.
        model_type, num_layers, nthreads, all_layers, device, lang, rescale_with_baseline, baseline_path,
            use_fast_tokenizer: as for the function `score`.
    """

    def __init__(
        self,
        model_type: str | None = None,
        num_layers: int | None = None,
        batch_size: int = 64,
        nthreads: int = 4,
        all_layers: bool = False,
        idf: bool | Mapping[int, float] = False,
        idf_sents: Any = None,
        device: str | torch.device | None = None,
        lang: str | None = None,
        rescale_with_baseline: bool = False,
        baseline_path: str | None = None,
        use_fast_tokenizer: bool = False,
    ) -> None:
        if model_type is None:
            if lang is None:
                raise ValueError(
                    "Either lang or model_type should be specified, as in lang='en' or model_type='offline'."
                )
            model_type = registry.model_for_language(lang)
        self.batch_size, self.nthreads, self.all_layers = batch_size, nthreads, all_layers
        self.baseline_path = baseline_path
        self._model_type, self._num_layers, self._lang, self._idf = model_type, num_layers, lang, idf or False
        self._rescale_with_baseline, self._use_fast_tokenizer = rescale_with_baseline, use_fast_tokenizer
        self._run: dict[str, Any] = {"batch_size": batch_size, "verbose": False}
        self._core = CoreScorer(
            model_type,
            num_layers=None if all_layers else num_layers,
            all_layers=all_layers,
            lang=lang,
            idf=self._idf,
            device=device,
            rescale_with_baseline=rescale_with_baseline,
            baseline_path=baseline_path if rescale_with_baseline else None,
            **self._run,
        )
        self.device = self._core.device
        self._has_idf = not isinstance(self._idf, bool)
        if idf_sents is not None:
            self.compute_idf(idf_sents)

    @property
    def lang(self) -> str | None:
        """Language, as it was passed."""
        return self._lang

    @property
    def idf(self) -> bool | Mapping[int, float]:
        """Whether tokens are weighted by idf, or the weights that were passed."""
        return self._idf

    @property
    def model_type(self) -> str:
        """Model, as it was passed, or that of the language."""
        return self._model_type

    @property
    def num_layers(self) -> int | None:
        """Layer in use; with `all_layers` what was passed."""
        return self._num_layers if self.all_layers else self._core.model.num_layers

    @property
    def rescale_with_baseline(self) -> bool:
        """Whether scores are rescaled."""
        return self._rescale_with_baseline

    @property
    def baseline_vals(self) -> Tensor:
        """Baseline of P, R, F1: [3], or [layer, 1, 3] with `all_layers`; a `ValueError` where there is none."""
        values = self._baseline().float()
        return values[:, None] if self.all_layers else values[0]

    @property
    def use_fast_tokenizer(self) -> bool:
        """What was passed; it has no effect."""
        return self._use_fast_tokenizer

    @property
    def hash(self) -> str:
        """Signature of the settings; with `idf=True` its idf is `corpus` until the weights are computed."""
        return str(self._core.signature)

    def compute_idf(self, sents: Any) -> None:
        """Compute the idf weights from texts; if there are weights, replace them with a warning."""
        if self._has_idf:
            warnings.warn("Overwriting the previous importance weights.", BERTScoreWarning, stacklevel=2)
        texts = check_texts(sents, "sents")
        if self._idf:
            self._renew(self._run, idf=texts)
        self._has_idf = True

    def score(
        self, cands: Any, refs: Any, verbose: bool = False, batch_size: int = _Default(64), return_hash: bool = False
    ) -> Scores | tuple[Scores, str]:
        """Score candidates against references; arguments and result are those of the function `score`.

        Raises:
            ValueError: idf weights are asked for and not computed.
        """
        if self._idf and not self._has_idf:
            raise ValueError(
                "IDF weights are not computed: call compute_idf(sents) first, or pass idf_sents= to BERTScorer; sents "
                "are usually the references."
            )
        # The default stands for the constructor's number, which bert_score ignores (Tiiiger/bert_score#191).
        most = self.batch_size if isinstance(batch_size, _Default) else batch_size
        return self._score(cands, refs, verbose, most, return_hash)

    def plot_example(self, candidate: str, reference: str, fname: str = "") -> Figure:
        """Draw the cosines of the tokens of two texts, special ones left out; the candidate's tokens are the rows.

        Args:
            candidate: one text.
            reference: one text.
            fname: file to save the picture in.

        Returns:
            The figure, which is also shown where matplotlib's backend can.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError, ValueError: a text is not a `str` or has no tokens, or the scorer has `all_layers`.
        """
        if self.all_layers:
            raise ValueError("plot_example shows one layer: use a BERTScorer with num_layers=..., without all_layers.")
        pyplot = _pyplot()
        title = "Similarity Matrix"
        with own_arithmetic(self._core.config.dtype, self._core.device):
            rows, candidate_vectors = self._embed(candidate, "candidate")
            columns, reference_vectors = self._embed(reference, "reference")
            cosines = similarity(candidate_vectors, reference_vectors).cpu()
            if self._rescale_with_baseline:
                title += " (after Rescaling)"
                cosines = rescale(cosines.reshape(1, -1), self._baseline()[:, 2]).reshape(cosines.shape)
        return _draw(pyplot, cosines, rows, columns, title, fname)

    def __repr__(self) -> str:
        """Return signature, batch size and threads."""
        return f"{type(self).__name__}(hash={self.hash}, batch_size={self.batch_size}, nthreads={self.nthreads})"

    def _score(
        self, cands: Any, refs: Any, verbose: bool, batch_size: int, return_hash: bool
    ) -> Scores | tuple[Scores, str]:
        run = {"batch_size": batch_size, "verbose": verbose}
        if run != self._run:
            self._renew(run)
        segments = parse_segments(cands, refs, names=("cands", "refs"))  # here, so that messages use these names
        flat = iter(segments.references)
        result = self._core.score(segments.candidates, [list(islice(flat, n)) for n in segments.reference_counts])
        scores = (result.precision, result.recall, result.f1)
        return (scores, str(result.signature)) if return_hash else scores

    def _renew(self, run: dict[str, Any], **changes: Any) -> None:
        """Put a core scorer with other settings in place of the old one, whose encoder it shares."""
        config = dataclasses.replace(self._core.config, num_layers=self._core.model.num_layers, **changes)
        self._core, self._run = CoreScorer.from_config(config, device=self.device, **run), run

    def _baseline(self) -> Tensor:
        model, path = self._core.model, self.baseline_path
        return find_baseline(
            lang=self._lang, model=model.name, num_layers=model.num_layers, depth=model.depth, path=path
        ).values

    def _embed(self, text: object, name: str) -> tuple[list[str], Tensor]:
        """Return the tokens of a text but the special ones, and their vectors [token, dim] of length 1."""
        if not isinstance(text, str):
            raise TypeError(f"{name} must be one text (str), got {type(text).__name__}.")
        tokenizer = self._core.model.tokenizer
        encoded = tokenizer(check_texts([text], name), name=name)
        batch = encoded.batch(torch.tensor([0]), tokenizer.pad_id, torch.tensor(sorted(tokenizer.special_ids)))
        kept = ~batch.special_tokens_mask[0]
        if not bool(kept.any()):
            raise ValueError(f"{name} has no tokens to show: {text!r}.")
        vectors = self._core.model.encoder.embed(batch)[0]
        return tokenizer.tokens(encoded.ids[kept].tolist()), unit(vectors[kept.to(vectors.device)])


def plot_example(
    candidate: str,
    reference: str,
    model_type: str | None = None,
    num_layers: int | None = None,
    lang: str | None = None,
    rescale_with_baseline: bool = False,
    baseline_path: str | None = None,
    use_fast_tokenizer: bool = False,
    fname: str = "",
) -> Figure:
    """Draw the cosines of the tokens of two texts in one call; see `score` and `BERTScorer.plot_example`."""
    once = BERTScorer(
        model_type, num_layers, lang=lang, rescale_with_baseline=rescale_with_baseline, baseline_path=baseline_path
    )
    return once.plot_example(candidate, reference, fname)


def get_idf_dict(arr: Any, tokenizer: Any, nthreads: int = 4) -> defaultdict[int, float]:
    """Return the idf weights of the token ids in texts, with that of unseen ids as the default.

    Args:
        arr: texts.
        tokenizer: a tokenizer of transformers that knows its model, which decides about the space in front of a text.
        nthreads: no effect.

    Raises:
        ValueError: the tokenizer does not know its model.
    """
    name = getattr(tokenizer, "name_or_path", "")
    if not name:
        raise ValueError(
            "get_idf_dict needs a tokenizer whose name_or_path names its model: load it with from_pretrained, or pass "
            "the texts to BERTScorer as idf_sents=."
        )
    model_type = source.load_config(source.resolve(name)).model_type
    texts = TextTokenizer(tokenizer, model_type=model_type)(check_texts(arr, "arr"))
    table = inverse_document_frequencies(document_frequencies(texts.ids.long(), texts.lengths))
    return defaultdict(lambda: table.default or 0.0, table)


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise explained(
            error, ("matplotlib",), "plot_example draws with matplotlib: pip install 'bertscore_metric[plot]'."
        ) from error
    return pyplot


def _draw(
    pyplot: Any, cosines: Tensor, candidate_tokens: list[str], reference_tokens: list[str], title: str, fname: str
) -> Figure:
    """Draw cosines [cand, ref] as a heat map with their values, a square inch a cell."""
    rows, columns = cosines.shape
    figure: Figure
    figure, axes = pyplot.subplots(figsize=(max(columns, 3) + 1.5, max(rows, 2) + 1.5), layout="constrained")
    image = axes.imshow(cosines.numpy(), cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(columns), reference_tokens, rotation=45, ha="right", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(range(rows), candidate_tokens, parse_math=False)
    axes.grid(False)
    axes.set_xlabel("Reference (tokenized)", fontsize=14)
    axes.set_ylabel("Candidate (tokenized)", fontsize=14)
    axes.set_title(title, fontsize=14)
    figure.colorbar(image, cax=axes.inset_axes((1 + 0.2 / columns, 0, 0.2 / columns, 1)))
    for row, values in enumerate(cosines.tolist()):
        for column, value in enumerate(values):
            axes.text(column, row, f"{value:.3f}", ha="center", va="center", color="k" if value < 0.5 else "w")
    if fname:
        figure.savefig(fname, dpi=100)
        logger.info("Saved the figure to %s.", fname)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*non-interactive")  # a backend that only writes files shows nothing
        pyplot.show()
    if not pyplot.isinteractive():
        pyplot.close(figure)  # pyplot would keep every figure until the process ends
    return figure
