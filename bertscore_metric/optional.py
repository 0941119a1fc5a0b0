"""Libraries of the extras: what to say where one is missing, and where one is there and broken."""

from __future__ import annotations

import sys


def explained(error: ImportError, libraries: tuple[str, ...], message: str) -> ImportError:
    """Return the error to raise for a failed import: what to install, or that what is installed is broken.

    Args:
        error: of the import.
        libraries: what was imported.
        message: which library is needed for what, and the command that installs it.
    """
    library = (error.name or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and library in libraries and sys.modules.get(library) is None:
        return ImportError(message, name=error.name)
    what = f"{' and '.join(libraries)} {'is' if len(libraries) == 1 else 'are'} installed, but cannot be imported"
    return ImportError(f"{what}: {error}. Install again what this names.", name=error.name)
