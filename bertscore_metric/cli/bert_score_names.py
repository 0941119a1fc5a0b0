"""bert-score's options -> this command line's, or why there is none."""

from __future__ import annotations

_FASTEST = "there is one tokenizer, with the ids of the slow one, and it uses all cores"
_OPTIONS = {
    "--cand": "--candidates FILE (-c)",
    "--cands": "--candidates FILE (-c)",
    "--ref": "--references FILE ... (-r)",
    "--refs": "--references FILE ... (-r)",
    "--num_layers": "--num-layers N (-l)",
    "--batch_size": "--batch-size N (-b)",
    "--rescale_with_baseline": "--rescale",
    "--rescale-with-baseline": "--rescale",
    "--baseline_path": "--rescale --baseline-path FILE",
    "--seg_level": "--segments (-s)",
    "--seg-level": "--segments (-s)",
}
_WITHOUT = {
    "--nthreads": f"{_FASTEST}; leave it out",
    "--use_fast_tokenizer": f"{_FASTEST}; leave it out",
    "--use-fast-tokenizer": f"{_FASTEST}; leave it out",
    "-v": "progress is shown on a terminal, and --quiet (-q) leaves it out",
    "--verbose": "progress is shown on a terminal, and --quiet (-q) leaves it out",
}


def instead_of(option: str, known: set[str]) -> str | None:
    """Return the sentence for an option that the command does not have; `None` where bert-score has none such either.

    Args:
        option: as it was given.
        known: the command's own options; one that is spelled with `_` for `-` is named whatever it is.

    Example:
        >>> instead_of("--seg_level", {"--segments"})
        'No such option: --seg_level. Here it is --segments (-s).'
        >>> instead_of("--max_length", {"--max-length"})
        'No such option: --max_length. Here it is --max-length.'
    """
    if option in _WITHOUT:
        return f"No such option: {option}: {_WITHOUT[option]}."
    here = _OPTIONS.get(option)
    if here is not None and here.split()[0] in known:
        return f"No such option: {option}. Here it is {here}."
    dashed = option.replace("_", "-")
    return f"No such option: {option}. Here it is {dashed}." if dashed != option and dashed in known else None
