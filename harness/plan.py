"""What a run will do: which implementations run, and which pairs are compared.

A pair is named by its two sides: `family/name` for a fresh observation, `family/name@repeat` for the second run of a
reference, `family/name@frozen` for its golden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    """One way in which an implementation runs.

    checkpoint: the weights it is told to load, empty for its own. suffix: empty when it runs plainly, else `@…`, which
    names the variant. repeats: whether it runs a second time, backwards through the clips.
    """

    implementation: Implementation
    checkpoint: str = ""
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
    def references(self) -> list[Execution]:
        """The references that run."""
        return [item for item in self.running if item.implementation.role == "reference"]

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
    frozen: Callable[[Execution], bool] = lambda _: False,
) -> FamilyPlan:
    """Plan one family.

    ports: short or full names, all when empty. reference: the one to compare with, else the first declared and,
    besides, every other. frozen: whether a reference has goldens for these clips. Raises ParityError for unknown names.
    """
    references = [family.implementation(reference)] if reference else list(family.references)
    if wrong := [item.name for item in references if item.role != "reference"]:
        raise ParityError(wrong[0], "is a port", "a reference", "see `parity list`")
    chosen = [family.implementation(name) for name in ports] or list(family.ports)
    chosen = [item for item in chosen if item not in references]
    planted = {fault.implementation: fault for fault in map(family.fault, faults)}

    def execution(item: Implementation, checkpoint: str = "") -> Execution:
        suffix = f"@{checkpoint}" if checkpoint else ""
        return Execution(item, checkpoint, suffix, planted.get(item.name), repeats=item.role == "reference")

    # The first reference runs on its own weights and on those of every port that brings others.
    checkpoints = dict.fromkeys(item.checkpoint for item in chosen if item.checkpoint)
    primary = {name: execution(references[0], name) for name in ("", *checkpoints)}
    others = [execution(item) for item in references[1:]]
    running_ports = [execution(item) for item in chosen]
    golden = {item.name for item in (*primary.values(), *others) if against != "fresh" and frozen(item)}

    pairs = []
    if against != "frozen":
        for item in (*primary.values(), *others):
            pairs += [Pair(item.name + FROZEN, item.name, "frozen")] if item.name in golden else []
            pairs.append(Pair(item.name, item.name + REPEAT, "fresh"))
        pairs += [Pair(references[0].name, item.name, "fresh") for item in others]
    for port in running_ports:
        base = primary[port.implementation.checkpoint]
        pairs += [Pair(base.name, port.name, "fresh")] if against != "frozen" else []
        pairs += [Pair(base.name + FROZEN, port.name, "frozen")] if base.name in golden else []
    running = running_ports if against == "frozen" else [*primary.values(), *others, *running_ports]
    if unused := set(planted) - {item.implementation.name for item in running}:
        raise ParityError(family.name, f"fault planted in {sorted(unused)}, which does not run", "a running one")
    return FamilyPlan(family, tuple(running), tuple(pairs))


def bare(side: str) -> str:
    """`family/name` of a side of a pair."""
    return side.partition("@")[0]


def execution_of(side: str) -> str:
    """The name of the execution that made a side's observations."""
    return side.removesuffix(REPEAT)
