"""Which room imports which: an import only goes down, also one inside a function; the few exceptions are named."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bertscore_metric

PACKAGE = Path(bertscore_metric.__file__).parent
# Lowest first; rooms of one floor may import one another.
FLOORS = (
    ("io", "registry", "checks", "warnings", "callers", "optional", "forks"),
    ("core",),
    ("state", "config"),
    ("models",),
    ("signature", "update"),
    ("result",),
    ("all_pairs", "pairwise", "mbr"),
    ("scorer", "scorer_handle"),
    ("analysis",),
    ("adapters",),
    ("cli", "compat", "example"),
)
HEIGHTS = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
# What imports something above it, and why.
EXCEPTIONS = {
    ("scorer", "analysis.explain"): "BERTScorer.explain is where people look for it",
}
# Rooms that do not know each other: an adapter holds the core, never another adapter.
APART = ("torchmetrics", "evaluate", "trainer", "datasets", "ray", "reward")


def room(module: str) -> str:
    """Return the room of a module that is named from the package on: `core.pairs` is in `core`."""
    return module.partition(".")[0]


def imports(file: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, anywhere in it, named from the package on."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "bertscore_metric" and rest:
                parts = rest.split(".")
                yield parts[0] if (PACKAGE / f"{parts[0]}.py").exists() else ".".join(parts[:2])


def files() -> list[Path]:
    """Return the files that stand on a floor; the package's own `__init__` and `__main__` are above all."""
    return [file for file in sorted(PACKAGE.rglob("*.py")) if file.parent != PACKAGE or not file.stem.startswith("__")]


def above(file: Path) -> list[str]:
    """Return what a file imports from above its floor."""
    module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
    height = HEIGHTS[room(module)]
    found = (name for name in imports(file) if HEIGHTS.get(room(name), -1) > height)
    return [f"{module} -> {name}" for name in found if (module, name) not in EXCEPTIONS]


def test_every_room_has_a_floor() -> None:
    """A new folder or file at the root needs a place in the house."""
    assert {room(".".join(file.relative_to(PACKAGE).with_suffix("").parts)) for file in files()} <= set(HEIGHTS)


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_down(file: Path) -> None:
    """No file imports from a floor above its own, but for the exceptions."""
    assert above(file) == []


def test_exceptions_are_needed() -> None:
    """An exception that nothing uses any more goes."""
    for module, name in EXCEPTIONS:
        assert name in set(imports(PACKAGE / f"{module.replace('.', '/')}.py"))


def test_adapters_do_not_know_each_other() -> None:
    """No adapter imports another one, or a file of another one."""
    for file in sorted((PACKAGE / "adapters").glob("*.py")):
        own = file.stem.partition("_")[0]
        if own in APART:
            others = {name.partition(".")[2].partition("_")[0] for name in imports(file) if room(name) == "adapters"}
            assert (others & set(APART)) <= {own}, file


def test_this_test_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lazy import from above is found."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "core").mkdir()
    (tmp_path / "scorer.py").touch()
    file = tmp_path / "core" / "sums.py"
    file.write_text("def f():\n    from bertscore_metric.scorer import BERTScorer\n")
    assert above(file) == ["core.sums -> scorer"]


def test_no_circles() -> None:
    """Modules never import each other in a circle."""
    graph = {}
    for file in files():
        module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        graph[module] = {name for name in imports(file) if (module, name) not in EXCEPTIONS} - {module}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in graph.get(module, ()):
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())
