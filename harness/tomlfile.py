"""Reading TOML, with the errors of this project."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from harness.errors import ParityError


def read_toml(path: Path, expected: str, remedy: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises ParityError when it is missing or is not TOML in UTF-8.

    expected: what the file should be, for the message; remedy: what to do when it is missing.
    """
    if not path.is_file():
        raise ParityError(path, "no such file", expected, remedy)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParityError(path, f"not valid TOML ({error})", expected, "mend the file") from error
