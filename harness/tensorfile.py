"""Reading and writing safetensors, with the errors of files instead of a library's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParityError


def save_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, in C order. Raises OSError, for a full disk too."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(None, str(error).rpartition("I/O error: ")[2], str(path)) from error


def load_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read arrays by name. Raises ParityError for a missing or damaged file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise ParityError(path, "no such file", "a safetensors file", "write it again")
    try:
        tensors: dict[str, NDArray[Any]] = load_file(path)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ParityError(path, f"not valid safetensors ({error})", "a safetensors file", "write it again") from error
    return tensors
