"""The families this project knows, one module each, listed here by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from harness.errors import ParityError
from harness.family import Family

MODULES = ("resampler", "silero_vad", "mimi")


def load_families(names: Sequence[str] = ()) -> list[Family]:
    """The declared families, in order; all when no name is given. Raises ParityError for an unknown name."""
    families: dict[str, Family] = {}
    for module in MODULES:
        family: Family = importlib.import_module(f"harness.families.{module}").FAMILY
        if family.name in families:
            raise ParityError(module, f"a second family {family.name}", "one family per name", "rename it")
        families[family.name] = family
    if unknown := [name for name in names if name not in families]:
        raise ParityError(unknown[0], "no such family", f"one of {', '.join(families)}", "see `parity list`")
    return [families[name] for name in names] if names else list(families.values())
