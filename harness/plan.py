"""What a run will do: which implementations run, and which pairs are compared.

A pair is named by its two sides: `family/name` for a fresh observation, `family/name@repeat` for the second run of a
reference, `family/name@frozen` for its golden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import ParityError
from harness.family import Family, Fault, Implementation

Against = Literal["frozen", "fresh", "both"]
REPEAT = "@repeat"
FROZEN = "@frozen"


@dataclass(frozen=True)
class Pair:
    """Two sides to compare. kind: `fresh` or `frozen`, what the reference side is."""

    reference: str
    port: str
    kind: Literal["fresh", "frozen"]


@dataclass(frozen=True)
class FamilyPlan:
    """One family's part of a run. running: the implementations that are executed. faults: planted, by
    implementation."""

    family: Family
    running: tuple[Implementation, ...]
    pairs: tuple[Pair, ...]
    faults: Mapping[str, Fault]

    def repeats(self, implementation: Implementation) -> bool:
        """Whether this implementation is run twice."""
        return any(pair.port == implementation.name + REPEAT for pair in self.pairs)

    def record(self) -> dict[str, Any]:
        """What `run.json` keeps of it."""
        return {
            "family": self.family.name,
            "running": [item.name for item in self.running],
            "pairs": [{"reference": p.reference, "port": p.port, "kind": p.kind} for p in self.pairs],
            "faults": {name: fault.name for name, fault in self.faults.items()},
        }


def plan_family(
    family: Family,
    ports: Sequence[str] = (),
    reference: str | None = None,
    against: Against = "both",
    faults: Iterable[str] = (),
    frozen: Iterable[str] = (),
) -> FamilyPlan:
    """Plan one family.

    ports: short or full names, all when empty. reference: the one to compare with, else the first declared and,
    besides, every other. frozen: names of the references that have goldens for these clips. Raises ParityError for
    unknown names.
    """
    chosen_ports = [family.implementation(name) for name in ports] or list(family.ports)
    references = [family.implementation(reference)] if reference else list(family.references)
    if wrong := [item.name for item in references if item.role != "reference"]:
        raise ParityError(wrong[0], "is a port", "a reference", "see `parity list`")
    chosen_ports = [item for item in chosen_ports if item not in references]
    planted = {}
    for name in faults:
        fault = family.fault(name)
        planted[fault.implementation] = fault
    golden = [item for item in references if item.name in set(frozen)]
    fresh = against != "frozen"
    pairs = _reference_pairs(references, golden if against != "fresh" else []) if fresh else []
    primary = references[0]
    for port in chosen_ports:
        if fresh:
            pairs.append(Pair(primary.name, port.name, "fresh"))
        if against != "fresh" and primary in golden:
            pairs.append(Pair(primary.name + FROZEN, port.name, "frozen"))
    running = (*references, *chosen_ports) if fresh else tuple(chosen_ports)
    if unused := set(planted) - {item.name for item in running}:
        raise ParityError(family.name, f"fault planted in {sorted(unused)}, which does not run", "a running one")
    return FamilyPlan(family, tuple(running), tuple(pairs), planted)


def _reference_pairs(references: Sequence[Implementation], golden: Sequence[Implementation]) -> list[Pair]:
    pairs = []
    for item in references:
        if item in golden:
            pairs.append(Pair(item.name + FROZEN, item.name, "frozen"))
        pairs.append(Pair(item.name, item.name + REPEAT, "fresh"))
    pairs += [Pair(references[0].name, other.name, "fresh") for other in references[1:]]
    return pairs


def bare(name: str) -> str:
    """`family/name` of a side of a pair."""
    return name.partition("@")[0]
