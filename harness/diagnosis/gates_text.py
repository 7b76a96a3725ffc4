"""Change a gates file as text, so that its comments and its order stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ParityError

HEADER = "[[gate]]"
LIMIT = re.compile(r"limit\s*=\s*[^#]*?(?P<comment>\s*#.*)?")
EVIDENCE = re.compile(r"evidence\s*=.*")


def rewrite(path: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Give gates a new `limit` and `evidence`, and leave every other character.

    changes: by gate name. Raises ParityError when the file does not read as intended afterwards; nothing is written
    then.
    """
    text = path.read_text(encoding="utf-8")
    intended = tomllib.loads(text)
    for gate in intended["gate"]:
        gate.update(changes.get(gate["name"], {}))
    first, *blocks = re.split(rf"^(?={re.escape(HEADER)})", text, flags=re.MULTILINE)
    written = first + "".join(_block(block, changes) for block in blocks)
    try:
        obtained = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise ParityError(path, f"cannot be changed as text ({error})", remedy="change it by hand") from error
    if obtained != intended:
        raise ParityError(
            path, "cannot be changed as text", "`limit = …` and `evidence = …` on lines of their own", "edit by hand"
        )
    path.write_text(written, encoding="utf-8")


def _block(block: str, changes: Mapping[str, Mapping[str, Any]]) -> str:
    """One [[gate]] table with its limit replaced and its evidence after it."""
    entry = tomllib.loads(block)["gate"][0]
    change = changes.get(entry["name"])
    if change is None:
        return block
    lines = []
    for line in block.splitlines():
        if EVIDENCE.fullmatch(line):
            continue
        if found := LIMIT.fullmatch(line):
            same = entry["limit"] == change["limit"]
            lines.append(line if same else f"limit = {_value(change['limit'])}{found['comment'] or ''}")
            lines.append(f"evidence = {_value(change['evidence'])}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A TOML number, string or inline table."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    # JSON's strings are TOML's, and Python writes floats as TOML reads them.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
