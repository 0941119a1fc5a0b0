"""`BERTScorer` and `score`: streaming, own models and encoders, what is embedded how often, and errors."""

import copy
import math
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import MODELS, TOLERANCE, model_path, shared_scorer
from fakes import HashEncoder, LayeredEncoder, SmallMemory
from transformers import AutoModel, AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreWarning, ScoreConfig, score, scorer, update
from bertscore_metric.core import batches
from bertscore_metric.models import encoder
from bertscore_metric.models import tokenizer as tokens
from bertscore_metric.state import stream

CANDIDATES = ["the cat sat on the red table.", "I like lemons.", "Go go go.", "a dog"]
REFERENCES = ["a dog sat on the red table.", "I love lemons.", "Numbers: 0 1 2 3, is it?", "the dog walked past"]


def tokenizer(name: str = "bert") -> Any:
    """Return a tiny model's tokenizer."""
    return AutoTokenizer.from_pretrained(model_path(name))


def own(fake: Any, **settings: Any) -> BERTScorer:
    """Return a scorer around a fake encoder."""
    return BERTScorer(encoder=fake, tokenizer=tokenizer(), **settings)


def columns(result: Any) -> torch.Tensor:
    """Return P, R, F1 as one tensor."""
    return torch.stack(list(result))


def same(a: Any, b: Any) -> None:
    """Compare two results within the project's tolerance."""
    torch.testing.assert_close(columns(a), columns(b), atol=TOLERANCE, rtol=0)


def test_score_is_the_one_shot_form() -> None:
    """`score` and `BERTScorer.score` and a stream give the same."""
    whole = score(CANDIDATES, REFERENCES, model_path("bert"), num_layers=2)
    streamed = BERTScorer(model_path("bert"), num_layers=2)
    streamed.update(CANDIDATES, REFERENCES)
    same(whole, shared_scorer("bert", num_layers=2).score(CANDIDATES, REFERENCES))
    same(whole, streamed.compute())


def test_score_leaves_the_stream_alone(tiny: BERTScorer) -> None:
    """A one-shot call in the middle of a stream is not part of it."""
    tiny.update(CANDIDATES[:2], REFERENCES[:2])
    tiny.score(CANDIDATES, REFERENCES)
    assert tiny.compute().n_segments == 2


def test_compute_twice_and_go_on(tiny: BERTScorer) -> None:
    """`compute` can be called again, and updates may follow."""
    tiny.update(CANDIDATES[:2], REFERENCES[:2])
    same(tiny.compute(), tiny.compute())
    tiny.update(CANDIDATES[2:], REFERENCES[2:])
    same(tiny.compute(), shared_scorer("bert", num_layers=2).score(CANDIDATES, REFERENCES))


def test_reset_forgets(tiny: BERTScorer) -> None:
    """After `reset` nothing of the old stream is left."""
    tiny.update(CANDIDATES, REFERENCES)
    tiny.reset()
    tiny.update(CANDIDATES[:1], REFERENCES[:1])
    assert tiny.compute().n_segments == 1


def test_no_segments(tiny: BERTScorer) -> None:
    """Nothing to score is an empty result with NaN means and a warning, in both forms."""
    tiny.update([], [])
    for run in (tiny.compute, lambda: tiny.score([], [])):
        with pytest.warns(BERTScoreWarning, match="No segments were scored; the means are NaN"):
            result = run()
        assert [len(column) for column in result] == [0, 0, 0]
        assert result.mean.f1 != result.mean.f1


def test_merge_needs_the_same_settings(tiny: BERTScorer) -> None:
    """Streams of different settings are not mixed."""
    with pytest.raises(ValueError, match=r"Cannot merge scores of different settings:\n  .*layer:2.*\n  .*layer:3"):
        tiny.merge(BERTScorer(model_path("bert"), num_layers=3))


@pytest.mark.parametrize("bad", [None, 3, float("nan"), b"bytes", "\ud800"])
def test_rejected_update_changes_nothing(tiny: BERTScorer, bad: Any) -> None:
    """An update with a bad text leaves the stream as it was, whatever came before it in the same call."""
    tiny.update(CANDIDATES[:2], REFERENCES[:2])
    with pytest.raises((TypeError, ValueError), match=r"candidates\[1\]"):
        tiny.update([CANDIDATES[2], bad], REFERENCES[2:])
    assert tiny.compute().n_segments == 2


def test_out_of_memory_update_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that runs out of memory leaves the stream as it was, and can be repeated."""
    monkeypatch.setattr(stream, "FULL_BYTES", 1)
    fake = SmallMemory(most_tokens=100)
    metric = own(fake)
    metric.update(CANDIDATES[:2], REFERENCES[:2])
    fake.most_tokens = 1
    with pytest.raises(torch.OutOfMemoryError, match=r"A text does not fit into the memory .* candidate \d"):
        metric.update(CANDIDATES[2:], REFERENCES[2:])
    fake.most_tokens = 100
    metric.update(CANDIDATES[2:], REFERENCES[2:])
    same(metric.compute(), own(HashEncoder()).score(CANDIDATES, REFERENCES))


def test_text_that_does_not_fit_is_named() -> None:
    """The side, the number and the beginning of a text that does not fit are in the message, also within a group."""
    long = "the red table " * 12
    for candidates, references, where in (
        (["a", long], ["a dog", "a cat"], "candidate 1 (of 2 that are scored together, counted from 0)"),
        (["a", "the cat"], ["a dog", long], "reference of candidate 1 (of 2 that"),
        (["a", "the cat", "b"], [["a"], ["a dog", "go", long], ["c"]], "reference 2 of candidate 1 (of 3 that"),
        ([long, long], ["a", long], "candidate 0 (of 2 that"),
    ):
        with pytest.raises(torch.OutOfMemoryError) as error:
            own(SmallMemory(most_tokens=20)).score(candidates, references)
        message = str(error.value)
        assert message.startswith(f"A text does not fit into the memory of the encoder's device: {where}")
        assert re.search(r", \d\d tokens, which begins 'the red table the red.*'\. Lower max_length, or use", message)
        assert message.endswith("(CUDA out of memory. Tried to allocate 2.00 GiB.)")


def test_out_of_memory_halves_the_batch() -> None:
    """A batch that does not fit is halved until it does, and the numbers stay the same."""
    fake = SmallMemory(most_tokens=24)
    same(own(fake).score(CANDIDATES, REFERENCES), own(HashEncoder()).score(CANDIDATES, REFERENCES))
    assert fake.refused > 0
    assert fake.n_texts == 8


@pytest.mark.filterwarnings("ignore:.*precision and recall above 0:bertscore_metric.BERTScoreWarning")  # random vectors
def test_every_distinct_text_is_embedded_once() -> None:
    """Repeated texts, and candidates that are also references, cost nothing, also across a call's chunks."""
    fake = HashEncoder()
    texts = ["the cat", "a dog", "I like lemons.", "Go"]
    result = own(fake).score([a for a in texts for _ in texts], texts * 4)
    assert fake.n_texts == 4
    assert result.n_segments == 16


@pytest.mark.filterwarnings("ignore:.*precision and recall above 0:bertscore_metric.BERTScoreWarning")  # random vectors
def test_every_distinct_text_is_embedded_once_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that a later chunk needs again is kept, within the budget."""
    texts = ["the cat", "a dog", "I like lemons.", "Go go", "the old chef found two bananas."]
    pairs = [a for a in texts for _ in texts], texts * 5
    expected = own(HashEncoder()).score(*pairs)
    monkeypatch.setattr(update, "EMBEDDING_BYTES", 4 * 16 * 20)  # twenty tokens, so a pair or two a chunk
    fake = HashEncoder()
    same(own(fake).score(*pairs), expected)
    assert fake.n_texts == 5
    monkeypatch.setattr(update, "KEPT_BYTES", 0)
    forgetful = HashEncoder()
    same(own(forgetful).score(*pairs), expected)
    assert forgetful.n_texts > 5


def test_memory_does_not_grow_with_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs a call has, a chunk's embeddings stay within the byte budget."""
    monkeypatch.setattr(update, "EMBEDDING_BYTES", 4 * 16 * 64)
    sizes = []
    match_pairs = update.match_pairs

    def watch(embeddings: torch.Tensor, *rest: Any) -> Any:
        sizes.append(embeddings.nbytes)
        return match_pairs(embeddings, *rest)

    monkeypatch.setattr(update, "match_pairs", watch)
    own(HashEncoder()).score([f"the cat {n}" for n in range(50)], [f"a dog {n}" for n in range(50)])
    assert len(sizes) > 5
    assert max(sizes) <= 4 * 16 * 64


def test_small_updates_wait_for_a_full_batch() -> None:
    """Updates of one pair are gathered and encoded together."""
    fake = HashEncoder()
    metric = own(fake)
    for candidate, reference in zip(CANDIDATES, REFERENCES, strict=True):
        metric.update([candidate], [reference])
    assert fake.batches == []
    metric.compute()
    assert len(fake.batches) <= 3


def test_batch_size_is_obeyed() -> None:
    """No batch has more texts than asked for."""
    fake = HashEncoder()
    own(fake, batch_size=2).score(CANDIDATES, REFERENCES)
    assert max(len(batch.ids) for batch in fake.batches) == 2
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        own(HashEncoder(), batch_size=0)
    with pytest.raises(TypeError, match="batch_size must be an int, got str"):
        own(HashEncoder(), batch_size="many")


def test_batches_are_planned_longest_first() -> None:
    """The longest texts come first, so that running out of memory shows at once."""
    fake = HashEncoder()
    own(fake).score(CANDIDATES, REFERENCES)
    lengths = [batch.ids.shape[1] for batch in fake.batches]
    assert lengths == sorted(lengths, reverse=True)


def test_token_batch_shapes() -> None:
    """An encoder gets int64 ids and two bool masks of the same shape."""
    fake = HashEncoder()
    own(fake, batch_size=8).score(["the cat sat", "Go"], ["a dog", "I like lemons."])
    for batch in fake.batches:
        assert batch.ids.dtype == torch.int64
        assert batch.attention_mask.dtype == batch.special_tokens_mask.dtype == torch.bool
        assert batch.ids.shape == batch.attention_mask.shape == batch.special_tokens_mask.shape
        assert (batch.special_tokens_mask.sum(1) >= 2).all()


def test_own_encoder_that_returns_nonsense() -> None:
    """A tensor of the wrong shape is an error that says which shape is expected."""

    class Pooled(HashEncoder):
        def embed(self, tokens: Any) -> torch.Tensor:
            return super().embed(tokens).mean(1)

    with pytest.raises(
        ValueError, match=r"returned a tensor of shape \(1, 16\) for ids of shape .* \[text, token, dim\]"
    ):
        own(Pooled(), batch_size=1).score(["Go"], ["Go"])


def test_own_encoder_that_returns_nan() -> None:
    """Embeddings that are not finite are an error, never a 0."""

    class Broken(HashEncoder):
        def embed(self, tokens: Any) -> torch.Tensor:
            return super().embed(tokens) / 0

    with pytest.raises(ValueError, match="embeddings that are not finite"):
        own(Broken()).score(["Go"], ["Go"])


def test_own_encoder_in_the_signature() -> None:
    """The signature names the encoder's class and its fingerprint."""
    signature = own(HashEncoder()).signature
    assert (signature["model"], signature["weights"], signature["layer"]) == ("HashEncoder", "hash-encoder", "own")


def test_own_encoder_with_layers() -> None:
    """A custom encoder may return several layers, and each is scored."""
    result = own(LayeredEncoder(), all_layers=True).score(CANDIDATES, REFERENCES)
    assert result.f1.shape == (3, 4)
    assert result.best_reference.shape == (3, 4)
    assert len(result.mean.f1) == 3  # type: ignore[arg-type]
    torch.testing.assert_close(result.f1[0], own(HashEncoder()).score(CANDIDATES, REFERENCES).f1)
    with pytest.raises(ValueError, match="all_layers with your own encoder= needs its num_layers"):
        own(HashEncoder(), all_layers=True)
    with pytest.raises(ValueError, match="returned 3 layers where 1 was expected"):
        own(LayeredEncoder()).score(CANDIDATES, REFERENCES)


def test_own_encoder_names_its_special_ids() -> None:
    """Ids that an encoder calls special weigh nothing."""
    cat = tokenizer().convert_tokens_to_ids("cat")

    class NoCats(HashEncoder):
        special_ids = frozenset({2, 3, cat})

    with pytest.warns(BERTScoreWarning, match="1 of 2 segments are empty"):
        result = own(NoCats()).score(["cat", "the cat"], ["cat", "the dog"])
    assert result.f1[0] == 0
    assert result.precision[1].item() == pytest.approx(1)


def test_what_an_encoder_needs() -> None:
    """Something without `embed` or `fingerprint` is refused in words, and so is a missing tokenizer."""
    with pytest.raises(TypeError, match=r"needs a method embed.*fingerprint \(str\), which object lacks"):
        BERTScorer(encoder=object(), tokenizer=tokenizer())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"takes an object, got the class HashEncoder; make one of it: HashEncoder\(\)"):
        BERTScorer(encoder=HashEncoder, tokenizer=tokenizer())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="encoder= needs tokenizer="):
        BERTScorer(encoder=HashEncoder())
    with pytest.raises(ValueError, match="your own encoder= has chosen its layer"):
        own(HashEncoder(), num_layers=3)
    with pytest.raises(ValueError, match="model_name_or_path and encoder each name a model"):
        BERTScorer("offline", encoder=HashEncoder(), tokenizer=tokenizer())


def test_a_model_or_a_language_must_be_named() -> None:
    """Without either the message names both, and the model that needs no network."""
    with pytest.raises(ValueError, match=r"Name a model .*'offline'.* or a language \(lang='en'\)"):
        BERTScorer()


@pytest.mark.parametrize("name", ["bert", "albert", "bart", "t5", "gpt2", "roberta", "xlnet", "modernbert"])
def test_model_object(name: str) -> None:
    """A model object scores like its folder, and is neither cut, moved nor switched to eval."""
    model = AutoModel.from_pretrained(model_path(name)).train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    layers = copy.deepcopy(model.config.to_dict())
    made = BERTScorer(model=model, tokenizer=tokenizer(name), num_layers=2)
    same(made.score(CANDIDATES, REFERENCES), shared_scorer(name, num_layers=2).score(CANDIDATES, REFERENCES))
    assert model.training
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.config.to_dict() == layers
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[key], before[key]) for key in before)


def test_model_object_is_a_snapshot() -> None:
    """Training on does not change what a scorer measures with, and gives a new signature to a new scorer."""
    model = AutoModel.from_pretrained(MODELS / "bert")
    made = BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2)
    first = made.score(CANDIDATES, REFERENCES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    same(made.score(CANDIDATES, REFERENCES), first)
    again = BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2)
    assert again.signature["weights"] != made.signature["weights"]
    assert not torch.allclose(again.score(CANDIDATES, REFERENCES).f1, first.f1)


def test_tokenizer_object_is_left_alone() -> None:
    """A tokenizer passed in keeps its settings."""
    given = tokenizer()
    given.truncation_side = "left"
    before = given.backend_tokenizer.to_str()
    own_scorer = BERTScorer(model=AutoModel.from_pretrained(MODELS / "bert"), tokenizer=given, num_layers=2)
    with pytest.warns(BERTScoreWarning, match="longer"):
        own_scorer.score(["the cat " * 100], ["the cat " * 100])
    assert given.truncation_side == "left"
    assert given.backend_tokenizer.to_str() == before


def test_encoders_are_shared_in_the_process() -> None:
    """Two scorers with equal model settings hold one encoder; other layers or types are others."""
    first, second = (BERTScorer(model_path("bert"), num_layers=2, idf=idf) for idf in (False, True))
    assert first.model.encoder is second.model.encoder
    assert BERTScorer(model_path("bert"), num_layers=3).model.encoder is not first.model.encoder
    assert BERTScorer(model_path("bert"), num_layers=2, dtype="bfloat16").model.encoder is not first.model.encoder


def test_release_encoders() -> None:
    """Repeated `score` calls load once, and `release_encoders` lets the memory go."""
    import gc
    import weakref

    settings = {"num_layers": 3, "dtype": "float16"}  # no other test's
    score(CANDIDATES, REFERENCES, model_path("longformer"), **settings)
    kept = weakref.ref(encoder._latest[0])
    score(CANDIDATES, REFERENCES, model_path("longformer"), **settings)
    assert encoder._latest[0] is kept()
    encoder.release_encoders()
    gc.collect()
    assert kept() is None


def test_threads_share_an_encoder() -> None:
    """Scorers in several threads give the numbers of one."""
    expected = shared_scorer("bert", num_layers=2).score(CANDIDATES, REFERENCES)
    results: list[Any] = []

    def work() -> None:
        results.extend(shared_scorer("bert", num_layers=2).score(CANDIDATES, REFERENCES) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        same(result, expected)


def test_fixed_idf_of_texts_and_mapping() -> None:
    """idf counted in other texts, and the same table given as a mapping, score alike."""
    from bertscore_metric.core.weighting import document_frequencies, inverse_document_frequencies

    texts = ["the cat sat on the red table.", "the dog looked at the red table.", "I love lemons."]
    counted = BERTScorer(model_path("bert"), num_layers=2, idf=texts)
    tokens = counted.model.tokenizer(texts)
    table = inverse_document_frequencies(document_frequencies(tokens.ids.long(), tokens.lengths))
    mapped = BERTScorer(model_path("bert"), num_layers=2, idf=table)
    same(counted.score(CANDIDATES, REFERENCES), mapped.score(CANDIDATES, REFERENCES))
    assert counted.signature["idf"] == mapped.signature["idf"] == table.fingerprint


def test_mapping_without_a_weight_is_an_error_before_any_model_work() -> None:
    """A token without a weight and no default is named, and the stream stays as it was."""
    fake = HashEncoder()
    metric = own(fake, idf={2: 0.0, 3: 0.0})
    with pytest.raises(ValueError, match=r"no weight for token id \d+ and no default; give it one"):
        metric.update(CANDIDATES, REFERENCES)
    assert fake.batches == []
    with pytest.warns(BERTScoreWarning, match="No segments"):
        assert metric.compute().n_segments == 0


def test_mapping_weighs_special_tokens_as_it_says() -> None:
    """A mapping may give [CLS] and [SEP] a weight, which no other setting does."""
    flat = dict.fromkeys(range(300), 1.0)
    with_specials = own(HashEncoder(), idf=flat).score(["the cat"], ["a cat"])
    without = own(HashEncoder(), idf={**flat, 2: 0.0, 3: 0.0}).score(["the cat"], ["a cat"])
    plain = own(HashEncoder()).score(["the cat"], ["a cat"])
    same(without, plain)
    assert with_specials.f1.item() > plain.f1.item()  # [CLS] and [SEP] match perfectly under the fake


def test_match_special_tokens() -> None:
    """Without special tokens in the matching a token that preferred [SEP] has to take another."""
    on, off = (BERTScorer(model_path("bert"), num_layers=2, match_special_tokens=flag) for flag in (True, False))
    matched, alone = on.score(CANDIDATES, REFERENCES), off.score(CANDIDATES, REFERENCES)
    assert (matched.precision >= alone.precision - TOLERANCE).all()
    assert (matched.precision > alone.precision + 1e-4).any()
    assert on.signature["special"] == "match"
    assert off.signature["special"] == "skip"


def test_empty_skip() -> None:
    """`empty="skip"` leaves empty segments out of the mean and still counts them."""
    counted, skipped = (BERTScorer(model_path("bert"), num_layers=2, empty=rule) for rule in ("score", "skip"))
    pairs = ["the cat", ""], ["the cat", "a dog"]
    with pytest.warns(BERTScoreWarning, match="1 of 2 segments are empty"):
        with_zero, without = counted.score(*pairs), skipped.score(*pairs)
    assert with_zero.mean.f1 == pytest.approx(0.5)
    assert without.mean.f1 == pytest.approx(1.0)
    assert without.n_empty == with_zero.n_empty == 1
    assert without.n_segments == 2
    with pytest.warns(BERTScoreWarning, match="1 of 1 segments are empty"):
        assert math.isnan(skipped.score([""], ["x"]).mean.f1)  # type: ignore[arg-type]


def test_unknown_tokens_are_counted() -> None:
    """The share of unknown tokens is reported per side; above a tenth there is a warning."""
    with pytest.warns(BERTScoreWarning, match="of the tokens of the candidates are unknown to the model"):
        result = shared_scorer("bert", num_layers=2).score(["ꙮ ꙮ the cat"], ["the cat"])
    assert result.unk_share.candidates == pytest.approx(0.5)
    assert result.unk_share.references == 0


def test_max_length_is_never_above_the_models_own() -> None:
    """A larger max_length is reduced to the model's limit with a warning each time; the signature has what is used."""
    for _ in range(2):
        with pytest.warns(BERTScoreWarning, match="max_length=1000 is above the model's own limit; using 64") as caught:
            made = BERTScorer(model_path("bert"), num_layers=2, max_length=1000)
        assert caught[0].filename == __file__
        assert made.signature["maxlen"] == "64"
    short = BERTScorer(model_path("bert"), num_layers=2, max_length=4)
    with pytest.warns(BERTScoreWarning, match="2 texts are longer than the limit of 4 tokens; 6 tokens"):
        result = short.score(["the cat sat on"], ["the cat walked past it"])
    assert result.f1.item() == pytest.approx(1)
    with pytest.raises(ValueError, match="max_length=2 leaves no room for text: 2 special tokens"):
        BERTScorer(model_path("bert"), num_layers=2, max_length=2)


def test_long_text_error() -> None:
    """`long_text="error"` refuses a text that is too long, before any model work and without changing the stream."""
    fake = HashEncoder()
    metric = own(fake, long_text="error", max_length=8)
    metric.update(["the cat"], ["the cat"])
    with pytest.raises(ValueError, match="a text of 12 tokens, and the limit is 8: 'the cat the cat"):
        metric.update(["the cat " * 5], ["the cat"])
    assert metric.compute().n_segments == 1


def test_layer_is_checked() -> None:
    """A layer above the depth names the range."""
    with pytest.raises(ValueError, match=r"num_layers=9, but bert has 4 layers \(0 to 4\)"):
        BERTScorer(model_path("bert"), num_layers=9)
    with pytest.raises(ValueError, match=r"num_layers=9, but the bert model has 4 layers"):
        BERTScorer(model=AutoModel.from_pretrained(MODELS / "bert"), tokenizer=tokenizer(), num_layers=9)


def test_unknown_model_takes_seven_tenths_of_its_depth() -> None:
    """A model that no table knows warns once and says how to choose better."""
    with pytest.warns(BERTScoreWarning, match="No layer is known to be best for bart; using 3 of 4"):
        assert BERTScorer(model_path("bart")).signature["layer"] == "3"


def test_offline_model_uses_layer_six() -> None:
    """The embedded model has a layer of its own in the table, under each of its names."""
    for name in ("offline", "sentence-transformers/all-MiniLM-L6-v2"):
        signature = BERTScorer(name).signature
        assert (signature["layer"], signature["model"]) == ("6", "sentence-transformers/all-MiniLM-L6-v2")


def test_unknown_setting() -> None:
    """A mistyped setting names the nearest one."""
    with pytest.raises(ValueError, match="Unknown setting 'num_layer'; did you mean 'num_layers'"):
        BERTScorer("offline", num_layer=5)


def test_device() -> None:
    """Devices are accepted in torch's spellings, and an unknown one is said."""
    assert BERTScorer(model_path("bert"), num_layers=1, device="cpu").device == torch.device("cpu")
    assert BERTScorer(model_path("bert"), num_layers=1, device=torch.device("cpu")).device == torch.device("cpu")
    with pytest.raises(ValueError, match="Unknown device 'gpu'; use 'cpu', 'cuda'"):
        BERTScorer(model_path("bert"), device="gpu")
    beyond = torch.cuda.device_count()
    for device in (beyond, str(beyond), f"cuda:{beyond}"):
        with pytest.raises(ValueError, match=rf"There is no device {device!r} here: {beyond} GPUs.*; use 'cpu'"):
            BERTScorer(model_path("bert"), device=device)


def test_from_config() -> None:
    """A config gives the scorer that its settings give."""
    config = ScoreConfig(model_name_or_path=model_path("bert"), num_layers=2, idf=True)
    assert (
        BERTScorer.from_config(config, batch_size=4).signature
        == shared_scorer("bert", num_layers=2, idf=True).signature
    )


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    """`verbose` shows a bar on stderr, and nothing is ever printed otherwise."""
    BERTScorer(model_path("bert"), num_layers=2).score(CANDIDATES, REFERENCES)
    assert capsys.readouterr() == ("", "")
    BERTScorer(model_path("bert"), num_layers=2, verbose=True).score(CANDIDATES, REFERENCES)
    output = capsys.readouterr()
    assert output.out == ""
    assert "8/8" in output.err


def test_batch_rules() -> None:
    """Batches are planned for the device: larger ones where a GPU has to be filled."""
    assert batches.batch_rule("cuda").max_tokens > batches.batch_rule("cpu").max_tokens


def test_a_checkpoint_that_is_saved_again(tmp_path: Path) -> None:
    """A folder that training saves anew is loaded anew, under its new identity."""
    model = AutoModel.from_pretrained(MODELS / "bert")
    folder = tmp_path / "checkpoint"
    for part in (model, tokenizer()):
        part.save_pretrained(folder)
    first = score(CANDIDATES, REFERENCES, str(folder), num_layers=2)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.mul_(-0.5).add_(0.1)
    model.save_pretrained(folder)
    second = score(CANDIDATES, REFERENCES, str(folder), num_layers=2)
    assert not torch.allclose(first.f1, second.f1)
    assert first.signature["weights"] != second.signature["weights"]
    same(second, BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2).score(CANDIDATES, REFERENCES))


def test_a_relative_folder_in_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same relative path from another folder is another model."""
    for place, name in (("a", "bert"), ("b", "distilbert")):
        shutil.copytree(MODELS / name, tmp_path / place / "checkpoint")
        monkeypatch.chdir(tmp_path / place)
        got = score(CANDIDATES, REFERENCES, "checkpoint", num_layers=2)
        same(got, shared_scorer(name, num_layers=2).score(CANDIDATES, REFERENCES))


def test_identity_of_a_model() -> None:
    """A name and an object of the same model compare; another weight, norm or role of a token do not."""
    by_name = shared_scorer("bert", num_layers=2).signature
    model = AutoModel.from_pretrained(MODELS / "bert")
    by_object = BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2)
    assert by_object.signature.comparable_to(by_name)
    by_object.merge(shared_scorer("bert", num_layers=2))
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[7, 3] += 3
    assert not BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2).signature.comparable_to(by_name)
    model = AutoModel.from_pretrained(MODELS / "bert", layer_norm_eps=0.1)
    assert not BERTScorer(model=model, tokenizer=tokenizer(), num_layers=2).signature.comparable_to(by_name)
    other = tokenizer()
    other.sep_token = "[MASK]"
    model = AutoModel.from_pretrained(MODELS / "bert")
    assert not BERTScorer(model=model, tokenizer=other, num_layers=2).signature.comparable_to(by_name)


def test_idf_of_texts_and_as_a_table_agree_on_special_tokens() -> None:
    """What is counted in texts weighs special tokens 0 also where a text spells one out, and so does its table."""
    texts = ["the cat", "a dog <|endoftext|>"]
    counted = BERTScorer(model_path("gpt2"), num_layers=2, idf=texts)
    table = counted._idf
    assert table is not None
    assert table[0] == 0
    pairs = ["the cat <|endoftext|>", "a dog"], ["the cats", "the <|endoftext|> dog"]
    same(counted.score(*pairs), BERTScorer(model_path("gpt2"), num_layers=2, idf=table).score(*pairs))


def test_threads_leave_the_settings_of_torch() -> None:
    """Scorers in several threads, with long texts and streams, lose nothing and leave torch as it was."""
    before = torch.get_default_dtype(), torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    stream = own(HashEncoder())
    short, long = (BERTScorer(model_path("bert"), num_layers=1, max_length=n) for n in (6, 60))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                for made in (short, long):
                    tokens = made.tokenize(["the cat " * 50], ["a dog"])
                    assert int(tokens.texts.lengths.max()) == made.model.tokenizer.limit
                stream.update(["the cat"], ["a dog"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert stream.compute().n_segments == 40
    assert (torch.get_default_dtype(), torch.backends.mkldnn.matmul.fp32_precision) == before  # type: ignore[attr-defined]


def test_own_encoder_that_does_not_say_its_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a chunk is planned by the real size of an embedding, which the encoder need not name."""
    sizes = []
    match_pairs = update.match_pairs

    def watch(embeddings: torch.Tensor, *rest: Any) -> Any:
        sizes.append(embeddings.nbytes)
        return match_pairs(embeddings, *rest)

    class Wide(HashEncoder):
        dim = None  # type: ignore[assignment]

        def embed(self, tokens: Any) -> torch.Tensor:
            return super().embed(tokens).repeat(1, 1, 100)

    monkeypatch.setattr(update, "match_pairs", watch)
    monkeypatch.setattr(update, "EMBEDDING_BYTES", 4 * 1600 * 32)
    own(Wide()).score([f"the cat {n}" for n in range(20)], [f"a dog {n}" for n in range(20)])
    assert max(sizes) <= 4 * 1600 * 32


def test_out_of_memory_on_a_cpu() -> None:
    """A text that a CPU cannot hold is named like one that a GPU cannot."""

    class Huge(HashEncoder):
        def embed(self, tokens: Any) -> torch.Tensor:
            return torch.empty(2**50)

    with pytest.raises(torch.OutOfMemoryError, match=r"A text does not fit .*: candidate 0 \(of 1 .* 3 tokens"):
        own(Huge(), batch_size=1).score(["Go"], ["Go"])


def test_warnings_name_the_caller() -> None:
    """A warning points to the line that asked for the score, in every form."""
    made = shared_scorer("bert", num_layers=2)
    for run in (lambda: made.score([""], ["a"]), lambda: score([""], ["a"], model_path("bert"), num_layers=2)):
        with pytest.warns(BERTScoreWarning, match="1 of 1") as caught:
            run()
        assert caught[0].filename == __file__


def test_raw_scores_are_their_own() -> None:
    """Changing the scores in place leaves the raw ones."""
    result = shared_scorer("bert", num_layers=2).score(CANDIDATES, REFERENCES)
    result.f1.zero_()
    assert result.raw.f1.sum() > 0


def test_large_calls_on_a_gpu_are_tokenized_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a call are tokenized in another thread while the encoder works, and the scores stay the same."""
    tokenizing: list[tuple[str, int]] = []
    plain = scorer.tokenize_segments

    def noted(segments: Any, tokenizer: Any) -> Any:
        tokenizing.append((threading.current_thread().name, len(segments)))
        return plain(segments, tokenizer)

    monkeypatch.setattr(scorer, "_PIECE", 2)
    monkeypatch.setattr(tokens, "tokenize_segments", noted)
    many, groups = [*CANDIDATES, "Go"], [*([text] for text in REFERENCES), ["a dog", "Go go"]]
    for idf in (False, True):
        made = own(HashEncoder(), idf=idf)
        whole = made.score(many, groups)
        assert tokenizing == []
        made.device = torch.device("cuda")  # as far as planning goes
        pieces = made.score(many, groups)
        assert [size for _, size in tokenizing] == [2, 2, 1]
        assert all(name.startswith("tokenize") for name, _ in tokenizing)
        torch.testing.assert_close(pieces.f1, whole.f1, rtol=0, atol=TOLERANCE)
        assert pieces.best_reference.tolist() == whole.best_reference.tolist()
        tokenizing.clear()
        with pytest.raises(TypeError, match=r"candidates\[1\]"):
            made.score(["a", 3, "b"], ["a", "b", "c"])
        assert tokenizing == []
