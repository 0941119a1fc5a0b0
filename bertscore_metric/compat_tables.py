"""What bert_score keeps in its `utils` and other programs read there: tables, hash code and idf weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from bertscore_metric import __version__ as package_version
from bertscore_metric import registry
from bertscore_metric.core.pairs import check_texts
from bertscore_metric.core.weighting import document_frequencies, inverse_document_frequencies
from bertscore_metric.models import source
from bertscore_metric.models.tokenizer import TextTokenizer

__version__ = "0.3.13"  # of bert_score: programs ask it which arguments they may pass

# Views of the tables, read-only: the layer of a model that is not listed is passed as num_layers.
model2layers: Mapping[str, int] = registry.known_models()
lang2model: Mapping[str, str] = registry.known_languages()
model_types: list[str] = list(model2layers)


def get_hash(
    model: str,
    num_layers: int | None,
    idf: Any,
    rescale_with_baseline: bool,
    use_custom_baseline: bool,
    use_fast_tokenizer: bool = False,
) -> str:
    """Return settings in the form of bert_score's hash code, with this package's version at its end.

    It names what is asked for, and a scorer's `hash` what took effect; so the two are never equal, and a program that
    compares them, as the Hub's `bertscore` does, makes a new scorer, which shares the loaded encoder.

    Args:
        model: hub name, folder or `offline`.
        num_layers: the layer.
        idf: whether tokens are weighted by idf, or the weights.
        rescale_with_baseline: whether scores are rescaled.
        use_custom_baseline: whether with a baseline of the caller's.
        use_fast_tokenizer: no effect.

    Example:
        >>> get_hash("offline", 6, False, False, False).partition("_version=")[0]
        'offline_L6_no-idf'
    """
    rescaled = ("-custom-rescaled" if use_custom_baseline else "-rescaled") if rescale_with_baseline else ""
    idf_word = "idf" if idf else "no-idf"
    versions = f"version={__version__}(hug_trans={version('transformers')}){rescaled}"
    return f"{model}_L{num_layers}_{idf_word}_{versions}_bertscore_metric={package_version}"


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
