"""Two records -> which stages differ, by how much, and why that is likely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bertscore_metric.analysis.verification_record import Record
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.signature import Signature

# How far values may be apart on another machine: the encoder's rounding, with a margin of four or more over what
# batches of another size did to MiniLM (3e-7 in float32, 2.4e-4 in float16, 2.4e-3 in bfloat16).
_TOLERANCES = {"float32": 1e-5, "tf32": 1e-3, "float16": 1e-3, "bfloat16": 1e-2}
_OTHER_KERNELS = 4  # on another kind of device, or compiled, sums are formed in quite another order
_IDF_TOLERANCE = 1e-6  # counted in float64, kept with seven decimals
_NAMES = ("precision", "recall", "F1")


@dataclass(frozen=True)
class Stage:
    """What became of a stage: `difference` says by how much it differs and is empty where it is the same.

    `exact` says whether all values, not only those that were kept, are equal to three decimals, where that is known.
    """

    name: str
    difference: str = ""
    exact: bool | None = None

    @property
    def same(self) -> bool:
        """Whether all values are within the tolerance."""
        return not self.difference

    def __str__(self) -> str:
        """Return the line to print."""
        return f"{self.name}: {'same' if self.same else f'differs by {self.difference}'}"


def compare(recorded: Record, now: Record) -> list[Stage]:
    """Compare two records of the same pairs, stage by stage, in the order in which one follows from the other.

    Args:
        recorded: what was.
        now: what is; `record(scorer, recorded.pairs)`.

    Returns:
        The stages `token ids`, `weights` (whether the model's are the same), `embeddings`, `matches`, `idf`, `scores`,
        and `rescaled` where either has a baseline. Numbers are the same within the tolerance of dtype and device.

    Raises:
        ValueError: the records are of different pairs.
    """
    if recorded.pairs != now.pairs:
        raise ValueError("Only records of the same pairs can be compared; use record(scorer, recorded.pairs).")
    tolerance = tolerance_between(recorded, now)
    stages = [
        Stage("token ids", _other_ids(recorded, now)),
        Stage("weights", _other_weights(recorded, now)),
        Stage(
            "embeddings",
            _other_rows(recorded.embeddings, now.embeddings, tolerance, "texts"),
            _equal_hash(recorded, now, "embeddings"),
        ),
        Stage(
            "matches",
            _other_rows(recorded.matches, now.matches, tolerance, "pairs"),
            _equal_hash(recorded, now, "matches"),
        ),
        Stage("idf", _other_idf(recorded, now)),
        Stage("scores", _other_scores(recorded.scores, now.scores, tolerance)),
    ]
    if recorded.rescaled or now.rescaled:
        stages.append(Stage("rescaled", _other_rescaled(recorded, now, tolerance)))
    return stages


def first_that_differs(stages: Sequence[Stage]) -> Stage | None:
    """Return the first stage that differs, from which the others may follow; `None` where all are the same."""
    return next((stage for stage in stages if not stage.same), None)


def tolerance_between(recorded: Record, now: Record) -> float:
    """Return how far cosines, embeddings and scores may be apart: by the coarser dtype, more on another device."""
    signatures = [Signature.parse(record.signature) for record in (recorded, now)]
    tolerance = max(_TOLERANCES.get(dict(signature.items).get("dtype", ""), 1e-5) for signature in signatures)
    devices = {record.made_with.get("device") for record in (recorded, now)}
    compiled = any("compiled" in dict(signature.items) for signature in signatures)
    return tolerance * (_OTHER_KERNELS if len(devices) > 1 or compiled else 1)


def _equal_hash(recorded: Record, now: Record, name: str) -> bool:
    return name in recorded.hashes and recorded.hashes[name] == now.hashes[name]


def _other_ids(recorded: Record, now: Record) -> str:
    if len(recorded.token_ids) != len(now.token_ids):
        return f"{len(now.token_ids)} texts here, {len(recorded.token_ids)} recorded"
    pairs = list(zip(recorded.token_ids, now.token_ids, strict=True))
    other = [number for number, (then, here) in enumerate(pairs) if then != here]
    if not other:
        return ""
    then, here = pairs[other[0]]
    shared = min(len(then), len(here))
    place = next((k for k in range(shared) if then[k] != here[k]), shared)
    return (
        f"{len(other)} of {len(pairs)} texts; the first is {_place(recorded, other[0])}, from its id {place} on: "
        f"{_some(here[place:])} here, {_some(then[place:])} recorded"
    )


def _place(recorded: Record, text: int) -> str:
    """Return where a text stands among the pairs, as `candidates[3]`."""
    segments = parse_segments([c for c, _ in recorded.pairs], [list(group) for _, group in recorded.pairs])
    return segments.place(list(dict.fromkeys([*segments.candidates, *segments.references]))[text])


def _some(ids: Sequence[int]) -> str:
    return f"{', '.join(map(str, ids[:4])) or 'none'}{', ...' if len(ids) > 4 else ''}"


def _other_weights(recorded: Record, now: Record) -> str:
    return "" if recorded.weights == now.weights else f"their hash: {now.weights} here, {recorded.weights} recorded"


def _distances(recorded: list[list[float]], now: list[list[float]]) -> list[float]:
    """Return the largest distance in each row, infinite where a row has another number of values."""
    missing = [math.inf] * abs(len(recorded) - len(now))
    return [
        max((abs(a - b) for a, b in zip(then, here, strict=True)), default=0.0) if len(then) == len(here) else math.inf
        for then, here in zip(recorded, now, strict=False)
    ] + missing


def _far(distances: Sequence[float], tolerance: float, what: str) -> str:
    """Return how many rows are beyond the tolerance, and how far; "" where none is."""
    far = [distance for distance in distances if distance > tolerance]
    if not far:
        return ""
    largest = "another number of values" if math.inf in far else f"up to {_short(max(far))}"
    return f"{largest} in {len(far)} of {len(distances)} {what}"


def _other_rows(recorded: list[list[float]], now: list[list[float]], tolerance: float, what: str) -> str:
    found = _far(_distances(recorded, now), tolerance, what)
    return f"{found} (tolerance {tolerance:g})" if found else ""


def _other_idf(recorded: Record, now: Record) -> str:
    shared = recorded.idf.keys() & now.idf.keys()
    lone = len(recorded.idf.keys() ^ now.idf.keys())
    far = {n: abs(recorded.idf[n] - now.idf[n]) for n in shared if abs(recorded.idf[n] - now.idf[n]) > _IDF_TOLERANCE}
    parts = [f"{lone} ids that only one of the two has"] if lone else []
    if far:
        number = max(far, key=lambda n: (far[n], -n))
        parts.append(
            f"up to {_short(far[number])} in {len(far)} of {len(shared)} ids (id {number}: {now.idf[number]:.6f} here, "
            f"{recorded.idf[number]:.6f} recorded)"
        )
    return " and ".join(parts)


def _other_scores(recorded: list[list[float]], now: list[list[float]], tolerance: float) -> str:
    distances = _distances(recorded, now)
    found = _far(distances, tolerance, "segments")
    if not found or math.inf in distances:
        return found
    segment = distances.index(max(distances))
    then, here = recorded[segment], now[segment]
    number = max(range(len(then)), key=lambda k: abs(then[k] - here[k]))
    name = _NAMES[number * 3 // len(then)]
    return f"{found}; {name} of segment {segment} is {here[number]:.6f} here, {then[number]:.6f} recorded"


def _other_rescaled(recorded: Record, now: Record, tolerance: float) -> str:
    if not recorded.rescaled or not now.rescaled:
        return "its baseline: there is " + ("one here, none was recorded" if now.rescaled else "none here any more")
    # Dividing by 1 - b makes distances larger.
    steepest = max((1 / (1 - value) for row in now.baseline for value in row if value < 1), default=1.0)
    return _other_scores(recorded.rescaled, now.rescaled, tolerance * max(1.0, steepest))


def _short(distance: float) -> str:
    return f"{distance:.3g}"
