"""A user's own ports: `parity.toml`, found upward from the current folder or named with `--config`.

[[implementation]]
name = "silero-vad/mine"        # family/name
role = "port"
runner = "python"
factory = "my_port:Vad"         # module:class, built without arguments in the worker
python_path = ["src"]           # folders relative to parity.toml, the folder itself when absent
packages = ["numpy"]            # distributions whose versions are recorded
rates_hz = [16000]              # input rates it takes, any when absent
timeout_s = 30                  # per clip
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import ParityError
from harness.family import Family, Implementation
from harness.tomlfile import read_toml

FILE_NAME = "parity.toml"
RUNNERS = ("python",)
REQUIRED: Mapping[str, type] = {"name": str, "role": str, "runner": str, "factory": str}
OPTIONAL: Mapping[str, type | tuple[type, ...]] = {
    "python_path": list,
    "packages": list,
    "rates_hz": list,
    "timeout_s": (int, float),
    "load_timeout_s": (int, float),
    "threads": int,
    "remedy": str,
}


def find_config(start: Path) -> Path | None:
    """The nearest `parity.toml` at or above a folder."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def with_config(families: Sequence[Family], path: Path) -> list[Family]:
    """The families with the implementations that a `parity.toml` adds.

    Raises ParityError for a missing or damaged file, an unknown key, family, role or runner, and a name used twice.
    """
    table = read_toml(path, "a parity.toml with [[implementation]] tables", "check --config")
    if unknown := sorted(set(table) - {"implementation"}):
        raise ParityError(path, f"unknown keys {unknown}", "[[implementation]] tables only", "remove them")
    added = [_implementation(path, entry) for entry in table.get("implementation", [])]
    known = {family.name for family in families}
    if strange := [item.name for item in added if item.family not in known]:
        raise ParityError(path, f"{strange[0]} belongs to no family", f"one of {sorted(known)}", "see `parity list`")
    return [
        dataclasses.replace(
            family,
            implementations=(*family.implementations, *(item for item in added if item.family == family.name)),
        )
        for family in families
    ]


def _implementation(path: Path, entry: Any) -> Implementation:
    where = f"{path}: implementation {entry.get('name', '(without name)') if isinstance(entry, dict) else entry!r}"
    if not isinstance(entry, dict):
        raise ParityError(where, "not a table", "[[implementation]]")
    if unknown := sorted(set(entry) - {*REQUIRED, *OPTIONAL}):
        raise ParityError(where, f"unknown keys {unknown}", f"{[*REQUIRED, *OPTIONAL]}", "remove or rename them")
    for key, kind in {**REQUIRED, **OPTIONAL}.items():
        if key in REQUIRED and key not in entry:
            raise ParityError(where, f"{key} is missing", "name, role, runner and factory", "add it")
        if key in entry and (not isinstance(entry[key], kind) or isinstance(entry[key], bool)):
            raise ParityError(where, f"{key} is {entry[key]!r}", f"a {getattr(kind, '__name__', 'number')}", "mend it")
    if entry["role"] not in ("reference", "port"):
        raise ParityError(where, f"role {entry['role']!r}", "reference or port", "mend it")
    if entry["runner"] not in RUNNERS:
        raise ParityError(where, f"runner {entry['runner']!r}", f"one of {list(RUNNERS)}", "mend it")
    if "/" not in entry["name"]:
        raise ParityError(where, f"name {entry['name']!r}", "family/name", "mend it")
    folders = [(path.parent / folder).resolve() for folder in entry.get("python_path", ["."])]
    fields = {key: value for key, value in entry.items() if key != "runner"}
    for key in ("packages", "rates_hz"):
        if key in fields:
            fields[key] = tuple(fields[key])
    return Implementation(**{**fields, "python_path": tuple(str(folder) for folder in folders)})
