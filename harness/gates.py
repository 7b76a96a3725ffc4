"""Gates: limits on measurements, with their rationale, read from `golden/gates/<family>.toml`.

Conventions: a gate passes when `aggregate(values) <= limit`, so that NaN fails. `aggregation` is `worst` (the largest
value over clips and places), `p95` (the 95th percentile by linear interpolation), or `rate` (the share of clips whose
worst value exceeds `clip_limit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.errors import ParityError
from harness.family import Family
from harness.tomlfile import read_toml

Aggregation = Literal["worst", "p95", "rate"]
AGGREGATIONS = ("worst", "p95", "rate")
SCOPES = ("clips", "signals")
KINDS = ("fresh", "frozen")
REQUIRED = ("name", "metric", "unit", "limit", "aggregation", "scope", "rationale")
OPTIONAL = ("clip_limit", "implementations", "excluded", "others_if_offered", "against", "evidence")


@dataclass(frozen=True)
class Gate:
    """A limit on one metric over the clips of one scope.

    excluded: those it does not apply to. others_if_offered: whether it also judges those not named that yield the
    metric. implementations: the ports (or references in a port's place) it applies to, empty for all. against: whether
    it applies to comparisons with a `fresh` reference, with a `frozen` golden, or both. evidence: what the limit was
    placed between.
    """

    name: str
    metric: str
    unit: str
    limit: float
    aggregation: Aggregation
    scope: str
    rationale: str
    clip_limit: float = math.nan
    implementations: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    others_if_offered: bool = False
    against: tuple[str, ...] = KINDS
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def applies_to(self, port: str, kind: str) -> bool:
        """Whether it judges this implementation (`family/name`) in a comparison of this kind."""
        named = not self.implementations or port in self.implementations or self.others_if_offered
        return named and port not in self.excluded and kind in self.against

    def requires(self, port: str) -> bool:
        """Whether this implementation must yield the metric; another is judged by it where it offers the output."""
        return not self.implementations or port in self.implementations


def load_gates(folder: Path, family: Family, metrics: Mapping[str, str]) -> list[Gate]:
    """Read a family's gates.

    metrics: metric → unit, what the family's task can measure. Raises ParityError for a missing or damaged file, an
    unknown key, metric, unit, scope, aggregation or implementation, a limit that is not a number, and a name used
    twice.
    """
    path = folder / f"{family.name}.toml"
    table = read_toml(path, f"the gates of {family.name} as [[gate]] tables", "restore it, or name --gates")
    if unknown := sorted(set(table) - {"gate"}):
        raise ParityError(path, f"unknown keys {unknown}", "[[gate]] tables only", "mend the file")
    entries = table.get("gate", [])
    if not entries:
        raise ParityError(path, "no gates in this file", "at least one [[gate]]", "a family without gates cannot pass")
    gates = [gate for entry in entries for gate in _gates_of(path, entry, family, metrics)]
    seen: set[tuple[str, str]] = set()
    for gate in gates:
        if (gate.name, gate.scope) in seen:
            raise ParityError(path, f"gate {gate.name} is there twice", "one gate per name", "rename one")
        seen.add((gate.name, gate.scope))
    return gates


def _gates_of(path: Path, entry: Any, family: Family, metrics: Mapping[str, str]) -> list[Gate]:
    if not isinstance(entry, dict):
        raise ParityError(path, f"gate is {entry!r}", "a [[gate]] table", "mend the file")
    where = f"{path}: gate {entry.get('name', '(without name)')}"
    if missing := [key for key in REQUIRED if key not in entry]:
        raise ParityError(where, f"keys {missing} are missing", f"{list(REQUIRED)}", "add them")
    if unknown := sorted(set(entry) - {*REQUIRED, *OPTIONAL}):
        raise ParityError(where, f"unknown keys {unknown}", f"{[*REQUIRED, *OPTIONAL]}", "remove or rename them")
    _check_numbers(where, entry)
    if entry["metric"] not in metrics:
        raise ParityError(where, f"metric {entry['metric']}", f"one of {sorted(metrics)}", "see docs/metrics.md")
    if entry["unit"] != metrics[entry["metric"]]:
        raise ParityError(where, f"unit {entry['unit']!r}", f"{metrics[entry['metric']]!r}", "state the metric's own")
    if entry["aggregation"] not in AGGREGATIONS:
        raise ParityError(where, f"aggregation {entry['aggregation']!r}", f"one of {list(AGGREGATIONS)}")
    if not str(entry["rationale"]).strip():
        raise ParityError(where, "an empty rationale", "where the limit comes from")
    known = [item.name for item in family.implementations]
    for key in ("implementations", "excluded"):
        if strange := sorted(set(entry.get(key, ())) - set(known)):
            raise ParityError(where, f"{key} {strange}", f"of {known}", "mend the names")
    if not isinstance(entry.get("others_if_offered", False), bool):
        raise ParityError(where, f"others_if_offered is {entry['others_if_offered']!r}", "true or false", "mend it")
    scopes = _names(where, "scope", entry["scope"], SCOPES)
    fields = {
        **entry,
        "implementations": tuple(entry.get("implementations", ())),
        "excluded": tuple(entry.get("excluded", ())),
        "against": _names(where, "against", entry.get("against", list(KINDS)), KINDS),
    }
    return [Gate(**{**fields, "scope": scope}) for scope in scopes]


def _names(where: str, key: str, value: Any, known: Sequence[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or (strange := sorted(set(names) - set(known))):
        raise ParityError(where, f"{key} {strange if names else value!r}", f"one of {list(known)}", "mend it")
    return names


def _check_numbers(where: str, entry: Mapping[str, Any]) -> None:
    keys = ["limit"] + (["clip_limit"] if entry["aggregation"] == "rate" else [])
    for key in keys:
        value = entry.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ParityError(where, f"{key} is {value!r}", "a finite number", "state it")
    if "clip_limit" in entry and entry["aggregation"] != "rate":
        raise ParityError(where, "clip_limit without aggregation rate", "clip_limit only with rate", "remove it")


def placement(gate: Gate) -> str:
    """Where the limit lies between what was measured: `sound`, `too tight`, `blind`, or `` when nothing is recorded."""
    floor, smallest = gate.evidence.get("floor"), gate.evidence.get("smallest_fault")
    if floor is None:
        return ""
    if gate.limit < floor:
        return "too tight"
    return "blind" if smallest is not None and gate.limit >= smallest else "sound"


def aggregate(gate: Gate, values: Sequence[float], clips: Sequence[str]) -> float:
    """One number for a gate from the values of its clips, NaN when any value is NaN or there is none."""
    if not values or any(math.isnan(value) for value in values):
        return math.nan
    if gate.aggregation == "worst":
        return max(values)
    if gate.aggregation == "p95":
        return _percentile(values, 0.95)
    exceeding = {clip for clip, value in zip(clips, values, strict=True) if not value <= gate.clip_limit}
    return len(exceeding) / len(set(clips))


def _percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between neighbours, of which either may be infinite."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    low, high = ordered[below], ordered[math.ceil(position)]
    if low == high or math.isinf(high):
        return high
    return low + (high - low) * (position - below)
