"""A name as the user gave it -> the files it stands for, what kind each is, and its bytes, unpacked."""

from __future__ import annotations

import bz2
import difflib
import glob
import gzip
import io
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from bertscore_metric.io.paths import user_path

STDIN = "-"
TEXT = ".txt"
DELIMITERS = {".tsv": "\t", ".csv": ","}
JSON_LINES = ".jsonl"
PARQUET = ".parquet"
ARROW = (".arrow", ".feather")
COLUMNAR = (PARQUET, *ARROW)
TABLES = (*DELIMITERS, JSON_LINES, *COLUMNAR)
PACKED = (".gz", ".zst", ".xz", ".bz2")
NO_TABLES = "use .tsv, .csv, .jsonl, .parquet or .arrow with named columns"

_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\xfd7zXZ\x00": ".xz",
    b"BZh": ".bz2",
    b"PK\x03\x04": ".zip",
    b"PAR1": PARQUET,
    b"ARROW1": ".arrow",
}
_MARKUP = (".sgm", ".sgml", ".xml", ".html", ".htm")
_DAMAGE = (EOFError, OSError, lzma.LZMAError, ValueError)


def kind(path: str) -> str:
    """Return what kind of file a name promises: `.tsv`, `.jsonl`, ..., or `.txt` for any other; `.gz` and such aside.

    Raises:
        ValueError: the name is empty, or promises what is not read: JSON, markup, or a packed Parquet file.
    """
    if not path:
        raise ValueError("The name of a file is empty.")
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED
    suffix = (suffixes[-2] if len(suffixes) > 1 else "") if packed else (suffixes[-1] if suffixes else "")
    if suffix == ".json":
        raise ValueError(f"{path} is JSON; only JSON lines are read (.jsonl, one object a line with named columns).")
    if suffix in _MARKUP:
        raise ValueError(
            f"{path} holds markup, whose tags would be scored as text; save its segments as text, one a line."
        )
    if packed and suffix in COLUMNAR:
        raise ValueError(f"{path} cannot be read: {suffix} files are compressed inside; unpack it.")
    return suffix if suffix in TABLES else TEXT


def expand(path: str) -> list[str]:
    """Return the files that a name stands for, in order: one, those that a pattern (`*`) matches, or a folder's tables.

    Raises:
        FileNotFoundError: there is no such file; the message names the nearest.
        ValueError: a pattern that nothing matches, or a folder without tables, or with tables of several kinds.
    """
    if path == STDIN:
        return [path]
    if not path:
        raise ValueError("The name of a file is empty.")
    file = user_path(path)
    if file.is_dir():
        return _in_folder(path, file)
    if file.exists() or not glob.has_magic(path):
        return [path]
    found = sorted(name for name in glob.glob(str(file), recursive=True) if Path(name).is_file())  # noqa: PTH207 - of any path
    if not found:
        raise FileNotFoundError(f"No file matches {path!r}.")
    return found


def _in_folder(path: str, folder: Path) -> list[str]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name[0] not in "._")
    kinds: dict[str, list[str]] = {}
    for file in files:
        suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() not in PACKED]
        if suffixes and suffixes[-1] in TABLES:
            kinds.setdefault(suffixes[-1], []).append(str(file))
    if not kinds:
        raise ValueError(f"{path} is a folder without tables; {NO_TABLES}.")
    if len(kinds) > 1:
        raise ValueError(
            f"{path} is a folder with tables of several kinds ({', '.join(sorted(kinds))}); choose with a pattern in "
            f"quotes: '{Path(path) / ('*' + min(kinds))}'."
        )
    return next(iter(kinds.values()))


def existing(path: str) -> Path:
    """Return the path of a file that must be there.

    Raises:
        FileNotFoundError: it is not; the message names the nearest.
    """
    file = user_path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder, not a file.")
    if not file.exists():
        near = difflib.get_close_matches(file.name, [other.name for other in file.parent.glob("*")], n=1)
        hint = f" Did you mean {file.with_name(near[0])}?" if near else ""
        raise FileNotFoundError(f"No file {path!r}.{hint} Literal text is scored with --text.")
    return file


@contextmanager
def unpacked(path: str) -> Iterator[IO[bytes]]:
    """Open a file, or standard input, and yield its bytes; what is compressed (by its content) is unpacked.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or is compressed in a way that is not read.
    """
    raw: Any = _stdin() if path == STDIN else existing(path).open("rb")
    try:
        head = raw.peek(8)[:8]
        found = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")
        named = Path(path).suffix.lower()
        if named in PACKED and found != named and head:
            raise ValueError(f"{path} is not compressed as its name says ({named}); rename it, or fetch it again.")
        if found in (".zip", *COLUMNAR):
            what = "a zip archive; unpack it" if found == ".zip" else f"a {found[1:]} file; name it {found}"
            raise ValueError(f"{path} is {what}.")
        stream = _unpacker(path, found, raw)
        try:
            yield cast("IO[bytes]", _Guarded(path, stream)) if found else raw
        finally:
            if stream is not raw:
                stream.close()
    finally:
        if path != STDIN:
            raw.close()


def _stdin() -> Any:
    if sys.stdin is None:
        raise OSError("Standard input (-) is closed; name a file.")
    buffer = sys.stdin.buffer
    return buffer if hasattr(buffer, "peek") else io.BufferedReader(buffer)  # a stand-in of a program


def _unpacker(path: str, found: str, raw: Any) -> Any:
    if found == ".gz":
        return gzip.open(raw)
    if found == ".xz":
        return lzma.open(raw)
    if found == ".bz2":
        return bz2.open(raw)
    if found == ".zst":
        return io.BufferedReader(_Zstandard(path, raw), 2**18)
    return raw


class _Guarded:
    """Says in words that a compressed stream is damaged, whatever its library raises."""

    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        lines = iter(self._stream)
        while True:
            try:
                line = next(lines)
            except StopIteration:
                return
            except _DAMAGE as error:
                raise self._damaged(error) from error
            yield line

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ValueError:
        said = " ".join(str(error).split()).rstrip(".")
        return ValueError(f"{self._path} is damaged or incomplete and cannot be unpacked: {said}.")


class _Zstandard(io.RawIOBase):
    """Unpacks Zstandard frames, one after the other, with the library that is there."""

    def __init__(self, path: str, raw: Any) -> None:
        super().__init__()
        zstandard = packages("zstandard", path)
        self._raw = raw
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            data = self._raw.read(2**17)
            if not data:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._left = self._unpack(data)
        n = min(len(buffer), len(self._left))
        buffer[:n] = self._left[:n]
        self._left = self._left[n:]
        return n

    def _unpack(self, data: bytes) -> bytes:
        from zstandard import ZstdError

        out = []
        while data:
            self._frame = self._frame or self._new()
            try:
                out.append(self._frame.decompress(data))
            except ZstdError as error:
                raise ValueError(str(error)) from error
            data = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        return b"".join(out)


def packages(name: str, path: str) -> Any:
    """Return an optional package that reading or writing a file needs.

    Raises:
        ImportError: it is not installed; the message says how to install it.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0]:
            raise
        raise ImportError(f"{path} needs {name.split('.')[0]}: pip install 'bertscore_metric[tables]'.") from error
