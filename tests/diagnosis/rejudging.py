"""A stored run judged again by a gates file that lacks one gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.diagnosis import faults
from harness.family import Family
from harness.gates import load_gates
from harness.pipeline import GOLDEN
from harness.runs import Run
from harness.tasks import load_task
from harness.verdicts import judge


def assess_again(family: Family, run: Run, folder: Path) -> dict[str, Any]:
    """What the stored run says with the gates of a folder."""
    gates = load_gates(folder, family, load_task(family.task).METRICS)
    verdict = judge(run, {family.name: family}, {family.name: gates})
    return faults.assess(family, gates, verdict["families"][0]["gates"], run)


def without_gate(name: str, family: str, folder: Path) -> Path:
    """A folder with the family's gates file less one gate."""
    first, *blocks = (GOLDEN / "gates" / f"{family}.toml").read_text().split("[[gate]]")
    kept = [block for block in blocks if f'name = "{name}"\n' not in block]
    assert len(kept) == len(blocks) - 1
    folder.mkdir(exist_ok=True)
    (folder / f"{family}.toml").write_text("[[gate]]".join([first, *kept]))
    return folder
