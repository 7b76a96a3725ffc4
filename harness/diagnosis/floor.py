"""Where the tolerances come from: how far the references are from themselves, and how far the smallest fault is.

Conventions: a gate's `floor` is its worst value over every reference against itself under changes that must not matter
(threads, precision, batches, blocks, one representable number of the input), over a repeated run, and over the primary
reference against the family's others; all implementations count, also for a gate that judges only some ports.
`smallest_fault` is the least value among the faults that the gate catches. A limit below the floor is `too tight`; one
that no fault exceeds is `blind`; between the two it is `sound`.

The suggested limit is the geometric mean of both, to two digits. Without a positive floor there is no mean: a floor of
0 says that equality can be asked for, and the present limit is kept. It is also kept where the mean would fail a port
that is known to be sound: the floor is the reference's, and such a port computes in another precision.
"""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.compare import ANY_METRIC
from harness.diagnosis import faults, gates_text
from harness.errors import ParityError
from harness.family import Family
from harness.gates import Gate, aggregate
from harness.observe import Listener
from harness.pipeline import gates_of
from harness.plan import REPEAT, Execution, FamilyPlan, Pair
from harness.runs import Run

Row = Mapping[str, Any]
Sides = tuple[str, str]


def measure(family: Family, listener: Listener, runs: Path, clips: Path | None, gates: Path) -> dict[str, Any]:
    """Run the references under every variation, and every fault; place each gate's limit between the two.

    clips: a folder, None for the project's own. gates: the folder of gates files. The run is stored under `runs` with
    its verdict and this content as `floor.json`.
    """
    run, rows = faults.observe_and_judge("floor", family, plan(family), listener, runs, clips, gates)
    content = assess(family, gates_of([family], gates)[family.name], rows, run)
    run.write_json("floor.json", content)
    return content


def exit_status(content: Mapping[str, Any]) -> int:
    """1 when a limit is too tight or blind, 2 when something could not be measured, else 0."""
    if any(gate["state"] in ("too tight", "blind") for gate in content["gates"]):
        return 1
    return 2 if content["unjudged"] else 0


def plan(family: Family) -> FamilyPlan:
    """The references as they are and varied, every fault, and every port without one."""
    primary, *others = family.references
    running = {item.name: Execution(item, repeats=True) for item in family.references}
    pairs = [Pair(name, name + REPEAT, "fresh") for name in running]
    pairs += [Pair(primary.name, item.name, "fresh") for item in others]
    for item in family.references:
        for variation in faults.variations(family, item):
            varied = faults.with_variation(item, variation)
            running[varied.name] = varied
            pairs.append(Pair(item.name, varied.name, "fresh"))
    for port in (*map(Execution, family.ports), *faults.planted(family)):
        base = faults.base_of(family, port)
        if base.name not in running:
            running[base.name] = base
            pairs.append(Pair(base.name, base.name + REPEAT, "fresh"))
        running[port.name] = port
        pairs.append(Pair(base.name, port.name, "fresh"))
    return FamilyPlan(family, tuple(running.values()), tuple(pairs))


def assess(family: Family, gates: Sequence[Gate], rows: Sequence[Row], run: Run) -> dict[str, Any]:
    """The content of `parity floor --json`, and what printing and writing need. rows: as in `verdict.json`."""
    by_port = faults.rows_by_port(rows)
    measured = _Measured(run)
    by_name: dict[str, list[Gate]] = defaultdict(list)
    for gate in gates:
        by_name[gate.name].append(gate)
    entries = [_gate(family, own, by_port, measured) for own in by_name.values()]
    outcomes = [item for item in run.read_json("implementations.json") if item["role"] == "reference"]
    return {
        "family": family.name,
        "run": str(run.folder),
        "versions": "; ".join(dict.fromkeys(item["version"] for item in outcomes if item["version"])),
        "gates": entries,
        "unjudged": [*_not_run(run), *faults.unsteady(rows), *_unmeasured(entries)],
    }


def _gate(
    family: Family, gates: Sequence[Gate], by_port: Mapping[str, Sequence[Row]], measured: _Measured
) -> dict[str, Any]:
    """One gate, in all its scopes."""
    gate = gates[0]
    floor, source = max(_self_distances(family, gates, measured), default=(math.nan, ""))
    effects = [
        (faults.effect_of(caught), execution.fault.name)
        for execution in faults.planted(family)
        if execution.fault and (caught := _failing(by_port[execution.name], gate.name))
    ]
    smallest, fault = min(effects, default=(math.inf, ""))
    ports = [row["value"] for port in family.ports for row in by_port[port.name] if row["gate"] == gate.name]
    suggested, note = _suggest(gate.limit, floor, smallest, max((value for value in ports if value), default=0.0))
    return {
        "gate": gate.name,
        "metric": gate.metric,
        "unit": gate.unit,
        "floor": faults.finite(floor),
        "floor_from": source if floor > 0 else "",
        "limit": gate.limit,
        "smallest_fault": faults.finite(smallest),
        "smallest_fault_name": fault,
        "state": _state(gate.limit, floor, fault),
        "suggested": suggested,
        "note": note,
    }


def _failing(rows: Iterable[Row], gate: str) -> list[Row]:
    return [row for row in rows if row["gate"] == gate and row["status"] == "fail"]


def _state(limit: float, floor: float, fault: str) -> str:
    if math.isnan(floor):
        return "not measured"
    if not floor <= limit:
        return "too tight"
    return "sound" if fault else "blind"


def _suggest(limit: float, floor: float, smallest: float, ports: float) -> tuple[float | None, str]:
    """The limit to write, None when there is none, and why it is not the geometric mean."""
    if math.isnan(floor):
        return None, "no reference yields this metric"
    if not floor < smallest:
        return None, "the smallest fault is not beyond the floor"
    if floor == 0 or math.isinf(smallest):
        why = "a floor of 0" if floor == 0 else "no fault with a number"
        return (limit, f"kept: {why}") if floor <= limit else (None, why)
    exact = math.sqrt(floor * smallest)
    rounded = float(f"{exact:.2g}")
    mean = rounded if floor <= rounded < smallest else exact
    if mean < ports <= limit:
        return limit, f"kept: {mean:g} would fail a port at {ports:.3g}"
    return mean, ""


def _self_distances(family: Family, gates: Sequence[Gate], measured: _Measured) -> Iterator[tuple[float, str]]:
    """A gate's value for each comparison that must not matter, with what was compared."""
    for sides, variation in _self_comparisons(family):
        for gate in gates:
            value = measured.value(gate, sides) if faults.applies(gate.metric, variation) else math.nan
            if not math.isnan(value):
                yield value, sides[1]


def _self_comparisons(family: Family) -> Iterator[tuple[Sides, Any]]:
    primary = family.references[0]
    for item in family.references:
        yield (item.name, item.name + REPEAT), None
        for variation in faults.variations(family, item):
            yield (item.name, faults.with_variation(item, variation).name), variation
        if item is not primary:
            yield (primary.name, item.name), None


class _Measured:
    """The measurements of a run. A gate that judges only some ports has no verdict on a reference, but it has these."""

    def __init__(self, run: Run) -> None:
        self._rows: dict[Sides, list[Row]] = defaultdict(list)
        for row in run.read_measurements():
            self._rows[row["reference"], row["port"]].append(row)

    def value(self, gate: Gate, sides: Sides) -> float:
        """The gate's value for a pair: NaN when it has none, infinity when something could not be compared."""
        rows = [row for row in self._rows[sides] if row["scope"] == gate.scope]
        own = [row for row in rows if row["metric"] == gate.metric]
        if any(row["state"] != "measured" for row in rows if row["metric"] in (gate.metric, ANY_METRIC)):
            return math.inf
        return aggregate(gate, [row["value"] for row in own], [row["clip"] for row in own])


def _not_run(run: Run) -> list[dict[str, str]]:
    return [
        {"name": item["name"], "gate": "", "reason": item["reason"]}
        for item in run.read_json("implementations.json")
        if item["status"] != "ran" and not item["fault"]
    ]


def _unmeasured(entries: Iterable[Row]) -> list[dict[str, str]]:
    return [
        {"name": "", "gate": entry["gate"], "reason": "no reference yields its metric"}
        for entry in entries
        if entry["state"] == "not measured"
    ]


def write_limits(content: Mapping[str, Any], gates: Path, reason: str, keep: bool = False) -> list[str]:
    """Store the suggested limits with their evidence in the family's gates file; returns a line for each gate.

    gates: the folder of gates files. keep: leave the limits as they are and store the evidence alone. Raises
    ParityError, and writes nothing, when the reason is empty, when there is no limit to suggest, or when one lies below
    its floor.
    """
    path = gates / f"{content['family']}.toml"
    if not reason.strip():
        raise ParityError(path, "no reason given", "why these limits are right", "use --reason")
    entries = [{**entry, "suggested": entry["limit"]} if keep else entry for entry in content["gates"]]
    changes = {entry["gate"]: _change(path, entry, content["versions"], reason) for entry in entries}
    gates_text.rewrite(path, changes)
    return [_line(entry) for entry in entries]


def _change(path: Path, entry: Row, versions: str, reason: str) -> dict[str, Any]:
    """The new limit and evidence of one gate."""
    limit, floor = entry["suggested"], entry["floor"]
    where = f"{path}: gate {entry['gate']}"
    if limit is None or floor is None:
        raise ParityError(where, f"no limit to suggest: {entry['note']}", "a floor below the smallest fault")
    if not floor <= limit:
        raise ParityError(where, f"limit {limit:g}", f"at least the floor {floor:g}", "the reference itself would fail")
    smallest = {} if entry["smallest_fault"] is None else {"smallest_fault": entry["smallest_fault"]}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"limit": limit, "evidence": {"floor": floor, **smallest, "date": date, "versions": versions,
                                         "reason": reason}}  # fmt: skip


def _line(entry: Row) -> str:
    if entry["suggested"] == entry["limit"]:
        return f"{entry['gate']}: {entry['limit']:g} {entry['note']}".rstrip()
    return f"{entry['gate']}: {entry['limit']:g} → {entry['suggested']:g}"
