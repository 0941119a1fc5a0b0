"""The arithmetic is ours, not the caller's: settings that would change numbers are set for the call and restored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from bertscore_metric import forks

# torch's settings are global to the process: two threads that set and restore them in turn would leave each other's.
_one_at_a_time = threading.RLock()
_callers: list[tuple[torch.dtype, list[str]]] = []  # the caller's settings, while ours are set; the outermost first

TORCH_DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def resolve_dtype(dtype: str, device: torch.device) -> str:
    """Return what `auto` means on a device: `bfloat16` where its matrix products have hardware, else `float32`.

    That is an NVIDIA GPU from Ampere on, or a CPU with AVX512-BF16 or AMX, as far as torch can tell. Other dtypes are
    returned as they are.
    """
    if dtype != "auto":
        return dtype
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type != "cpu":
        return "float32"
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"


@contextmanager
def own_arithmetic(dtype: str, device: torch.device) -> Iterator[None]:
    """Run a block with autocast off, float32 and the CPU as defaults, `dtype`'s matmul precision, and no gradients.

    Inside a `bf16-mixed` validation step, autocast would silently turn "float32" into bfloat16 (scores of a MiniLM
    move by up to .0054 a segment), and `set_float32_matmul_precision("medium")` does the same on CPUs with AMX. The
    caller's settings are restored afterwards, also after an error. Tensors made inside are ordinary ones even within
    the caller's `inference_mode`, so that they can be kept, merged and changed later. Threads take turns, since the
    settings are the process's; a thread that does something else meanwhile sees them. A process that is forked
    meanwhile has the caller's. In a forked process the block runs on one thread: OpenMP's threads, which the parent may
    have used, are not there, and would be waited for.

    Args:
        dtype: `float32`, `tf32`, `bfloat16` or `float16`.
        device: where the encoder runs.

    Raises:
        RuntimeError: a GPU in a process that was forked from one that had used CUDA.
    """
    if device.type == "cuda":
        forks.check_cuda()
    with _one_at_a_time, ExitStack() as stack:
        stack.enter_context(_noted())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        for kind in {device.type, "cpu"} - {"meta"}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(_default_dtype(torch.float32))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if forks.is_child():
            stack.enter_context(_one_thread())
        stack.enter_context(_matmul_precision("tf32" if dtype == "tf32" else "ieee"))
        yield


def _renew() -> None:
    global _one_at_a_time  # another thread may have held it
    _one_at_a_time = threading.RLock()
    if _callers:
        dtype, precisions = _callers[0]
        torch.set_default_dtype(dtype)
        for backend, precision in zip(_backends(), precisions, strict=True):
            backend.fp32_precision = precision
    _callers.clear()


forks.call_after_fork(_renew)


@contextmanager
def _noted() -> Iterator[None]:
    """Note the settings of the process for its children, until ours are no longer set."""
    depth = len(_callers)
    _callers.append((torch.get_default_dtype(), [backend.fp32_precision for backend in _backends()]))
    try:
        yield
    finally:
        del _callers[depth:]  # in a child there is none


def _backends() -> tuple[Any, ...]:
    # One setting per backend, since torch's global one can be overridden backend by backend.
    return torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul")  # noqa: B009


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    backends = _backends()
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = precision if backend is backends[0] else "ieee"
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value
