"""The judge phase: gates applied to measurements. Pure: a stored run and a gates file give the same verdict anywhere.

Conventions: a gate's status is `fail` when a value exceeds its limit or cannot be compared because of the port; `error`
when it could not be judged (a crash, a missing measurement); `not-run` when a side did not run; `inconclusive` when the
reference does not reproduce itself within the same limit. Only `pass` is a pass.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare import ANY_METRIC
from harness.family import Family
from harness.gates import SCOPES, Gate, aggregate, placement
from harness.plan import FROZEN, REPEAT, Pair, bare, execution_of, reproducing_command
from harness.runs import Run

Row = Mapping[Any, Any]

# From best to worst; the worst of several is their common status.
ORDER = ("pass", "not-run", "inconclusive", "not-comparable", "error", "fail")


def worst(statuses: Sequence[str], empty: str = "error") -> str:
    """The worst of some statuses; `empty` when there are none, since nothing passes vacuously."""
    return max(statuses, key=ORDER.index, default=empty)


def exit_status(statuses: Sequence[str]) -> int:
    """0 when every status is pass, 1 when one is fail, else 2; an empty list is 2."""
    status = worst(statuses)
    return {"pass": 0, "fail": 1}.get(status, 2)


@dataclass(frozen=True)
class Judgement:
    """One gate applied to one pair."""

    gate: str
    metric: str
    unit: str
    scope: str
    reference: str
    port: str
    value: float | None
    limit: float
    clips: int
    status: str
    reason: str
    worst_clip: str = ""
    worst_place: str = ""


def judge(run: Run, families: Mapping[str, Family], gates: Mapping[str, Sequence[Gate]]) -> dict[str, Any]:
    """Judge a run's measurements and write `verdict.json`; returns its content."""
    rows = run.read_measurements()
    outcomes = {item["name"]: item for item in run.read_json("implementations.json")}
    request = run.read_json("run.json")
    command = functools.partial(reproducing_command, request)
    verdicts = []
    for record in request["plans"]:
        family = families[record["family"]]
        pairs = [Pair(**item) for item in record["pairs"]]
        judgements = judge_family(
            family, pairs, gates[family.name], rows, outcomes, command, _frozen_scopes(run, request, family)
        )
        judgements += [_judge_goldens(name, **state) for name, state in record["goldens"].items()]
        verdict = _family_verdict(family, record, judgements, outcomes)
        verdicts.append({**verdict, "deviations": _deviations(rows, pairs), "findings": _findings(gates[family.name])})
    statuses = [verdict["status"] for verdict in verdicts]
    counts = Counter(row["status"] for verdict in verdicts for row in verdict["gates"])
    verdict = {
        "run": run.id,
        "status": worst(statuses),
        "exit_status": exit_status(statuses),
        "counts": {status: counts[status] for status in ORDER},
        "families": verdicts,
    }
    run.write_json("verdict.json", verdict)
    return verdict


def _offers(gate: Gate, rows: Iterable[Row]) -> bool:
    return any(row["metric"] in (gate.metric, ANY_METRIC) for row in rows)


def _judge_goldens(reference: str, present: Sequence[str], missing: Sequence[str]) -> Judgement:
    """A golden that was missing when the run began is a failure of that run."""
    reason = f"missing: {', '.join(missing)}; review and commit what was written, then run again" if missing else ""
    return Judgement(
        gate="goldens",
        metric="goldens_missing",
        unit="clips",
        scope="clips",
        reference=reference + FROZEN,
        port=reference,
        value=float(len(missing)),
        limit=0.0,
        clips=len(present) + len(missing),
        status="fail" if missing else "pass",
        reason=reason,
    )


def judge_family(
    family: Family,
    pairs: Sequence[Pair],
    gates: Sequence[Gate],
    rows: Iterable[Row],
    outcomes: Mapping[str, Mapping[str, Any]],
    command: Callable[[Pair], str],
    frozen_scopes: Collection[str] = SCOPES,
) -> list[Judgement]:
    """Every gate on every pair that it applies to.

    rows: measurements as `compare` stores them. outcomes: how each execution ended, by name. command: what runs a pair
    again. frozen_scopes: the scopes in which goldens can be expected.
    """
    grouped: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["family"] == family.name:
            grouped[row["reference"], row["port"], row["scope"]].append(row)
    judgements = [
        _judge_gate(gate, pair, grouped[pair.reference, pair.port, gate.scope], outcomes, command(pair))
        for pair in pairs
        for gate in gates
        if gate.applies_to(bare(pair.port), pair.kind)
        and (pair.kind != "frozen" or gate.scope in frozen_scopes)
        and (gate.requires(bare(pair.port)) or _offers(gate, grouped[pair.reference, pair.port, gate.scope]))
    ]
    judgements = [_same_object(family, judgement) for judgement in judgements]
    unsteady = {
        (judgement.gate, judgement.scope, judgement.reference): judgement
        for judgement in judgements
        if judgement.port.endswith(REPEAT) and judgement.status == "fail"
    }
    return [_doubt(judgement, unsteady) for judgement in judgements]


def _same_object(family: Family, judgement: Judgement) -> Judgement:
    """Two names for one implementation agree with themselves: that proves nothing."""
    names = bare(judgement.reference), bare(judgement.port)
    factories = {family.implementation(name).factory for name in names}
    if names[0] == names[1] or len(factories) > 1:
        return judgement
    reason = f"both sides are {factories.pop()}: a comparison of an object with itself"
    return Judgement(**{**vars(judgement), "status": "not-comparable", "reason": reason})


def _doubt(judgement: Judgement, unsteady: Mapping[tuple[str, str, str], Judgement]) -> Judgement:
    """A reference that does not reproduce itself within a gate makes that gate's other results inconclusive."""
    cause = unsteady.get((judgement.gate, judgement.scope, judgement.reference))
    if cause is None or judgement.port.endswith(REPEAT):
        return judgement
    reason = f"the reference differs from itself by {cause.value} {cause.unit} on a second run"
    return Judgement(**{**vars(judgement), "status": "inconclusive", "reason": reason})


def _judge_gate(
    gate: Gate, pair: Pair, rows: Sequence[Row], outcomes: Mapping[str, Mapping[str, Any]], command: str
) -> Judgement:
    measured = [row for row in rows if row["metric"] == gate.metric]
    broken = [
        row
        for row in rows
        if row["metric"] == ANY_METRIC or (row["metric"] == gate.metric and row["state"] != "measured")
    ]
    value = aggregate(gate, [row["value"] for row in measured], [row["clip"] for row in measured])
    status, reason = _status(gate, pair, value, measured, broken, outcomes)
    at = _worst_row(measured)
    if status == "fail" and not broken and at:
        reason = _explain(gate, pair, at, value, command)
    return Judgement(
        gate=gate.name,
        metric=gate.metric,
        unit="share of clips" if gate.aggregation == "rate" else gate.unit,
        scope=gate.scope,
        reference=pair.reference,
        port=pair.port,
        value=float(value) if math.isfinite(value) else None,
        limit=gate.limit,
        clips=len({row["clip"] for row in measured}),
        status=status,
        reason=reason,
        worst_clip=str(at["clip"]) if at else "",
        worst_place=str(at["place"]) if at else "",
    )


def _worst_row(measured: Sequence[Row]) -> Row | None:
    """The row of the largest value, NaN above all."""
    return max(measured, key=lambda row: math.inf if math.isnan(row["value"]) else row["value"], default=None)


def _status(
    gate: Gate,
    pair: Pair,
    value: float,
    measured: Sequence[Row],
    broken: Sequence[Row],
    outcomes: Mapping[str, Mapping[str, Any]],
) -> tuple[str, str]:
    for side in (pair.reference, pair.port):
        outcome = outcomes.get(execution_of(side))
        if outcome and outcome["status"] == "not-run" and not side.endswith(FROZEN):
            return "not-run", f"{side}: {outcome['reason']}"
    if broken:
        first = min(broken, key=lambda row: row["state"])  # `invalid` comes before `missing`
        clips = len({row["clip"] for row in broken})
        reason = f"{first['clip']}, {first['place']}: {first['detail']} ({clips} clips)"
        if first["state"] == "missing":
            outcome = outcomes.get(execution_of(str(first["place"])), {})
            return "error", outcome.get("reason") or reason
        return "fail", reason
    if not measured:
        return "error", f"no observation yields {gate.metric} on {gate.scope}"
    if value <= gate.limit:
        return "pass", ""
    return "fail", f"obtained {value:.3g} {gate.unit}, expected at most {gate.limit:g}"


def _explain(gate: Gate, pair: Pair, at: Row, value: float, command: str) -> str:
    """Clip, implementation, tensor, obtained, expected, remedy."""
    summary = f"{gate.aggregation} {value:.3g}, " if gate.aggregation != "worst" else ""
    detail = f" ({at['detail']})" if at["detail"] else ""
    unit = "" if gate.unit == "1" else f" {gate.unit}"
    return (
        f"{at['clip']}, {pair.port}, {at['place']}: {summary}obtained {at['value']:.6g}{unit}{detail}, expected "
        f"at most {gate.limit:g}; reproduce with `{command}`"
    )


def _frozen_scopes(run: Run, request: Mapping[str, Any], family: Family) -> set[str]:
    """Where goldens can be expected: a user's own clips have none, and are judged against the fresh reference.

    Who asks for goldens alone gets no such leave: there a scope without goldens is an error, not a pass.
    """
    if request["against"] != "both":
        return set(SCOPES)
    return {clip["scope"] for clip in run.read_json(f"inputs/{family.name}/clips.json") if clip["golden"]}


def _findings(gates: Iterable[Gate]) -> list[dict[str, Any]]:
    """The gates whose recorded floor and smallest fault do not enclose their limit."""
    wrong = {gate.name: gate for gate in gates if placement(gate) in ("too tight", "blind")}
    return [
        {"gate": name, "state": placement(gate), "limit": gate.limit, **gate.evidence} for name, gate in wrong.items()
    ]


def _deviations(rows: Iterable[Row], pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """The largest value of every metric between a port and the reference it is known to deviate from."""
    known = {(pair.reference, pair.port) for pair in pairs if pair.kind == "deviation"}
    largest: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row["reference"], row["port"], row["metric"]
        if key[:2] in known and math.inf > row["value"] > largest.get(key, {"value": 0.0})["value"]:
            largest[key] = row
    return [
        {key: row[key] for key in ("reference", "port", "metric", "value", "unit", "clip")} for row in largest.values()
    ]


def _family_verdict(
    family: Family,
    record: Mapping[str, Any],
    judgements: Sequence[Judgement],
    outcomes: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    implementations = [_implementation(name, judgements, outcomes) for name in record["running"]]
    statuses = [item["status"] for item in implementations]
    return {
        "family": family.name,
        "status": worst(statuses),
        "implementations": implementations,
        "gates": [vars(judgement) for judgement in judgements],
    }


def _implementation(
    name: str, judgements: Sequence[Judgement], outcomes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """An implementation's status is the worst of its gates, and of how it ran."""
    outcome = outcomes[name]
    references = {key for key, item in outcomes.items() if item["role"] == "reference"}
    own = [row for row in judgements if name in _judged(row, references)]
    statuses = [row.status for row in own]
    if outcome["status"] != "ran":
        statuses.append(outcome["status"])
    failing = next((row for row in own if row.status == worst(statuses) and row.status != "pass"), None)
    reason = outcome["reason"] or (f"{failing.gate}: {failing.reason}" if failing else "")
    if not statuses:
        reason = "no gate applies to it"
    return {
        "name": name,
        "role": outcome["role"],
        "status": worst(statuses),
        "reason": reason,
        "version": outcome["version"],
        "fault": outcome["fault"],
        "clips": outcome["clips"],
        "load_s": outcome["load_s"],
    }


def _judged(row: Judgement, references: set[str]) -> set[str]:
    """The implementations a row speaks of: the port, and between references both."""
    sides = {execution_of(row.port), execution_of(row.reference)}
    return sides if sides <= references else {execution_of(row.port)}
