"""What a family declares: its task, its implementations, and the faults that prove its gates.

A family is data. The engine knows tasks and runs implementations by their declaration; it knows no model.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.errors import ParityError

Role = Literal["reference", "port"]


@dataclass(frozen=True)
class Implementation:
    """One way to run a family.

    name: `family/name`. factory: `module:attribute`, called in the worker, without arguments or with the name of a
    variant. variant: for a port that loads other weights than the reference's own, or keeps a documented upstream bug,
    the variant of the reference that it is judged against. variants: for a reference,
    those it can run as, each with the input rates it takes. packages:
    distributions whose versions are recorded. rates_hz: the input rates it takes, None for any. timeout_s: longest time
    for one clip. threads: numerical threads of its worker. remedy: the command that installs what it needs.
    python_path: folders put in front of the worker's module path. overlay: the overlay environment it runs in.
    """

    name: str
    role: Role
    factory: str
    variant: str = ""
    variants: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    rates_hz: tuple[int, ...] | None = None
    timeout_s: float = 60.0
    load_timeout_s: float = 180.0
    threads: int = 1
    remedy: str = ""
    python_path: tuple[str, ...] = ()
    overlay: str = ""

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def short_name(self) -> str:
        """The part of the name after the slash."""
        return self.name.partition("/")[2]

    def accepts(self, rate_hz: int, variant: str = "") -> bool:
        """Whether it takes input at this rate, as itself or as a variant."""
        rates_hz = self.variants[variant] if variant else self.rates_hz
        return rates_hz is None or rate_hz in rates_hz


@dataclass(frozen=True)
class Replacement:
    """One attribute of an implementation's module exchanged in the worker.

    target: `module:attribute` that is replaced. value: the constant put there; or replacement: `module:attribute` of
    the function put there, called with the original as its first argument when `wraps` is set.
    """

    target: str
    value: Any = None
    replacement: str = ""
    wraps: bool = False

    def plant(self) -> None:
        """Replace the target in this process. Raises ParityError when there is no such attribute to replace."""
        module_name, _, path = self.target.partition(":")
        *owners, attribute = path.split(".")
        owner: Any = importlib.import_module(module_name)
        for name in owners:
            owner = getattr(owner, name)
        if not hasattr(owner, attribute):
            raise ParityError(self.target, "there is nothing to replace", "an attribute that exists", "mend it")
        replacement = resolve(self.replacement) if self.replacement else self.value
        if self.wraps:
            replacement = _bind(replacement, getattr(owner, attribute))
        setattr(owner, attribute, replacement)


@dataclass(frozen=True)
class Fault:
    """A named defect, planted to prove that a gate can fail. seen: where porters really made it."""

    name: str
    description: str
    implementation: str
    seen: str
    change: Replacement


@dataclass(frozen=True)
class Variation:
    """A change that must not matter: how far it moves an implementation is the floor of its gates.

    implementations: whom it applies to, everyone when empty. threads: numerical threads instead of the declared ones.
    ulp: representable numbers by which every input sample is moved. change: something exchanged in the worker, such as
    the whole computation in float64 or in batches.
    """

    name: str
    description: str
    implementations: tuple[str, ...] = ()
    threads: int | None = None
    ulp: int = 0
    change: Replacement | None = None


def _bind(replacement: Any, original: Any) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    return wrapped


@dataclass(frozen=True)
class Stage:
    """One tap of a port and what it is computed from, for `parity trace`.

    tap: its name at the reference. inputs: the taps before it, by their names at the reference; none for a tap that is
    made of the clip alone. function: `module:attribute`, called in the worker as function(port, taps, samples, rate_hz)
    with all taps of the reference; gives the port's own value of this tap. Empty when the port cannot run it alone.
    port_tap: its name at the port, when it is another. axes: the order in which the port's axes give the reference's.
    """

    tap: str
    inputs: tuple[str, ...] = ()
    function: str = ""
    port_tap: str = ""
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class PipelineStage:
    """One stage of a pipeline, for `parity inject`.

    name: what it is called. family: whose implementations run it. reference, port: their short names; an empty port is
    the one that the user names. tensor, rate_hz: which of its outputs becomes the next stage's clip, and the rate of
    that clip; of the last stage, empty.
    """

    name: str
    family: str
    reference: str
    port: str = ""
    tensor: str = ""
    rate_hz: int = 0


@dataclass(frozen=True)
class Pipeline:
    """Stages in order, as a product runs them; the last one's family judges. rates_hz: of the clips it is given."""

    stages: tuple[PipelineStage, ...]
    rates_hz: tuple[int, ...]


@dataclass(frozen=True)
class Pinned:
    """A hub repository's files at one commit."""

    revision: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointSource:
    """Where a family's weights come from.

    name: of the fixture that the project makes. make: `module:function(folder)` that writes it; digests: the sha256 of
    every file it writes. prepare: `module:function(source, folder)` that checks a user's file or folder and writes it
    in the fixture's form. hub: repositories that may be named, each at its pinned revision. chosen: the path or
    repository that the user named, empty for the fixture.
    """

    name: str
    make: str
    digests: Mapping[str, str]
    prepare: str = ""
    hub: Mapping[str, Pinned] = field(default_factory=dict)
    chosen: str = ""


@dataclass(frozen=True)
class Family:
    """A model or component under test. The first reference is the one that ports are compared with by default.

    variations: changes that must not matter. stages: what ports offer to a trace, by port; a port that is not named is
    traced by the names of its taps. pipeline: the stages in front of this family, None when nothing is. checkpoint: the
    weights that every implementation is constructed with, None when packages bring their own. proof_clips: those of the
    project's clips that are enough to prove its gates, for a family that is slow; all when empty.
    """

    name: str
    description: str
    task: str
    implementations: tuple[Implementation, ...]
    faults: tuple[Fault, ...] = ()
    variations: tuple[Variation, ...] = ()
    stages: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    pipeline: Pipeline | None = None
    checkpoint: CheckpointSource | None = None
    proof_clips: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [item.name for item in self.implementations]
        for name in names:
            if names.count(name) > 1:
                raise ParityError(self.name, f"implementation {name} is declared twice", remedy="rename one")
            if not name.startswith(f"{self.name}/"):
                raise ParityError(self.name, f"implementation {name}", f"a name {self.name}/…", "rename it")
        offered = {"", *(name for item in self.references for name in item.variants)}
        for port in self.ports:
            if port.variant not in offered:
                raise ParityError(port.name, f"variant {port.variant}", f"one that a reference offers: {offered}")
        if not self.references:
            raise ParityError(self.name, "no reference is declared", "at least one implementation of role reference")

    @property
    def references(self) -> tuple[Implementation, ...]:
        """Implementations of role reference, the primary one first."""
        return tuple(item for item in self.implementations if item.role == "reference")

    @property
    def ports(self) -> tuple[Implementation, ...]:
        """Implementations of role port."""
        return tuple(item for item in self.implementations if item.role == "port")

    def implementation(self, name: str) -> Implementation:
        """Look up `family/name` or the short name. Raises ParityError when there is none."""
        for item in self.implementations:
            if name in (item.name, item.short_name):
                return item
        known = ", ".join(item.name for item in self.implementations)
        raise ParityError(self.name, f"no implementation {name}", f"one of {known}", "see `parity list`")

    def fault(self, name: str) -> Fault:
        """Look up a fault by name. Raises ParityError when there is none."""
        for item in self.faults:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.faults)
        raise ParityError(self.name, f"no fault {name}", f"one of {known}", "see `parity list --faults`")


def resolve(reference: str) -> Any:
    """Import `module:attribute`. Raises ParityError when the form is wrong or the attribute is not there."""
    module_name, separator, attribute = reference.partition(":")
    if not separator:
        raise ParityError(reference, "not of the form module:attribute", "for example ports.resampler:Libsoxr")
    value: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise ParityError(reference, f"{module_name} has no {attribute}", "an attribute that exists", "mend it")
        value = getattr(value, name)
    return value
