"""What a run will do: which implementations run, and which pairs are compared.

A pair is named by its two sides: `family/name` for a fresh observation, `family/name@repeat` for the second run of a
reference, `family/name@frozen` for its golden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class Execution:
    """One way in which an implementation runs. suffix: empty when it runs plainly, else `@…`, which names the variant.
    repeats: whether it runs a second time, backwards through the clips."""

    implementation: Implementation
    suffix: str = ""
    fault: Fault | None = None
    repeats: bool = False

    @property
    def name(self) -> str:
        """What this side of a pair is called."""
        return self.implementation.name + self.suffix


@dataclass(frozen=True)
class FamilyPlan:
    """One family's part of a run: what is executed, and what is compared."""

    family: Family
    running: tuple[Execution, ...]
    pairs: tuple[Pair, ...]

    @property
    def references(self) -> list[Implementation]:
        """The references that run."""
        return [item.implementation for item in self.running if item.implementation.role == "reference"]

    def record(self) -> dict[str, Any]:
        """What `run.json` keeps of it."""
        return {
            "family": self.family.name,
            "running": [item.name for item in self.running],
            "pairs": [vars(pair) for pair in self.pairs],
            "faults": {item.name: item.fault.name for item in self.running if item.fault},
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
    planted = {fault.implementation: fault for fault in map(family.fault, faults)}
    golden = [item for item in references if item.name in set(frozen)]
    fresh = against != "frozen"
    pairs = _reference_pairs(references, golden if against != "fresh" else []) if fresh else []
    primary = references[0]
    for port in chosen_ports:
        if fresh:
            pairs.append(Pair(primary.name, port.name, "fresh"))
        if against != "fresh" and primary in golden:
            pairs.append(Pair(primary.name + FROZEN, port.name, "frozen"))
    running = [*references, *chosen_ports] if fresh else chosen_ports
    if unused := set(planted) - {item.name for item in running}:
        raise ParityError(family.name, f"fault planted in {sorted(unused)}, which does not run", "a running one")
    executions = [Execution(item, fault=planted.get(item.name), repeats=item.role == "reference") for item in running]
    return FamilyPlan(family, tuple(executions), tuple(pairs))


def _reference_pairs(references: Sequence[Implementation], golden: Sequence[Implementation]) -> list[Pair]:
    pairs = []
    for item in references:
        if item in golden:
            pairs.append(Pair(item.name + FROZEN, item.name, "frozen"))
        pairs.append(Pair(item.name, item.name + REPEAT, "fresh"))
    pairs += [Pair(references[0].name, other.name, "fresh") for other in references[1:]]
    return pairs


def bare(side: str) -> str:
    """`family/name` of a side of a pair."""
    return side.partition("@")[0]


def execution_of(side: str) -> str:
    """The name of the execution that made a side's observations."""
    return side.removesuffix(REPEAT)
