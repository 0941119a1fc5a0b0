"""What single model types need beyond the rules that hold for all: one table, by `config.model_type`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Quirks:
    """What is special about a model type.

    Args:
        prefix_space: its slow tokenizer in transformers 4 was RobertaTokenizer or GPT2Tokenizer, so bert_score put a
            space in front of its texts, and its tables were made that way. (BART's and Longformer's was another.)
        end_token_counts: it ends a text with `</s>` and has no other special token: there `</s>` counts, as in
            bert_score.
        block_counter: its blocks are no list that can be shortened: where the attribute is that counts them, and its
            name.
        needs_a_block: it cannot run without a block (and has no norm after them): layer 0 is read before the first.
        positions_in_windows: it pads a text to whole attention windows, which must fit the table of positions.
        full_attention: its sparse attention follows the length of the batch, not of the text, and is switched off.
        random: its numbers are no function of the text.
    """

    prefix_space: bool = False
    end_token_counts: bool = False
    block_counter: tuple[str, str] | None = None
    needs_a_block: bool = False
    positions_in_windows: bool = False
    full_attention: bool = False
    random: bool = False


NONE = Quirks()
_SPACE = Quirks(prefix_space=True)
_END = Quirks(end_token_counts=True)
QUIRKS: Mapping[str, Quirks] = {
    **dict.fromkeys((
        "blip-2", "bridgetower", "clap", "data2vec-text", "dbrx", "emu3", "exaone4", "gpt2", "gpt_bigcode", "gpt_neo",
        "gptj", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared", "ibert", "instructblip",
        "instructblipvideo", "mega", "mra", "opt", "roberta", "roberta-prelayernorm", "starcoder2",
    ), _SPACE),
    **dict.fromkeys(("byt5", "longt5", "mt5", "pegasus", "pegasus_x", "switch_transformers", "t5", "umt5"), _END),
    "albert": Quirks(block_counter=("encoder.config", "num_hidden_layers")),
    "big_bird": Quirks(full_attention=True),
    "bigbird_pegasus": Quirks(full_attention=True),
    "deberta-v2": Quirks(needs_a_block=True),
    "flaubert": Quirks(block_counter=("", "n_layers")),
    "led": Quirks(positions_in_windows=True),
    "reformer": Quirks(random=True),  # hashes the tokens of longer texts at random
    "xlm": Quirks(block_counter=("", "n_layers")),
    "xmod": Quirks(needs_a_block=True),
}  # fmt: skip


def quirks(model_type: str | None) -> Quirks:
    """Return what is special about a model type; nothing, for most."""
    return QUIRKS.get(model_type or "", NONE)
