"""Do the gates catch what porters get wrong, and nothing else: every declared fault against every gate.

Conventions: a fault is caught by the gates that fail on it; a gate that could not be judged catches nothing. `margin`
is value / limit, None in JSON when the limit is 0 or the output could not be compared at all. A port without a fault,
as it is and under every variation that applies to it, must pass every gate: what fails there is a false alarm.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.compare import ANY_METRIC, compare
from harness.errors import ParityError
from harness.family import Family, Implementation, Variation
from harness.gates import Gate
from harness.observe import Listener
from harness.pipeline import Request, gates_of, observe_only
from harness.plan import REPEAT, Execution, FamilyPlan, Pair, execution_of
from harness.runs import Run
from harness.verdicts import ORDER, judge

PLAIN = "plain"  # what a run without any variation is called among the variations
# These compare the output with the clip itself, so that an input moved on purpose is an error by definition.
AGAINST_THE_INPUT = frozenset({"identity_max_abs"})

Row = Mapping[str, Any]


def prove(family: Family, listener: Listener, runs: Path, clips: Path | None, gates: Path) -> dict[str, Any]:
    """Run every fault, and every port under every variation; judge them by every gate.

    clips: a folder, None for the project's own. gates: the folder of gates files. The run is stored under `runs` with
    its verdict and this content as `faults.json`. Raises ParityError for a family without faults.
    """
    if not family.faults:
        raise ParityError(family.name, "declares no faults", "at least one", "its gates cannot prove themselves")
    run, rows = observe_and_judge("faults", family, plan(family), listener, runs, clips, gates)
    content = assess(family, gates_of([family], gates)[family.name], rows, run)
    run.write_json("faults.json", content)
    return content


def exit_status(content: Mapping[str, Any]) -> int:
    """1 when a fault survived or an alarm is false, 2 when something could not be judged, else 0."""
    if content["survived"] or content["false_alarms"]:
        return 1
    return 2 if content["unjudged"] else 0


# What runs.


def plan(family: Family) -> FamilyPlan:
    """Every fault; every port as it is and varied; the references that they are judged against."""
    ports = [
        with_variation(port, variation) for port in family.ports for variation in (None, *variations(family, port))
    ]
    runs_of = [*planted(family), *ports]
    bases = {base.name: base for base in (base_of(family, item) for item in runs_of)}
    steady = [Pair(name, name + REPEAT, "fresh") for name in bases]
    pairs = [Pair(base_of(family, item).name, item.name, "fresh") for item in runs_of]
    return FamilyPlan(family, (*bases.values(), *runs_of), (*steady, *pairs))


def planted(family: Family) -> list[Execution]:
    """One execution for each fault."""
    made = []
    for fault in family.faults:
        implementation = family.implementation(fault.implementation)
        made.append(Execution(implementation, suffix=f"+{fault.name}", fault=fault))
    return made


def with_variation(implementation: Implementation, variation: Variation | None) -> Execution:
    """An implementation under a variation, or as it is."""
    return Execution(implementation, suffix=f"+{variation.name}" if variation else "", variation=variation)


def variations(family: Family, implementation: Implementation) -> list[Variation]:
    """The variations that apply to an implementation."""
    return [
        item for item in family.variations if not item.implementations or implementation.name in item.implementations
    ]


def base_of(family: Family, execution: Execution) -> Execution:
    """What an execution is compared with: the primary reference, as the variant its port is judged against."""
    variant = execution.implementation.variant
    return Execution(family.references[0], variant, f"@{variant}" if variant else "", repeats=True)


def observe_and_judge(
    command: str, family: Family, planned: FamilyPlan, listener: Listener, runs: Path, clips: Path | None, gates: Path
) -> tuple[Run, list[Row]]:
    """Make a run of a plan, compare and judge it; the run, and a row for each gate and pair as in `verdict.json`."""
    limits = gates_of([family], gates)  # read first: a damaged file should not cost a run
    request = Request(
        (family,), clips=clips, against="fresh", runs=runs, gates=gates, command=f"parity {command} {family.name}",
        write_missing=False, only=() if clips else family.proof_clips,
    )  # fmt: skip
    run = observe_only(request, listener, [planned])
    compare(run, {family.name: family})
    verdict = judge(run, {family.name: family}, limits)
    return run, verdict["families"][0]["gates"]


# What it means.


def assess(family: Family, gates: Sequence[Gate], rows: Sequence[Row], run: Run) -> dict[str, Any]:
    """The content of `parity faults --json`, and what printing needs. rows: as in `verdict.json`."""
    by_port = rows_by_port(rows)
    exceeding = _Exceeding(run, gates)
    faults = [_fault(execution, by_port[execution.name], exceeding) for execution in planted(family)]
    names = list(dict.fromkeys(gate.name for gate in gates))
    caught = [set(fault["caught_by"]) for fault in faults if fault["caught_by"]]
    varied = list(_varied(family, by_port))
    return {
        "family": family.name,
        "run": str(run.folder),
        "gates": names,
        "faults": faults,
        "survived": [fault["fault"] for fault in faults if fault["status"] == "survived"],
        "false_alarms": [_alarm(name, row) for name, row in varied if row["status"] == "fail"],
        "unproven_gates": [name for name in names if not any(name in catching for catching in caught)],
        "redundant_gates": [name for name in names if {name} not in caught],
        "variations": list(dict.fromkeys(name for name, _ in varied)),
        "unjudged": [*unsteady(rows), *_unjudged(faults, varied)],
    }


def rows_by_port(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of `verdict.json` by the side that is judged."""
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row["port"]].append(row)
    return grouped


def effect_of(rows: Iterable[Row]) -> float:
    """The largest value of a gate's rows; what could not be compared at all is infinitely far."""
    return max(math.inf if row["value"] is None else float(row["value"]) for row in rows)


def unsteady(rows: Iterable[Row]) -> list[dict[str, str]]:
    """The references that do not reproduce themselves, or did not run: nothing can be said with them."""
    return [
        {"name": row["reference"], "gate": row["gate"], "reason": row["reason"]}
        for row in rows
        if row["port"].endswith(REPEAT) and row["status"] != "pass"
    ]


def _fault(execution: Execution, rows: Sequence[Row], exceeding: _Exceeding) -> dict[str, Any]:
    """One line of the matrix."""
    fault = execution.fault
    assert fault
    cells = list(_cells(rows))
    catching = [cell for cell in cells if cell["status"] == "fail"]
    strongest = max(catching, key=_strength, default=None)
    unjudged = [cell for cell in cells if cell["status"] not in ("pass", "fail")]
    status = "caught" if catching else "not judged" if unjudged or not cells else "survived"
    return {
        "fault": fault.name,
        "description": fault.description,
        "implementation": fault.implementation,
        "seen": fault.seen,
        "status": status,
        "reason": "" if status != "not judged" else unjudged[0]["reason"] if unjudged else "no gate applies to it",
        "caught_by": [cell["gate"] for cell in catching],
        "strongest_gate": strongest["gate"] if strongest else "",
        "effect": finite(strongest["effect"]) if strongest else None,
        "unit": strongest["unit"] if strongest else "",
        "margin": finite(strongest["margin"]) if strongest else None,
        "clips": exceeding.clips(execution.name, rows),
        "all_clips": exceeding.everything(execution.name),
        "gates": [{**cell, "effect": finite(cell["effect"]), "margin": finite(cell["margin"])} for cell in cells],
    }


def _cells(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The rows of each gate, which may have two scopes, as one cell of the matrix."""
    by_gate: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_gate[row["gate"]].append(row)
    for name, own in by_gate.items():
        worst = max(own, key=lambda row: (ORDER.index(row["status"]), effect_of([row])))
        effect = effect_of(row for row in own if row["status"] == worst["status"])
        yield {
            "gate": name,
            "status": worst["status"],
            "effect": effect,
            "unit": worst["unit"],
            "limit": worst["limit"],
            "margin": effect / worst["limit"] if worst["limit"] > 0 else math.inf,
            "reason": worst["reason"],
        }


def _strength(cell: Mapping[str, Any]) -> tuple[float, bool, float]:
    """Among equal margins, a number says more than that nothing could be compared."""
    return cell["margin"], math.isfinite(cell["effect"]), cell["effect"]


def finite(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None


def _varied(family: Family, by_port: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, Row]]:
    """The rows of every port without a fault, each with the name of its variation."""
    for port in family.ports:
        for variation in (None, *variations(family, port)):
            for row in by_port.get(with_variation(port, variation).name, ()):
                if applies(row["metric"], variation):
                    yield variation.name if variation else PLAIN, row


def applies(metric: str, variation: Variation | None) -> bool:
    """Whether a metric means something under a variation."""
    return not (variation and variation.ulp and metric in AGAINST_THE_INPUT)


def _alarm(variation: str, row: Row) -> dict[str, Any]:
    port = execution_of(row["port"]).partition("+")[0]
    shown = {key: row[key] for key in ("value", "limit", "unit", "scope", "worst_clip", "reason")}
    return {"variation": variation, "gate": row["gate"], "port": port, **shown}


def _unjudged(faults: Iterable[Mapping[str, Any]], varied: Iterable[tuple[str, Row]]) -> Iterator[dict[str, str]]:
    for fault in faults:
        if fault["status"] == "not judged":
            yield {"name": fault["fault"], "gate": "", "reason": fault["reason"]}
    seen = set()
    for _, row in varied:
        if row["status"] not in ("pass", "fail") and (row["port"], row["reason"]) not in seen:
            seen.add((row["port"], row["reason"]))
            yield {"name": row["port"], "gate": row["gate"], "reason": row["reason"]}


class _Exceeding:
    """On which clips of a run a gate's metric is beyond its limit."""

    def __init__(self, run: Run, gates: Sequence[Gate]) -> None:
        self._gates = {(gate.name, gate.scope): gate for gate in gates}
        self._measured: dict[str, list[Row]] = defaultdict(list)
        for row in run.read_measurements():
            self._measured[row["port"]].append(row)

    def clips(self, port: str, rows: Iterable[Row]) -> list[str]:
        """Those of the gates that fail, in the order of the run."""
        failing = [self._gates[row["gate"], row["scope"]] for row in rows if row["status"] == "fail"]
        return list(
            dict.fromkeys(row["clip"] for row in self._measured[port] if any(_exceeds(gate, row) for gate in failing))
        )

    def everything(self, port: str) -> int:
        """How many clips there are."""
        return len({row["clip"] for row in self._measured[port]})


def _exceeds(gate: Gate, row: Row) -> bool:
    if row["scope"] != gate.scope or row["metric"] not in (gate.metric, ANY_METRIC) or row["state"] == "missing":
        return False
    limit = gate.clip_limit if gate.aggregation == "rate" else gate.limit
    return not row["value"] <= limit
