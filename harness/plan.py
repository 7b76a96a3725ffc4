"""What a run will do: which implementations run, and which pairs are compared.

A pair is named by its two sides: `family/name` for a fresh observation, `family/name@variant` for a reference that runs
as a variant, `…+name` for one with a planted fault or under a variation, and at the end `@repeat` for the second run of
a reference or `@frozen` for its golden. `@given` names what a port makes of the reference's product, `@given-port` what
the reference makes of a port's.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import ParityError
from harness.family import Family, Fault, Implementation, Replacement, Variation

Against = Literal["frozen", "fresh", "both"]
PROJECT_CLIPS = "golden/clips"
REPEAT = "@repeat"
FROZEN = "@frozen"
GIVEN = "@given"


@dataclass(frozen=True)
class Pair:
    """Two sides to compare.

    kind: `fresh` or `frozen`, what the reference side is; `deviation` for a port against the reference that it is known
    to deviate from: measured and shown, judged by no gate.
    """

    reference: str
    port: str
    kind: Literal["fresh", "frozen", "deviation"]


@dataclass(frozen=True)
class Execution:
    """One way in which an implementation runs.

    variant: what it is told to run as, empty for itself. suffix: empty when it runs plainly, else `@…`, which names
    how it runs. repeats: whether it runs a second time, backwards through the clips.
    """

    implementation: Implementation
    variant: str = ""
    suffix: str = ""
    fault: Fault | None = None
    variation: Variation | None = None
    repeats: bool = False

    @property
    def name(self) -> str:
        """What this side of a pair is called."""
        return self.implementation.name + self.suffix

    @property
    def threads(self) -> int:
        """Numerical threads of its worker."""
        varied = self.variation.threads if self.variation else None
        return varied or self.implementation.threads

    @property
    def changes(self) -> list[Replacement]:
        """What is exchanged in its worker."""
        return [item.change for item in (self.fault, self.variation) if item and item.change]

    def accepts(self, rate_hz: int) -> bool:
        """Whether it takes input at this rate."""
        return self.implementation.accepts(rate_hz, self.variant)


@dataclass(frozen=True)
class FamilyPlan:
    """One family's part of a run: what is executed, and what is compared.

    both_ways: whether a reference is also given what the ports made, where the task exchanges products.
    """

    family: Family
    running: tuple[Execution, ...]
    pairs: tuple[Pair, ...]
    both_ways: bool = False

    @property
    def references(self) -> list[Execution]:
        """The references that run."""
        return [item for item in self.running if item.implementation.role == "reference"]

    def record(self) -> dict[str, Any]:
        """What `run.json` keeps of it."""
        return {
            "family": self.family.name,
            "task": self.family.task,
            "checkpoint": self.family.checkpoint.chosen if self.family.checkpoint else "",
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
    references_only: bool = False,
) -> FamilyPlan:
    """Plan one family.

    ports: short or full names, all when empty. reference: the one to compare with, else the first declared and,
    besides, every other. frozen: whether a reference has goldens for these clips.
    references_only: run no port, but every variant of the reference that the ports are judged against. Raises
    ParityError for unknown names.
    """
    references = [family.implementation(reference)] if reference else list(family.references)
    if wrong := [item.name for item in references if item.role != "reference"]:
        raise ParityError(wrong[0], "is a port", "a reference", "see `parity list`")
    chosen = [family.implementation(name) for name in ports] or list(family.ports)
    chosen = [item for item in chosen if item not in references]
    planted = {fault.implementation: fault for fault in map(family.fault, faults)}

    def execution(item: Implementation, variant: str = "") -> Execution:
        suffix = f"@{variant}" if variant else ""
        return Execution(item, variant, suffix, planted.get(item.name), repeats=item.role == "reference")

    # The first reference runs as itself, and as every variant that a port is judged against.
    variants = dict.fromkeys(item.variant for item in chosen if item.variant)
    primary = {name: execution(references[0], name) for name in ("", *variants)}
    others = [execution(item) for item in references[1:]]
    running_ports = [] if references_only else [execution(item) for item in chosen]
    golden = {item.name for item in (*primary.values(), *others) if against != "fresh" and frozen(item)}

    pairs = []
    if against != "frozen":
        for item in (*primary.values(), *others):
            pairs += [Pair(item.name + FROZEN, item.name, "frozen")] if item.name in golden else []
            pairs.append(Pair(item.name, item.name + REPEAT, "fresh"))
        pairs += [Pair(references[0].name, item.name, "fresh") for item in others]
    for port in running_ports:
        base = primary[port.implementation.variant]
        pairs += [Pair(base.name, port.name, "fresh")] if against != "frozen" else []
        pairs += [Pair(base.name + FROZEN, port.name, "frozen")] if base.name in golden else []
        if base.suffix and against != "frozen":
            pairs.append(Pair(references[0].name, port.name, "deviation"))
    running = running_ports if against == "frozen" else [*primary.values(), *others, *running_ports]
    if unused := set(planted) - {item.implementation.name for item in running}:
        raise ParityError(family.name, f"fault planted in {sorted(unused)}, which does not run", "a running one")
    return FamilyPlan(family, tuple(running), tuple(pairs), both_ways=True)


def bare(side: str) -> str:
    """`family/name` of a side of a pair."""
    return side.partition("@")[0].partition("+")[0]


def execution_of(side: str) -> str:
    """The execution that a side speaks of: without `@repeat` and `@frozen`."""
    return side.removesuffix(REPEAT).removesuffix(FROZEN)


def reproducing_command(request: Mapping[str, Any], pair: Pair) -> str:
    """The command that runs a pair again. request: the content of `run.json`, or nothing when that is lost."""
    family, _, port = bare(pair.port).partition("/")
    words = ["parity", "run", family, "--port", port]
    if (clips := request.get("clips", PROJECT_CLIPS)) != PROJECT_CLIPS:
        words += ["--clips", clips]
    if (against := request.get("against", "both")) != "both":
        words += ["--against", against]
    planned: list[Mapping[str, Any]] = [item for item in request.get("plans", ()) if item["family"] == family]
    faults = planned[0]["faults"] if planned else {}
    if planned and (checkpoint := planned[0].get("checkpoint")):
        words += ["--checkpoint", checkpoint]
    sides = dict.fromkeys((execution_of(pair.port), execution_of(pair.reference)))
    for fault in (faults[side] for side in sides if side in faults):
        words += ["--plant", fault]
    return shlex.join(words)


def variant_of(side: str) -> str:
    """The variant that a side ran as, empty for itself."""
    return execution_of(side).partition("@")[2].partition("+")[0]
