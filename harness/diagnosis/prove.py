"""Both proofs of a family from one run: the gates catch the faults, and each limit lies between floor and fault.

`parity faults` and `parity floor` share most of what they run, the faults above all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.diagnosis import faults, floor
from harness.family import Family
from harness.observe import Listener
from harness.pipeline import gates_of
from harness.plan import FamilyPlan
from harness.runs import Run


def prove(family: Family, listener: Listener, runs: Path, clips: Path | None, gates: Path) -> dict[str, Any]:
    """What `faults.prove` and `floor.measure` give, as `faults` and `floor`; stored in one run as either would."""
    run, rows = faults.observe_and_judge("prove", family, plan(family), listener, runs, clips, gates)
    content = assess(family, gates, rows, run)
    for name in ("faults", "floor"):
        run.write_json(f"{name}.json", content[name])
    return content


def assess(family: Family, gates: Path, rows: list[faults.Row], run: Run) -> dict[str, Any]:
    """Both contents from what the gates said. rows: as in `verdict.json`."""
    limits = gates_of([family], gates)[family.name]
    content = {"faults": faults.assess(family, limits, rows, run), "floor": floor.assess(family, limits, rows, run)}
    return {"family": family.name, "run": str(run.folder), **content}


def exit_status(content: dict[str, Any]) -> int:
    """1 when either proof fails, 2 when something could not be judged, else 0."""
    statuses = faults.exit_status(content["faults"]), floor.exit_status(content["floor"])
    return 1 if 1 in statuses else max(statuses)


def plan(family: Family) -> FamilyPlan:
    """All that either proof runs and compares, once."""
    parts = faults.plan(family), floor.plan(family)
    running = {execution.name: execution for part in parts for execution in part.running}
    # A reference that either part runs twice is run twice.
    running |= {item.name: item for part in parts for item in part.running if item.repeats}
    pairs = dict.fromkeys(pair for part in parts for pair in part.pairs)
    return FamilyPlan(family, tuple(running.values()), tuple(pairs))
