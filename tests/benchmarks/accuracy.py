"""`python -m tests.benchmarks.accuracy`: what each dtype does to the scores, on texts with judgements.

With `--no-compile` it leaves out compiled blocks, which need a compiler.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import sys
from typing import Any

import torch

from bertscore_metric import BERTScorer
from bertscore_metric.config import DTYPES
from bertscore_metric.io import files
from tests.benchmarks.texts import DATA

JUDGED = DATA.parent / "human" / "wmt17_da_seg_to_en.tsv"
COLUMNS = {"candidates": "hypothesis", "references": "reference", "human": "human_da_z", "groups": "lp"}


def main(num_layers: int = 6, *, compiled: bool = True) -> None:
    """Print a row for each dtype: differences of F1 by segment, and the mean Pearson correlation over the groups."""
    if not JUDGED.is_file():
        sys.exit(f"There are no judged texts at {JUDGED}.")
    candidates = files.read_candidates(str(JUDGED), COLUMNS["candidates"])
    references = files.read_references([str(JUDGED)], [COLUMNS["references"]])
    human = torch.tensor(files.read_numbers(str(JUDGED), COLUMNS["human"]), dtype=torch.float64)
    groups = files.read_candidates(str(JUDGED), COLUMNS["groups"])
    members = [torch.tensor([group == name for group in groups]) for name in sorted(set(groups))]
    exact = None
    print(f"{len(candidates)} segments of WMT17, all-MiniLM-L6-v2, layer {num_layers}, torch {torch.__version__}")
    print("dtype                largest  mean difference of F1   Pearson   change")
    kinds: dict[str, dict[str, Any]] = {dtype: {"dtype": dtype} for dtype in DTYPES[:-1]}
    if compiled:
        kinds.update({f"{dtype}, compiled": {"dtype": dtype, "compile": True} for dtype in ("float32", "bfloat16")})
    for name, kind in kinds.items():
        f1 = BERTScorer("offline", num_layers=num_layers, **kind).score(candidates, references).f1.double()
        exact = f1 if exact is None else exact
        off = (f1 - exact).abs()
        r = [_pearson(one, human, members) for one in (f1, exact)]
        print(f"{name:19s} {off.max():9.2e} {off.mean():9.2e} {r[0]:19.4f} {r[0] - r[1]:+9.5f}", flush=True)


def _pearson(scores: torch.Tensor, human: torch.Tensor, members: list[torch.Tensor]) -> float:
    return sum(float(torch.corrcoef(torch.stack([scores[own], human[own]]))[0, 1]) for own in members) / len(members)


if __name__ == "__main__":
    main(compiled="--no-compile" not in sys.argv[1:])
