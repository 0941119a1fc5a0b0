"""Paths as users write them."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a path with `~` as the user's home; where nobody has the name behind it, it stays, and is not a file."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
