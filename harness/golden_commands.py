"""What `parity golden …` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import pipeline
from harness.errors import ParityError
from harness.family import Family
from harness.goldens import Frozen, Goldens
from harness.observe import Listener
from harness.plan import plan_family
from harness.runs import Run


def status(families: Sequence[Family], golden: Path | None) -> list[dict[str, Any]]:
    """Present, missing and orphaned goldens of every reference."""
    goldens = Goldens(golden or pipeline.GOLDEN)
    clips = pipeline.stimuli_of(families, None)
    return [
        dataclasses.asdict(goldens.state(item, clips[family.name]))
        for family in families
        for item in plan_family(family, against="fresh").references
    ]


def print_status(states: Iterable[Mapping[str, Any]]) -> None:
    """Print one line per reference."""
    table = Table("reference", "present", "missing", "orphans", "frozen because")
    for state in states:
        table.add_row(
            state["implementation"],
            str(len(state["present"])),
            ", ".join(state["missing"]) or "none",
            ", ".join(state["orphans"]) or "none",
            "; ".join(state["reasons"]),
        )
    Console().print(table)


def verify(
    families: Sequence[Family], runs: Path, golden: Path | None, progress: Listener
) -> tuple[Run, dict[str, Any]]:
    """Run the references alone and judge them; missing goldens are reported, not written."""
    request = pipeline.Request(
        families=tuple(families),
        references_only=True,
        runs=runs,
        golden=golden or pipeline.GOLDEN,
        command="parity golden verify",
        write_missing=False,
    )
    return pipeline.execute(request, progress)


def freeze(
    families: Sequence[Family], reason: str, runs: Path, golden: Path | None, progress: Listener
) -> list[Frozen]:
    """Run the references and write their observations as goldens. Raises ParityError without a reason."""
    if not reason.strip():
        raise ParityError("--reason", "nothing", "why the new observations are accepted", "say it in a sentence")
    request = pipeline.Request(
        families=tuple(families), references_only=True, runs=runs, against="fresh", command="parity golden freeze"
    )
    stored = pipeline.observe_only(request, progress)
    goldens = Goldens(golden or pipeline.GOLDEN)
    clips = pipeline.stimuli_of(families, None)
    return [
        item
        for family in families
        for item in goldens.freeze(
            stored, family, plan_family(family, against="fresh").references, clips[family.name], reason
        )
    ]


def print_frozen(written: Iterable[Frozen]) -> None:
    """Print what changed, golden by golden."""
    table = Table("reference", "clip", "change")
    for item in written:
        changes = ", ".join(f"{metric} {value:.3g}" for metric, value in item.change.items() if value)
        table.add_row(item.implementation, item.clip, "new" if item.is_new else changes or "none")
    Console().print(table)
