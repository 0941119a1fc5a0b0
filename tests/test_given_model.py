"""Model objects as people hold them: wrapped, patched, hooked, offloaded, pruned; what is not a model is a sentence."""

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import MODELS, TOLERANCE, shared_scorer
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, BertModel, pipeline

from bertscore_metric import BERTScorer, TokenBatch
from bertscore_metric.models import encoder
from bertscore_metric.models.given_model import plain_copy, plain_model

TEXTS = ["the cat sat on the red table.", "Go"], ["a dog looked at two bananas", "the cat"]
LAYER = 2


def load() -> Any:
    """Return the tiny BERT, in training mode as a loop holds it."""
    return AutoModel.from_pretrained(MODELS / "bert").train()


def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODELS / "bert")


def scorer_of(model: Any, **settings: Any) -> BERTScorer:
    return BERTScorer(model=model, tokenizer=tokenizer(), **{"num_layers": LAYER, **settings})


def right(name: str = "bert") -> list[float]:
    """Return the scores of the model loaded by its name."""
    return shared_scorer(name, num_layers=LAYER).score(*TEXTS).f1.tolist()


def f1(scorer: BERTScorer) -> Any:
    return pytest.approx(scorer.score(*TEXTS).f1.tolist(), abs=TOLERANCE)


def portrait(model: nn.Module) -> list[Any]:
    """Return everything about a model that its owner may see: by module, attributes, hooks, weights and their flags."""
    seen: list[Any] = []
    for name, module in model.named_modules():
        seen.append((name, type(module), module.training, {key: id(value) for key, value in vars(module).items()}))
        seen += [(key, list(hooks)) for key, hooks in vars(module).items() if isinstance(hooks, dict)]
        seen.append([(key, id(child)) for key, child in module._modules.items()])
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        values = None if tensor.is_meta else tensor.detach().double().sum().item()
        seen.append((name, id(tensor), tensor.requires_grad, tensor.device, tensor.dtype, values))
    return seen


def train(model: nn.Module) -> None:
    """Change every weight, as training does."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_meta:
                parameter.mul_(1.3)


def checked_against_name(model: Any, inner: nn.Module | None = None) -> BERTScorer:
    """Score as by name; the owner's model stays as it is, and what its owner does later does not matter."""
    watched = model if inner is None else inner
    before = portrait(watched)
    scorer = scorer_of(model)
    assert f1(scorer) == right()
    assert portrait(watched) == before
    train(watched)
    assert f1(scorer) == right()
    again = pickle.loads(pickle.dumps(scorer.model.encoder))
    mask = torch.ones(1, 5, dtype=torch.bool)
    ids = TokenBatch(torch.arange(5)[None], mask, ~mask)
    torch.testing.assert_close(again.embed(ids), scorer.model.encoder.embed(ids))
    return scorer


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "compile": lambda forward: torch.compile(forward, backend="eager"),
    "no_grad": lambda forward: torch.no_grad()(forward),
    "autocast": lambda forward: torch.autocast("cpu", torch.bfloat16)(forward),
    "closure": lambda forward: lambda *args, **kwargs: forward(*args, **kwargs),
}


@pytest.mark.parametrize("where", ["", "encoder", "encoder.layer.0", "encoder.layer.1.attention.self", "embeddings"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_forward(wrapper: str, where: str) -> None:
    """A function set on the model, or on a part of it, is bound to the owner's model and has no place in a copy."""
    model = load()
    part = model.get_submodule(where)
    part.forward = WRAPPERS[wrapper](part.forward)
    checked_against_name(model)


def test_the_signature_is_that_of_the_name() -> None:
    """The same weights have the same identity, whatever is around them."""
    model = load()
    model.forward = torch.no_grad()(model.forward)
    model.encoder = torch.compile(model.encoder, backend="eager")
    expected = shared_scorer("bert", num_layers=LAYER).signature["weights"]
    assert scorer_of(model).signature["weights"] == expected
    assert scorer_of(nn.DataParallel(model)).signature["weights"] == expected


def test_hooks_neither_fire_nor_act() -> None:
    """Hooks of every kind stay with the owner's model."""
    model = load()
    calls: list[str] = []

    def noted(kind: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            calls.append(kind)

        return hook

    for module in (model.pooler.dense, model.encoder.layer[0].output.dense, model.encoder.layer[1].output.dense):
        module.register_forward_pre_hook(noted("pre"))
        module.register_full_backward_hook(noted("backward"))
        module.register_state_dict_post_hook(noted("state dict"))
        module.register_state_dict_pre_hook(noted("state dict"))
        module.register_load_state_dict_pre_hook(noted("load"))
    model.embeddings.register_forward_hook(lambda *args: args[-1] * 2)
    model.encoder.layer[0].register_forward_hook(noted("kwargs"), with_kwargs=True, always_call=True)
    checked_against_name(model)
    assert not calls
    model.train()(input_ids=torch.tensor([[1, 2]]))
    assert {"pre", "kwargs"} <= set(calls)  # they still work where they belong


def test_a_model_that_was_asked_for_hidden_states() -> None:
    """transformers notes states with hooks of its own, and remembers that it set them: both are left out."""
    model = load()
    model(input_ids=torch.tensor([[1, 2]]), output_hidden_states=True)
    checked_against_name(model)
    layers = BERTScorer(model=load(), tokenizer=tokenizer(), all_layers=True).score(*TEXTS).f1
    other = load()
    other(input_ids=torch.tensor([[1, 2]]), output_hidden_states=True)
    torch.testing.assert_close(BERTScorer(model=other, tokenizer=tokenizer(), all_layers=True).score(*TEXTS).f1, layers)


def data_parallel(model: Any) -> Any:
    return nn.DataParallel(model)


def averaged(model: Any) -> Any:
    return torch.optim.swa_utils.AveragedModel(model)


def compiled(model: Any) -> Any:
    return torch.compile(model, backend="eager")


def compiled_in_place(model: Any) -> Any:
    model.compile(backend="eager")
    return model


def compiled_encoder(model: Any) -> Any:
    model.encoder = torch.compile(model.encoder, backend="eager")
    return model


def compiled_blocks(model: Any) -> Any:
    for number, block in enumerate(model.encoder.layer):
        model.encoder.layer[number] = torch.compile(block, backend="eager")
    return model


def checkpointed_blocks(model: Any) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for number, block in enumerate(model.encoder.layer):
        model.encoder.layer[number] = torch.compile(checkpoint_wrapper(block), backend="eager")
    return model


def gradient_checkpointing(model: Any) -> Any:
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable()
    return model


def engine(model: Any) -> Any:
    class Engine(nn.Module):  # as those of training libraries
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    return Engine(nn.DataParallel(torch.compile(model, backend="eager")))


@pytest.mark.parametrize(
    "wrap",
    [data_parallel, averaged, compiled, compiled_in_place, compiled_encoder, compiled_blocks, checkpointed_blocks,
     gradient_checkpointing, engine],
)  # fmt: skip
def test_wrappers_are_taken_off(wrap: Callable[[Any], Any]) -> None:
    """What holds a model, or a part of one, is looked through."""
    wrapped = wrap(load())
    checked_against_name(wrapped)


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    """Be the only rank of a process group."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_distributed_models() -> None:
    """DDP is looked through, also inside a model; weights that are sharded over ranks are refused."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_module

    checked_against_name(nn.parallel.DistributedDataParallel(load()))
    model = load()
    model.encoder = nn.parallel.DistributedDataParallel(model.encoder)
    checked_against_name(model)
    with pytest.raises(ValueError, match=r"are sharded \(DTensor\).*pass its folder as model_name_or_path=, or"):
        scorer_of(distribute_module(load(), init_device_mesh("cpu", (1,))))


def test_weights_cut_up_by_deepspeed() -> None:
    """A parameter of which a rank holds a part only says how large it is as a whole."""
    model = load()
    parameter: Any = model.encoder.layer[0].output.dense.weight
    parameter.ds_numel = parameter.numel()
    scorer_of(model)
    parameter.data = torch.empty(0)
    with pytest.raises(ValueError, match=r"are sharded \(DeepSpeed ZeRO\)"):
        scorer_of(model)


def dispatched(model: Any) -> Any:
    from accelerate import dispatch_model

    return dispatch_model(model, {"": "cpu"}, main_device="cpu", force_hooks=True)


def offloaded(model: Any) -> Any:
    from accelerate import cpu_offload

    return cpu_offload(model, execution_device="cpu", offload_buffers=True)


def offloaded_to_disk(model: Any) -> Any:
    import tempfile

    from accelerate import disk_offload

    return disk_offload(model, tempfile.mkdtemp(), execution_device="cpu")


@pytest.mark.parametrize("place", [dispatched, offloaded, offloaded_to_disk])
def test_models_that_accelerate_places(place: Callable[[Any], Any]) -> None:
    """Its hooks are left out, and weights that it keeps elsewhere are fetched; the owner's model goes on working."""
    model = place(load())
    assert hasattr(model.embeddings.word_embeddings, "_hf_hook")
    ids = torch.tensor([[1, 2, 3]])
    before = model.eval()(input_ids=ids).last_hidden_state
    model.train()
    if place is dispatched:
        checked_against_name(model)
        return
    seen = portrait(model)
    assert f1(scorer_of(model)) == right()
    assert portrait(model) == seen
    torch.testing.assert_close(model.eval()(input_ids=ids).last_hidden_state, before)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_models_that_accelerate_prepared(precision: str) -> None:
    """The autocast in which a prepared model runs is its owner's: the scores are float32."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        model = Accelerator(mixed_precision=precision, cpu=True).prepare(load())
        assert (precision == "bf16") == ("forward" in vars(model))
        checked_against_name(model)
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


def test_models_without_weights() -> None:
    """On the meta device there are no numbers to score with."""
    config = load().config
    with torch.device("meta"):
        model = BertModel(config)
    with pytest.raises(ValueError, match=r"embeddings.word_embeddings.weight is on the meta device.*Load them first"):
        scorer_of(model)


def test_a_scorer_made_where_tensors_have_no_numbers() -> None:
    """By name or by object, inside `torch.device("meta")` the work is done on the CPU; the rest says so in words."""
    from accelerate import init_empty_weights

    model = load()
    with torch.device("meta"):
        encoder.release_encoders()
        assert BERTScorer(str(MODELS / "bert"), num_layers=LAYER).score(*TEXTS).f1.tolist() == right()
        assert f1(BERTScorer(model=model, tokenizer=tokenizer(), num_layers=LAYER)) == right()
    with init_empty_weights():
        assert f1(scorer_of(model)) == right()
        with pytest.raises(RuntimeError, match=r"loaded without its weights.*inside init_empty_weights\(\); make the"):
            BERTScorer(str(MODELS / "roberta"), num_layers=1)


def pruned(model: Any) -> Any:
    for layer in (model.encoder.layer[0].output.dense, model.encoder.layer[1].intermediate.dense):
        prune.random_unstructured(layer, "weight", amount=0.5)
        prune.l1_unstructured(layer, "weight", amount=0.2)
        prune.l1_unstructured(layer, "bias", amount=0.2)
    return model


def weight_normed(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's old form, which people still have
        nn.utils.weight_norm(model.encoder.layer[0].output.dense)
    return model


def spectral_normed(model: Any) -> Any:
    nn.utils.spectral_norm(model.encoder.layer[0].output.dense)
    return model


def parametrized(model: Any) -> Any:
    parametrizations.weight_norm(model.encoder.layer[0].output.dense)
    parametrizations.spectral_norm(model.encoder.layer[1].output.dense)
    return model


def scaled(model: Any) -> Any:
    class Double(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * 2

    parametrize.register_parametrization(model.encoder.layer[0].output.dense, "weight", Double())
    return model


@pytest.mark.parametrize("change", [pruned, weight_normed, spectral_normed, parametrized, scaled])
def test_weights_that_are_computed(change: Callable[[Any], Any]) -> None:
    """What pruning, norms and parametrizations compute is what is scored with; their own state stays the owner's."""
    model = change(load())
    train(model)
    ids = torch.tensor([[5, 6, 7]])
    expected = model.eval()(input_ids=ids).last_hidden_state  # which leaves tensors that are no leaf, and have no copy
    model.train()
    before = portrait(model)
    whole = plain_copy(model)
    torch.testing.assert_close(whole(input_ids=ids).last_hidden_state, expected)
    assert type(whole.encoder.layer[0].output.dense) is nn.Linear
    assert set(whole.state_dict()) == set(load().state_dict())
    scorer = scorer_of(model)
    assert portrait(model) == before
    first = scorer.score(*TEXTS).f1.tolist()
    assert first != right()
    train(model)
    assert scorer.score(*TEXTS).f1.tolist() == first
    pickle.dumps(scorer.model.encoder)


class PeftModel(nn.Module):
    """As peft's: the model is in a tuner, its layers replaced in place; with a learned prompt it is in no tuner."""

    __module__ = "peft.peft_model"

    def __init__(self, model: Any, *, prompt: bool = False) -> None:
        super().__init__()
        self.base_model = model if prompt else nn.ModuleDict({"model": model})
        self.active_peft_config = SimpleNamespace(is_prompt_learning=prompt)

    def get_base_model(self) -> Any:
        return self.base_model if self.active_peft_config.is_prompt_learning else self.base_model["model"]


class Adapted(nn.Module):
    """A linear layer with an adapter of rank 1."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer = layer
        self.down, self.up = nn.Linear(layer.in_features, 1, bias=False), nn.Linear(1, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.base_layer(x) + self.up(self.down(x))


def test_peft_models() -> None:
    """Adapters act, whether the wrapper is passed or what is in it; a learned prompt is refused."""
    model, merged = load(), load()
    attention = model.encoder.layer[0].attention.self
    attention.query = adapted = Adapted(attention.query)
    with torch.no_grad():
        merged.encoder.layer[0].attention.self.query.weight += adapted.up.weight @ adapted.down.weight
    wrapped = PeftModel(model)
    before = portrait(wrapped)
    expected = scorer_of(merged).score(*TEXTS).f1.tolist()
    assert expected != right()
    assert f1(scorer_of(wrapped)) == expected
    assert f1(scorer_of(model)) == expected
    assert portrait(wrapped) == before
    with pytest.raises(TypeError, match=r"A PeftModel with a learned prompt is not supported.*get_base_model\(\)"):
        scorer_of(PeftModel(load(), prompt=True))


class Transformer(nn.Module):
    """As the first module of a SentenceTransformer, which names the model so in every version."""

    __module__ = "sentence_transformers.models"

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.auto_model = model


class SentenceTransformer(nn.Sequential):
    """As sentence-transformers' own: a sequence of modules, of which the first has the model."""

    __module__ = "sentence_transformers.SentenceTransformer"
    tokenizer = property(lambda self: tokenizer())


def test_the_model_in_a_sentence_transformer() -> None:
    """It is used, with its tokenizer; a sequence without one is refused."""
    model = load()
    given = SentenceTransformer(Transformer(model), nn.Linear(2, 2))
    before = portrait(given)
    assert f1(BERTScorer(model=given, tokenizer=given, num_layers=LAYER)) == right()
    assert plain_model(nn.DataParallel(given[0])) is model
    assert portrait(given) == before
    with pytest.raises(TypeError, match="takes a model of transformers, got a SentenceTransformer; pass your own enc"):
        scorer_of(SentenceTransformer(nn.Linear(2, 2)))


@pytest.mark.slow  # the library's import takes seconds
def test_sentence_transformers() -> None:
    """The transformers model in a SentenceTransformer is used, and its tokenizer."""
    library = pytest.importorskip("sentence_transformers")
    from bertscore_metric.models import source

    folder = source.resolve("offline").location
    model = library.SentenceTransformer(folder, device="cpu")
    before = portrait(model)
    for given in (model, model[0]):
        scorer = BERTScorer(model=given, tokenizer=model, num_layers=LAYER)
        assert f1(scorer) == right("minilm")
    assert portrait(model) == before


class Holder(nn.Module):
    """A module of one's own around a model."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"bert": load()})


def traced() -> Any:
    model = load().eval()
    model.config.return_dict = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model, torch.tensor([[1, 2]]))


def quantized() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(load(), {nn.Linear}, dtype=torch.qint8)


def with_integer_weights() -> Any:
    model = load()
    model.encoder.layer[0].output.dense.weight = nn.Parameter(torch.ones(32, 64, dtype=torch.int8), requires_grad=False)
    return model


def by_transformers() -> Any:
    model = load()
    model.hf_quantizer = object()
    return model


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "name": (
        lambda: "roberta-large",
        r"got 'roberta-large'; to name a model, pass it as model_name_or_path='roberta-l",
    ),
    "path": (lambda: MODELS / "bert", r"model= takes a model object, got PosixPath.*pass it as model_name_or_path='/"),
    "class": (lambda: BertModel, r"got the class BertModel; make one of it: BertModel.from_pretrained\(\.\.\.\)"),
    "pipeline": (
        lambda: pipeline("feature-extraction", load(), tokenizer=tokenizer(), device="cpu"),
        r"got a FeatureExtractionPipeline; pass the one it holds, its .model, with tokenizer= its .tokenizer, or name",
    ),
    "module": (lambda: nn.Linear(2, 2), r"takes a model of transformers, got a Linear; pass your own encoder=, or"),
    "holder": (Holder, r"got a Holder; pass the one it holds, its .body.bert, or name the model"),
    "encoder": (
        lambda: shared_scorer("bert", num_layers=1).model.encoder,
        r"HuggingFaceEncoder; pass this as encoder=",
    ),
    "weights": (lambda: load().state_dict(), r"got a OrderedDict; load one with AutoModel.from_pretrained, or name"),
    "configuration": (lambda: load().config, r"got a BertConfig; load one with AutoModel.from_pretrained"),
    "traced": (
        traced,
        r"got a traced model \(TopLevelTracedModule\), whose blocks cannot be told; pass the model that",
    ),
    "quantized": (quantized, r"quantized \(.*query is a .*Linear of torch.*plain weights.*as it was before, or name"),
    "integers": (with_integer_weights, r"The model is quantized \(.*output.dense.weight is a .* of torch.int8\)"),
    "quantizer": (by_transformers, r"The model is quantized \(BertModel\)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_model(kind: str) -> None:
    """Each is one sentence that says what to pass, before any tokenizer is asked for."""
    make, message = REFUSED[kind]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        BERTScorer(model=make())
    assert "\n" not in str(caught.value)


def test_fully_sharded_models() -> None:
    """The first FSDP wraps modules and flattens their weights."""

    class FullyShardedDataParallel(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self._fsdp_wrapped_module = inner

    model = load()
    for given in (FullyShardedDataParallel(model), model):
        model.encoder.layer[0] = FullyShardedDataParallel(model.encoder.layer[0])
        with pytest.raises(TypeError, match=r"are sharded \(FSDP\), so that no process has them all"):
            scorer_of(given)


def test_attributes_that_cannot_be_copied(tmp_path: Path) -> None:
    """A lock or an open file on a model is named; one inside a replaced method or a hook does not matter."""
    lock = threading.Lock()

    class Locked:
        def __init__(self, forward: Any) -> None:
            self.lock, self.wrapped = lock, forward

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with self.lock:
                return self.wrapped(*args, **kwargs)

    model = load()
    model.forward = Locked(model.forward)
    model.encoder.layer[0].register_forward_hook(Locked(lambda *args: None))
    checked_against_name(model)
    model.encoder.busy = lock
    with pytest.raises(TypeError, match=r"its encoder.busy \(lock\) cannot be copied \(cannot pickle.*Take it off the"):
        scorer_of(model)
    other = load()
    message = r"Cannot copy the model: its log \(TextIOWrapper\) cannot be copied"
    with (tmp_path / "log").open("w") as other.log, pytest.raises(TypeError, match=message):
        scorer_of(other)


def test_parts_that_copy_as_themselves() -> None:
    """A module that is its own deep copy would be changed with ours, so it is refused."""

    class Single(nn.Linear):
        def __deepcopy__(self, memo: dict[int, Any]) -> "Single":
            return self

    model = load()
    model.extra = Single(2, 2)
    with pytest.raises(TypeError, match=r"a part of it is not copied by copy.deepcopy"):
        scorer_of(model)


def test_models_with_a_head() -> None:
    """A head is left out, and what is on it."""
    model = AutoModelForSequenceClassification.from_pretrained(MODELS / "bert")
    model.forward = torch.no_grad()(model.forward)
    model.bert.forward = torch.no_grad()(model.bert.forward)
    checked_against_name(model)


def test_plain_models_are_themselves() -> None:
    """Nothing is taken off a model that has nothing on it."""
    model = load()
    assert plain_model(model) is model
    assert plain_model(nn.DataParallel(model)) is model
