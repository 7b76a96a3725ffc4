"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import ParityError

Families = Annotated[list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Families, all when none is named.")]
Config = Annotated[Path | None, typer.Option("--config", help="A parity.toml with your own ports.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where runs are stored.")]
Golden = Annotated[Path | None, typer.Option("--golden", help="Where goldens are kept.", hidden=True)]
Gates = Annotated[Path | None, typer.Option("--gates", help="Folder of gates files, the project's own when absent.")]
Weights = Annotated[
    str | None,
    typer.Option("--checkpoint", help="A file, a folder or a hub repository instead of the project's weights."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or name, or `latest`.")]


def chosen_families(names: list[str] | None, config: Path | None, checkpoint: str | None = None) -> list[Any]:
    """The chosen families, with the ports of a `parity.toml`, and with the weights that the user names.

    Raises ParityError when weights are named for no family, or for one that brings its own.
    """
    families = _declared(names, config)
    if checkpoint is None:
        return families
    if len(families) != 1 or families[0].checkpoint is None:
        named = ", ".join(family.name for family in families)
        raise ParityError("--checkpoint", f"given for {named}", "one family whose weights can be chosen", "name it")
    chosen = dataclasses.replace(families[0].checkpoint, chosen=checkpoint)
    return [dataclasses.replace(families[0], checkpoint=chosen)]


def _declared(names: list[str] | None, config: Path | None) -> list[Any]:
    from harness.config import find_config, with_config
    from harness.families import load_families

    path = config or find_config(Path.cwd())
    families = load_families(names or ())
    if path is None:
        return families
    extended = {family.name: family for family in with_config(load_families(), path)}
    return [extended[family.name] for family in families]


def print_json(content: Any) -> None:
    """JSON to standard output, as people read it too."""
    print(json.dumps(content, indent=1, ensure_ascii=False))
