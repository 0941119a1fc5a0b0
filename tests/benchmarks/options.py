"""How much is measured: the defaults take some twenty minutes on two cores, `QUICK` shows in one that all works."""

from dataclasses import dataclass, field

from bertscore_metric.models.source import resolve
from tests.benchmarks.random_bert import Size


@dataclass(frozen=True)
class Options:
    """What the sections need to know.

    Args:
        model: a name or a folder, of a BERT.
        layer: which layer is scored.
        inner: size between the two linear layers of the model's blocks.
        pairs: of one pass.
        large: the size of the randomly initialised model.
        large_pairs: of one pass of that model.
        epochs, epoch_pairs: of a validation.
        matrix: how many candidates are scored against one another.
        matrix_texts, matrix_columns: texts of the lists that are compared with each other, and how many of one
            bert_score compares.
        nearest_texts: texts of the lists of which every one gets its best partners.
        mbr_lists: how many lists of how many samples.
        memory_pairs: of the calls whose peak is compared.
        held_updates: updates of 16 pairs after which the bytes held are counted.
        curve_pairs: of the calls on the cost curve, which has the model's layer 1.
        rounds: how often each is measured.
        compiled: whether compiled blocks are measured, too.
    """

    model: str = "offline"
    layer: int = 5
    inner: int = 1536
    pairs: int = 3000
    large: Size = field(default_factory=Size)
    large_pairs: int = 60
    epochs: int = 5
    epoch_pairs: int = 1000
    matrix: int = 64
    matrix_texts: int = 1000
    matrix_columns: int = 50
    nearest_texts: int = 5000
    mbr_lists: tuple[int, int] = (64, 32)
    memory_pairs: tuple[int, ...] = (1000, 10000)
    held_updates: int = 5000
    curve_pairs: tuple[int, ...] = (100, 1000, 10000, 50000)
    rounds: int = 3
    compiled: bool = True

    @property
    def folder(self) -> str:
        """Where the model is, for packages that do not know its name."""
        return resolve(self.model).location

    @property
    def name(self) -> str:
        """What people call the model."""
        return resolve(self.model).name

    @property
    def kinds(self) -> dict[str, dict[str, object]]:
        """What the encoder may run in, by the words of the tables: arguments of `BERTScorer`."""
        plain: dict[str, dict[str, object]] = {dtype: {"dtype": dtype} for dtype in ("float32", "bfloat16")}
        compiled = {f"{name}, compiled": {**kind, "compile": True} for name, kind in plain.items()}
        return {**plain, **compiled} if self.compiled else plain


QUICK = Options(
    pairs=48, large=Size(dim=64, layers=4, heads=4, inner=256, cut=3), large_pairs=16, epochs=2, epoch_pairs=48,
    matrix=6, matrix_texts=40, matrix_columns=10, nearest_texts=40, mbr_lists=(3, 4),
    memory_pairs=(16, 64), held_updates=20, curve_pairs=(8, 32), rounds=2,
)  # fmt: skip
