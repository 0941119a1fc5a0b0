"""Texts to measure on: WMT18 German-English where it is at hand, else sentences put together from a few parts."""

import random
from pathlib import Path

DATA = Path(__file__).parents[3] / "shared" / "data" / "newstest2018_deen"
SUBJECTS = ["the old bridge", "a committee of experts", "my sister", "nobody in the village", "the company"]
VERBS = ["has not decided whether", "said on Thursday that", "doubts that", "was told in 1987 that", "hopes"]
OBJECTS = ["the river is long", "prices will rise again", "it rains", "the library opens at nine", "time is short"]


def pairs(n: int) -> tuple[list[str], list[str], str]:
    """Return n candidates, their references, and where they come from."""
    if DATA.is_dir():
        candidates: list[str] = []
        references: list[str] = []
        trusted = (DATA / "ref.en").read_text(encoding="utf-8").split("\n")[:2998]
        for system in ("hyp.RWTH.5636.en", "hyp.online-F.0.en", "hyp.LMU-unsup.5650.en"):
            candidates += (DATA / system).read_text(encoding="utf-8").split("\n")[:2998]
            references += trusted
        while len(candidates) < n:  # texts that differ, so that nothing is embedded once for two
            candidates += [f"{text} {len(candidates)}" for text in candidates[:2998]]
            references += [f"{text} {len(candidates)}" for text in references[:2998]]
        return candidates[:n], references[:n], "newstest2018 de-en"
    rng = random.Random(0)

    def sentence() -> str:
        parts = (rng.choice(words) for _ in range(rng.randint(1, 5)) for words in (SUBJECTS, VERBS, OBJECTS))
        return " ".join(parts) + "."

    return [sentence() for _ in range(n)], [sentence() for _ in range(n)], "made-up sentences"


def distinct_pairs(n: int) -> tuple[list[str], list[str], str]:
    """Return n pairs of which no text is another, so that each costs the same: some 3,000, and those with numbers."""
    candidates, references, origin = pairs(min(n, 2998))
    both: list[list[str]] = []
    for texts in (candidates, references):
        both.append([text if i < len(texts) else f"{text} {i}" for i in range(n) for text in [texts[i % len(texts)]]])
    return both[0], both[1], origin
