"""Texts longer than the limit in overlapping windows: the plan, every kind of special tokens, identity, memory."""

import warnings
from typing import Any

import pytest
import torch
from conftest import DATA, MODELS, TOLERANCE, model_path, shared_scorer
from fakes import HashEncoder, LayeredEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_kinds import tokenizer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel, AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreResult, TokenBatch, update
from bertscore_metric.core import matching
from bertscore_metric.core.matching import unit
from bertscore_metric.core.windows import WindowRule, count_windows, plan_windows, window_positions
from bertscore_metric.models.tokenizer import TextTokenizer, _frame
from bertscore_metric.state.kept_embeddings import EmbeddingCollector
from bertscore_metric.state.reference_cache import ReferenceCache
from bertscore_metric.state.state_columns import to_columns

pytestmark = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")

# How many special tokens a tokenizer puts before and behind a text.
FRAMES = {"bert": (1, 1), "roberta": (1, 1), "xlm-roberta": (1, 1), "bart": (1, 1), "t5": (0, 1), "xlnet": (0, 2),
          "llama": (1, 0), "gpt2": (0, 0), "modernbert": (1, 1)}  # fmt: skip
STORY = (
    "the old chef found two bananas on the red table and looked at the cat . a dog walked past the house , "
    "sat down near the chef and looked at the lemons . is it the dog or the cat that likes bananas ?"
)
SHORT = "the cat sat ."
rules = st.builds(WindowRule, size=st.integers(4, 12), front=st.integers(0, 1), behind=st.integers(0, 2))
sizes = st.lists(st.integers(0, 60), min_size=1, max_size=6)


def scores(result: BERTScoreResult) -> Tensor:
    """Return the three columns as one tensor."""
    return torch.stack(list(result))


def naive_plan(length: int, rule: WindowRule) -> list[tuple[int, list[int]]]:
    """Return for every window of a text its start and the text's tokens that it keeps, by comparing all distances."""
    room, content = rule.size - rule.front - rule.behind, length - rule.front - rule.behind
    if length <= rule.size:
        return [(0, list(range(length)))]
    starts = [*range(0, content - room, max(1, room // 2)), content - room]
    kept: list[list[int]] = [[] for _ in starts]
    for token in range(content):
        distances = [min(token - start, start + room - 1 - token) for start in starts]
        kept[distances.index(max(distances))].append(token + rule.front)
    kept[0] = [*range(rule.front), *kept[0]]
    kept[-1] += range(length - rule.behind, length)
    return list(zip(starts, kept, strict=True))


@given(sizes, rules)
@settings(deadline=None, max_examples=60)
def test_every_token_comes_from_its_best_window(lengths: list[int], rule: WindowRule) -> None:
    """Every token is kept once, from the window in which it is farthest from an edge, or from the first of two such."""
    windows = plan_windows(torch.tensor(lengths), rule)
    first = torch.cumsum(torch.tensor([0, *lengths[:-1]]), 0)
    for text, length in enumerate(lengths):
        numbers = torch.nonzero(windows.texts == text).squeeze(1)
        expected = naive_plan(length, rule)
        assert windows.starts[numbers].tolist() == [start for start, _ in expected]
        assert windows.last[numbers].tolist() == [False] * (len(expected) - 1) + [True]
        for number, (start, kept) in zip(numbers, expected, strict=True):
            assert windows.kept_positions(first, number[None]).tolist() == [int(first[text]) + token for token in kept]
            assert windows.kept_rows(number[None]).tolist() == [token - start for token in kept]
    everything = torch.arange(len(windows.texts))
    assert windows.kept_positions(first, everything).tolist() == list(range(sum(lengths)))
    assert count_windows(torch.tensor(lengths), rule).tolist() == [len(naive_plan(n, rule)) for n in lengths]


@given(st.integers(13, 400), rules)
@settings(deadline=None, max_examples=60)
def test_context(length: int, rule: WindowRule) -> None:
    """Except where the text begins or ends, every token has a quarter of a window on either side, rounded down."""
    windows = plan_windows(torch.tensor([length]), rule)
    for window in range(len(windows.texts)):
        kept = windows.kept_rows(torch.tensor([window])) - rule.front
        kept = kept[(kept >= 0) & (kept < rule.room)]
        before, after = kept, rule.room - 1 - kept
        assert window == 0 or int(before.min()) >= (rule.room - 1) // 4
        assert windows.last[window] or int(after.min()) >= (rule.room - 1) // 4


@given(sizes.filter(any), rules)
@settings(deadline=None, max_examples=60)
def test_windows_are_full_inputs(lengths: list[int], rule: WindowRule) -> None:
    """Every window holds its stretch of the text between the text's own special tokens, and padding is valid."""
    counts = torch.tensor(lengths)
    first = torch.cumsum(counts, 0) - counts
    windows = plan_windows(counts, rule)
    chosen = torch.nonzero(windows.lengths > 0).squeeze(1)
    texts = windows.texts[chosen]
    index, mask = window_positions(first[texts], counts[texts], windows.starts[chosen], rule)
    for row, real, text, start in zip(index, mask, texts.tolist(), windows.starts[chosen].tolist(), strict=True):
        begin, n = int(first[text]), lengths[text]
        whole = list(range(begin, begin + n))
        middle = whole[rule.front + start : rule.front + start + rule.room]
        expected = whole if n <= rule.size else [*whole[: rule.front], *middle, *whole[n - rule.behind :]]
        assert row[real].tolist() == expected
        assert 0 <= int(row.min()) <= int(row.max()) < sum(lengths)


def test_without_a_rule_every_text_is_a_window() -> None:
    """Without a limit there are no windows to cut."""
    windows = plan_windows(torch.tensor([3, 0, 1000]), None)
    assert windows.lengths.tolist() == windows.kept.tolist() == [3, 0, 1000]
    assert windows.last.all()


def test_no_room() -> None:
    """A window that special tokens fill is an error."""
    with pytest.raises(ValueError, match="A window of 2 tokens leaves no room for text beside 2 special ones"):
        WindowRule(2, 1, 1)
    with pytest.raises(ValueError, match="max_length=2 leaves no room for text"):
        BERTScorer(model_path("bert"), num_layers=1, max_length=2, long_text="windows")


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    """Which special tokens stand before and behind a text is found for every family, and ids are those of no limit."""
    own = AutoTokenizer.from_pretrained(model_path(name))
    made = TextTokenizer(own, model_type=name, max_length=10, long_text="windows")
    assert made.window == WindowRule(10, *FRAMES[name])
    own.model_max_length = 10**30
    free, got = TextTokenizer(own, model_type=name)([STORY]), made([STORY])
    assert got.ids.tolist() == free.ids.tolist()
    assert got.lost.tolist() == [0]


def test_frame_that_changes_with_the_text() -> None:
    """A tokenizer that puts other tokens around a text than around nothing cannot be cut into windows."""
    assert _frame([1, 2], [1, 9, 2]) == (1, 1)
    for empty, text in (([], []), ([1], [1]), ([1, 2], [1, 9, 3]), ([1, 2, 3], [1])):
        with pytest.raises(ValueError, match=r"puts the same special tokens around every text; this gives \["):
            _frame(empty, text)


# --- scores ---------------------------------------------------------------------------------------------------------


def windowed(name: str, **more: Any) -> BERTScorer:
    """Return a scorer with windows of 12 tokens."""
    return shared_scorer(name, **{"num_layers": 2, "max_length": 12, "long_text": "windows", **more})


@pytest.mark.parametrize("more", [{}, {"idf": True}, {"num_layers": None, "all_layers": True},
                                  {"match_special_tokens": False}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", FRAMES)
def test_identity_below_the_limit(name: str, more: dict[str, Any]) -> None:
    """Texts up to the limit score exactly as without windows, to the last bit where the batches are the same."""
    texts = ["the cat sat .", "a dog", "", "go go go", "the red table"]
    candidates, references = texts, [[texts[1], texts[3]], [texts[0]], [texts[4]], [""], [texts[0], texts[4]]]
    plain = windowed(name, long_text="truncate", **more).score(candidates, references)
    got = windowed(name, **more).score(candidates, references)
    assert plain.n_truncated == got.n_windows == 0
    assert torch.equal(scores(got), scores(plain))
    # beside a long text the batches are others
    longer = windowed(name, **{**more, "idf": False}).score([*candidates, STORY], [*references, [STORY + " go"]])
    if not more.get("idf"):
        torch.testing.assert_close(scores(longer)[..., :5], scores(plain), atol=TOLERANCE, rtol=0)
    assert longer.n_windows > 0


def encode_alone(scorer: BERTScorer, ids: list[int]) -> Tensor:
    """Return the unit embeddings [layer, token, dim] of one input that is encoded by itself."""
    batch = TokenBatch(torch.tensor([ids]), torch.ones(1, len(ids)).bool(), torch.zeros(1, len(ids)).bool())
    output = scorer.model.encoder.embed(batch)
    return unit(output if output.ndim == 4 else output[None])[:, 0]


@pytest.mark.parametrize("more", [{}, {"num_layers": None, "all_layers": True}], ids=["one layer", "all layers"])
@pytest.mark.parametrize("name", FRAMES)
def test_embeddings_are_those_of_the_windows_alone(name: str, more: dict[str, Any]) -> None:
    """Every token of a long text has the embedding that it has in its best window, encoded by itself."""
    scorer = windowed(name, **more)
    segments = scorer.tokenize([STORY], [SHORT])
    collector = EmbeddingCollector(2**30)
    scorer.match_tokens(segments, collector=collector)
    ids = segments.texts.ids[: int(segments.texts.lengths[0])].tolist()
    front, behind = FRAMES[name]
    rule = WindowRule(12, front, behind)
    plan = naive_plan(len(ids), rule)
    assert len(plan) > 5
    expected = torch.empty_like(collector.rows[0])
    for start, kept in plan:
        window = [*ids[:front], *ids[front + start : front + start + rule.room], *ids[len(ids) - behind :]]
        expected[:, kept] = encode_alone(scorer, window)[:, torch.tensor(kept) - start]
    torch.testing.assert_close(collector.rows[0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", FRAMES)
def test_a_change_after_the_limit(name: str) -> None:
    """It moves the score with windows, and not the one of texts that are cut."""
    changed = STORY.replace("likes bananas", "likes lemons")
    cut, whole = windowed(name, long_text="truncate"), windowed(name)
    assert torch.equal(scores(cut.score([changed], [STORY])), scores(cut.score([STORY], [STORY])))
    got = whole.score([changed, STORY], [STORY, STORY])
    assert (scores(got)[:, 0] < 0.9999).all()
    torch.testing.assert_close(scores(got)[:, 1], torch.ones(3), atol=TOLERANCE, rtol=0)
    assert got.n_truncated == 0


def test_counts_are_those_of_the_whole_text() -> None:
    """Nothing is cut, windows are counted as often as their text is scored, and the last word counts as unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = windowed("bert").score([STORY, SHORT], [[SHORT, STORY], [SHORT]])
    n_tokens = int(shared_scorer("bert", num_layers=2).model.tokenizer([STORY]).lengths)
    assert (result.n_truncated, result.n_windows) == (0, 2 * len(naive_plan(n_tokens, WindowRule(12, 1, 1))))
    unknown = windowed("bert").score([STORY + " ☃"], [STORY])
    assert unknown.unk_share.candidates == pytest.approx(1 / (n_tokens - 1))


def test_idf_counts_whole_texts() -> None:
    """Document frequencies are counted in the whole references, and so are those of texts given for idf."""
    references = [STORY, SHORT, "go"]
    candidates = ["the lemons", "the cat", "go"]
    free = BERTScorer(encoder=HashEncoder(), tokenizer=_unlimited(), idf=True).score(candidates, references)
    for idf in (True, references):
        got = own(idf=idf).score(candidates, references)
        # this encoder looks at single tokens, so windows of any size give what no limit gives
        torch.testing.assert_close(scores(got), scores(free), atol=TOLERANCE, rtol=0)


def _unlimited() -> Any:
    given = AutoTokenizer.from_pretrained(MODELS / "bert")
    given.model_max_length = 10**30
    return given


def own(encoder: HashEncoder | None = None, **more: Any) -> BERTScorer:
    """Return a scorer with a fake encoder and windows of 12 tokens."""
    settings = {"max_length": 12, "long_text": "windows", **more}
    return BERTScorer(encoder=encoder or HashEncoder(), tokenizer=tokenizer(), **settings)


@pytest.mark.parametrize("layers", [1, 3])
def test_windows_share_batches_with_other_texts(layers: int) -> None:
    """Windows are rows like others to the planner; every text is embedded once, and no row is longer than a window."""
    fake = HashEncoder() if layers == 1 else LayeredEncoder()
    result = own(fake, all_layers=layers > 1, batch_size=64).score([STORY, STORY, SHORT], [STORY + " go", SHORT, SHORT])
    assert all(batch.ids.shape[1] <= 12 for batch in fake.batches)
    n_tokens = int(own().model.tokenizer([STORY]).lengths)
    once = [len(naive_plan(n, WindowRule(12, 1, 1))) for n in (n_tokens, n_tokens + 1)]
    assert result.n_windows == 2 * once[0] + once[1]
    n_rows = [len(batch.ids) for batch in fake.batches]
    assert sum(n_rows) == sum(once) + 1
    assert max(n_rows) > once[0]  # windows of two texts together


def test_memory_of_the_device_runs_out() -> None:
    """Too large batches of windows are halved, and the numbers stay."""
    from fakes import SmallMemory

    small = SmallMemory(most_tokens=30)
    got = own(small).score([STORY], [STORY + " go"])
    assert small.refused > 0
    assert torch.equal(scores(got), scores(own().score([STORY], [STORY + " go"])))


def test_progress_counts_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """The progress bar counts texts, not windows, and ends where it should."""
    own(verbose=True).score([STORY, SHORT], [STORY + " go", SHORT])
    assert "3/3" in capsys.readouterr().err


def test_store() -> None:
    """Stored references in windows are not embedded again and give the same scores."""
    fake, store = HashEncoder(), ReferenceCache(2**20)
    scorer = own(fake)
    segments = scorer.tokenize([SHORT], [STORY])
    first = scorer.report(to_columns(scorer.match_tokens(segments, store=store)))
    fake.batches.clear()
    second = scorer.report(to_columns(scorer.match_tokens(segments, store=store)))
    assert fake.n_texts == 1
    assert torch.equal(scores(first), scores(second))
    assert first.n_windows == second.n_windows > 0


words = st.lists(st.sampled_from(STORY.split()), max_size=30).map(" ".join)
corpora = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=2)), min_size=1, max_size=5)


@given(corpora, st.sampled_from(["bert", "xlnet", "llama"]), st.booleans(), st.integers(1, 3), st.integers(1, 9))
@settings(deadline=None, max_examples=25)
def test_a_stream_equals_one_call(corpus: Any, name: str, idf: bool, step: int, batch_size: int) -> None:
    """However texts are split into updates and batches, scores and counts are those of one call."""
    whole = windowed(name, idf=idf).score([c for c, _ in corpus], [r for _, r in corpus])
    stream = BERTScorer.from_config(windowed(name, idf=idf).config, batch_size=batch_size)
    for begin in range(0, len(corpus), step):
        part = corpus[begin : begin + step]
        stream.update([c for c, _ in part], [r for _, r in part])
    result = stream.compute()
    torch.testing.assert_close(scores(result), scores(whole), atol=TOLERANCE, rtol=0)
    assert (result.n_windows, result.unk_share) == (whole.n_windows, whole.unk_share)


# --- limits, real text, memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["modernbert", "llama"])
def test_long_contexts_are_not_cut(name: str) -> None:
    """Without a table of positions the tokenizer's limit holds, however large, and up to it no windows are needed."""
    given = AutoTokenizer.from_pretrained(model_path(name), model_max_length=8192)
    model = AutoModel.from_pretrained(model_path(name))
    made = {
        rule: BERTScorer(model=model, tokenizer=given, num_layers=2, long_text=rule) for rule in ("truncate", "windows")
    }
    text = (STORY + " ") * 20
    results = {rule: scorer.score([text + "go"], [text]) for rule, scorer in made.items()}
    assert made["windows"].model.tokenizer.limit == 8192
    assert int(made["windows"].model.tokenizer([text]).lengths) > 600
    assert results["truncate"].n_truncated == results["windows"].n_windows == 0
    assert torch.equal(scores(results["truncate"]), scores(results["windows"]))
    assert results["truncate"].f1.item() < 1


def test_no_limit_needs_no_windows() -> None:
    """A model without any limit encodes long texts whole, unless `max_length` says otherwise."""
    scorer = shared_scorer("deberta-v3-nomax", num_layers=2, long_text="windows")
    assert scorer.model.tokenizer.window is None
    assert scorer.score([STORY * 5], [STORY]).n_windows == 0
    assert shared_scorer("deberta-v3-nomax", num_layers=2, long_text="windows", max_length=20).score(
        [STORY], [STORY]
    ).n_windows > 0  # fmt: skip


@pytest.mark.skipif(not (DATA / "long").is_dir(), reason="needs the long texts, not part of the project")
def test_long_news() -> None:
    """On pairs of 600 to 1,400 word pieces a change at the end moves the score with windows alone."""
    files = [DATA / "long" / f"long_concat40.{side}.en" for side in ("hyp", "ref")]
    candidates, references = (file.read_text(encoding="utf-8").splitlines()[:1] for file in files)
    changed = [f"{' '.join(candidates[0].split()[:-20])} the bridge was closed because of strong winds"]
    cut, whole = (shared_scorer("minilm", num_layers=5, long_text=rule) for rule in ("truncate", "windows"))
    assert torch.equal(scores(cut.score(changed, references)), scores(cut.score(candidates, references)))
    before, after = whole.score(candidates, references), whole.score(changed, references)
    assert before.f1.item() - after.f1.item() > 1e-4
    assert (before.n_truncated, after.n_truncated) == (0, 0)
    assert before.n_windows > 2


class Largest(TorchDispatchMode):
    """Notes the largest piece of memory that any operation inside gave back."""

    n_bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        output = function(*args, **(kwargs or {}))
        for one in output if isinstance(output, tuple | list) else [output]:
            if isinstance(one, Tensor):
                self.n_bytes = max(self.n_bytes, one.untyped_storage().nbytes())
        return output


def test_memory_is_bounded() -> None:
    """A text of 200,000 tokens takes its own embeddings and ids, and beside them no more than short ones do."""
    fake = HashEncoder()
    scorer = own(fake, max_length=64)
    segments = scorer.tokenize(["the cat " * 100_000], ["the old chef " * 300])
    n_tokens = int(segments.texts.lengths.sum())
    assert n_tokens > 200_000
    with Largest() as seen:
        matches = scorer.match_tokens(segments)
    embeddings = 4 * fake.dim * n_tokens
    assert seen.n_bytes <= max(embeddings, matching._GROUP_BYTES)
    assert embeddings < update.EMBEDDING_BYTES
    similarities = 4 * segments.texts.lengths.prod().item()
    assert similarities > 40 * matching._GROUP_BYTES
    assert max(batch.ids.numel() for batch in fake.batches) <= 2048
    result = scorer.report(to_columns(matches))
    assert result.n_windows == sum(-(-(n - 64) // 31) + 1 for n in segments.texts.lengths.tolist())
    tables = unit(fake.table[scorer.model.tokenizer(["the cat", "the old chef"]).ids.long()])
    expected = (tables[1:3] @ tables[5:8].T).max(1).values.mean()  # precision, of "the" and "cat"
    assert result.precision.item() == pytest.approx(float(expected), abs=1e-3)
