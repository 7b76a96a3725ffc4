"""The page that shows what a run proves of a family's gates: the fault matrix, the scales, the taps of a trace, and
the stage of a pipeline that is to blame.

Conventions: it is made of whichever of `faults.json`, `floor.json`, `inject.json` and `trace.json` a run holds. What
JSON has no number for stands in them as null: a margin over a limit of 0, an output that could not be compared.
Positions and lengths are in the units of a drawing's `viewBox`. Every mark has a text, so that nothing is told by
colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ParityError
from harness.observations import read_observation
from harness.runs import Run
from reports.audio import Assets
from reports.details import DRAWINGS, UNDRAWN
from reports.details.panels import Sides
from reports.html import environment
from reports.stored import bounded, number
from reports.views import ClipView

PAGE = "proof.html"
# Each content with the command that writes it and what the page cannot do without.
CONTENTS: Mapping[str, tuple[str, frozenset[str]]] = {
    "faults.json": (
        "parity faults",
        frozenset({"family", "gates", "faults", "survived", "false_alarms", "unproven_gates", "redundant_gates",
                   "variations", "unjudged"}),
    ),
    "floor.json": ("parity floor", frozenset({"family", "gates", "unjudged"})),
    "inject.json": (
        "parity inject",
        frozenset({"family", "port", "clips", "status", "failing", "reasons", "stages", "blamed", "worst"}),
    ),
    "trace.json": (
        "parity trace",
        frozenset({"family", "port", "clip", "taps", "first_divergence", "explanations", "convincing", "notes"}),
    ),
}  # fmt: skip

SCALE_WIDTH, SCALE_EDGE = 440, 8
ZERO_WIDTH = 40  # between 0, which has no logarithm, and the first decade
LABELS = {"limit": "limit", "floor": "floor", "fault": "smallest fault"}
LABEL_Y = {"limit": 12, "floor": 46, "fault": 60}  # a line of text each, so that labels cannot cover each other
TAP_LABEL, TAP_SPAN, TAP_WIDTH, TAP_ROW, TAP_TOP = 236, 400, 900, 22, 20
LOWEST_TAP_DECADE = -9
MOST_DECADES = 14
TAP_NAME_CHARACTERS = 34
EXPLANATIONS_SHOWN = 12
TAP_SIGNS = {"agrees": "✓", "diverges": "✗", "inherited": "↳", "drift": "~", "unmatched": "–"}
CELL_SIGNS = {"fail": "●", "pass": "·"}

Content = Mapping[str, Any]


@dataclass(frozen=True)
class CellView:
    """A fault at a gate. sign, text: what stands in the cell; words: the same for who does not see it."""

    style: str
    sign: str
    text: str
    words: str
    title: str


@dataclass(frozen=True)
class FaultView:
    """A row of the matrix. smallest: the catching gate with the least margin, and its effect."""

    fault: Content
    cells: Sequence[CellView]
    smallest: str
    smallest_gate: str
    clips: str


@dataclass(frozen=True)
class Mark:
    """A value on a scale. kind: `floor`, `limit` or `fault`; anchor: which end of its text stands at x."""

    kind: str
    x: float
    y: int
    anchor: str
    text: str


@dataclass(frozen=True)
class GateView:
    """One gate's scale. ticks: whole decades. limit_x: None when the limit has no place."""

    gate: Content
    marks: Sequence[Mark]
    ticks: Sequence[float]
    limit_x: float
    log_from: float
    linear: bool
    label: str
    sentence: str


@dataclass(frozen=True)
class TapView:
    """One row of the divergence chart. width: of its bar; alone_x: where its stage's own error stands."""

    name: str
    y: int
    width: float
    floor_x: float
    alone_x: float | None
    status: str
    text: str
    first: bool


@dataclass(frozen=True)
class Axis:
    """Logarithmic from 10^low to 10^high, over `width` from `left`; what is not positive stands at `zero_x`."""

    low: int
    high: int
    left: float
    width: float
    zero_x: float

    def x(self, value: float) -> float:
        """Where a value stands, at an end when it is beyond it."""
        if value <= 0:
            return self.zero_x
        if math.isinf(value):
            return self.left + self.width
        return self._at(math.log10(value))

    def _at(self, exponent: float) -> float:
        share = (exponent - self.low) / (self.high - self.low)
        return round(self.left + min(max(share, 0.0), 1.0) * self.width, 1)

    @property
    def decades(self) -> list[tuple[float, str]]:
        """Where the decades stand, with their labels: every one, or as many as there is place for."""
        step = -(-(self.high - self.low) // MOST_DECADES)
        return [
            (self._at(decade), "1" if decade == 0 else f"1e{decade}") for decade in range(self.low, self.high + 1, step)
        ]


def write_proof(run: Run) -> Path:
    """Write `report/proof.html` from what a stored run holds of faults, floor, inject and trace; returns the page.

    No model is run. Raises ParityError when the run holds none of the four, when one is damaged, or when the page
    cannot be written.
    """
    found = _contents(run)
    text = environment().get_template("proof.html.j2").render(
        run=run.id,
        family=next(iter(found.values()))["family"],
        faults=found.get("faults.json"),
        fault_rows=fault_views(found["faults.json"]) if "faults.json" in found else [],
        floor=found.get("floor.json"),
        gate_rows=[gate_view(gate) for gate in found["floor.json"]["gates"]] if "floor.json" in found else [],
        trace=found.get("trace.json"),
        tap_rows=tap_views(found["trace.json"]) if "trace.json" in found else [],
        tap_axis=tap_axis(found["trace.json"]["taps"]) if "trace.json" in found else None,
        inject=found.get("inject.json"),
        worst=worst_clip(run, found["inject.json"]) if "inject.json" in found else None,
        absent=[(name, command) for name, (command, _) in CONTENTS.items() if name not in found],
        constants={
            "scale_width": SCALE_WIDTH, "scale_edge": SCALE_EDGE, "tap_label": TAP_LABEL, "tap_span": TAP_SPAN,
            "tap_width": TAP_WIDTH, "tap_row": TAP_ROW, "tap_top": TAP_TOP, "shown": EXPLANATIONS_SHOWN,
        },
        tap_signs=TAP_SIGNS,
    )  # fmt: skip
    page = run.folder / "report" / PAGE
    partial = page.with_name(f".partial-{PAGE}")
    try:
        page.parent.mkdir(exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(page)
    except OSError as error:
        raise ParityError(
            page, f"could not be written ({error.strerror or error})", remedy="free or choose space"
        ) from (error)
    return page


def _contents(run: Run) -> dict[str, Content]:
    found = {name: run.read_json(name) for name in CONTENTS if (run.folder / name).is_file()}
    if not found:
        commands = ", ".join(f"`{command}`" for command, _ in CONTENTS.values())
        raise ParityError(
            run.folder, f"holds none of {', '.join(CONTENTS)}", "a run of one of these", f"make one: {commands}"
        )
    for name, content in found.items():
        command, needed = CONTENTS[name]
        missing = needed - set(content) if isinstance(content, dict) else needed
        if missing:
            raise ParityError(
                run.folder / name, f"lacks {', '.join(sorted(missing))}", f"the content of `{command}`", "run it again"
            )
    return found


# The matrix.


def fault_views(content: Content) -> list[FaultView]:
    """The rows of the matrix: what survived first, what was caught last."""
    order = ("survived", "not judged", "caught")
    ordered = sorted(content["faults"], key=lambda fault: order.index(fault["status"]))
    return [_fault_view(fault, content["gates"]) for fault in ordered]


def _fault_view(fault: Content, gates: Sequence[str]) -> FaultView:
    by_gate = {cell["gate"]: cell for cell in fault["gates"]}
    catching = [cell for cell in fault["gates"] if cell["status"] == "fail"]
    least = min(catching, key=lambda cell: (_size(cell["margin"]), _size(cell["effect"])), default=None)
    amount = len(fault["clips"])
    return FaultView(
        fault,
        [_cell_view(by_gate.get(gate)) for gate in gates],
        _with_unit(least["effect"], least["unit"]) if least else "—",
        least["gate"] if least else "",
        f"all {amount}" if amount == fault["all_clips"] else f"{amount} of {fault['all_clips']}",
    )


def _cell_view(cell: Content | None) -> CellView:
    if cell is None:
        return CellView("none", "", "", "does not apply", "this gate does not judge this implementation")
    status = cell["status"]
    title = f"{cell['gate']}: {_with_unit(cell['effect'], cell['unit'])}, limit {number(cell['limit'])}"
    if status == "fail":
        margin = "∞" if cell["margin"] is None else f"{_times(cell['margin'])}×"
        return CellView("caught", CELL_SIGNS[status], margin, "caught", f"{title}; margin {margin}")
    if status == "pass":
        return CellView("quiet", CELL_SIGNS[status], "", "not caught", title)
    return CellView("doubt", "?", "", status, f"{title}; {status}: {bounded(cell['reason'], 300)}")


def _times(value: float) -> str:
    """A factor: 500, but 1.3e4."""
    return number(value, 2 if value >= 1000 else 3)


def _size(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _with_unit(value: float | None, unit: str) -> str:
    text = "not comparable" if value is None else number(value)
    return text if unit in ("", "1") or value is None else f"{text} {unit}"


# The scales.


def gate_view(gate: Content) -> GateView:
    """Floor, limit and smallest fault of one gate on one scale."""
    named = bool(gate["smallest_fault_name"])
    values = {
        "floor": gate["floor"] if gate["floor"] is not None else math.inf if gate["state"] == "too tight" else None,
        "limit": gate["limit"],
        "fault": gate["smallest_fault"] if gate["smallest_fault"] is not None else math.inf if named else None,
    }
    known = {kind: float(value) for kind, value in values.items() if value is not None}
    texts = {
        kind: f"{LABELS[kind]} {'not comparable' if math.isinf(value) else number(value)}"
        for kind, value in known.items()
    }
    linear = min(known.values()) < 0
    axis = None if linear else _gate_axis(known.values())
    marks = []
    for kind, value in known.items():
        x = axis.x(value) if axis else _linear_x(value, known.values())
        anchor = "start" if x < SCALE_WIDTH * 0.3 else "end" if x > SCALE_WIDTH * 0.7 else "middle"
        marks.append(Mark(kind, x, LABEL_Y[kind], anchor, texts[kind]))
    sentence = _sentence(gate, values)
    return GateView(
        gate,
        marks,
        [x for x, _ in axis.decades] if axis else [],
        next(mark.x for mark in marks if mark.kind == "limit"),
        axis.left if axis else SCALE_EDGE,
        linear,
        f"{gate['gate']}: {', '.join(mark.text for mark in marks)}; {sentence}",
        sentence,
    )


def _gate_axis(values: Iterable[float]) -> Axis:
    """An axis that holds the values; 0 is given a place of its own at the left end."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    low = math.floor(math.log10(min(positive, default=1.0)))
    high = math.ceil(math.log10(max(positive, default=1.0)))
    left = SCALE_EDGE + (ZERO_WIDTH if 0.0 in values else 0)
    return Axis(low - 1, max(high, low + 1) + 1, left, SCALE_WIDTH - SCALE_EDGE - left, SCALE_EDGE)


def _linear_x(value: float, values: Iterable[float]) -> float:
    finite = [item for item in values if math.isfinite(item)]
    low, high = min(finite), max(finite)
    if math.isinf(value):
        return SCALE_WIDTH - SCALE_EDGE
    span = (high - low) or 1.0
    return round(SCALE_EDGE + (0.1 + 0.8 * (value - low) / span) * (SCALE_WIDTH - 2 * SCALE_EDGE), 1)


def _sentence(gate: Content, values: Mapping[str, float | None]) -> str:
    """The state in words."""
    floor, limit, fault = values["floor"], gate["limit"], values["fault"]
    if gate["state"] == "too tight":
        return "the limit is below the floor: the reference itself would fail"
    if gate["state"] == "blind":
        return "no planted fault exceeds the limit: this gate has caught nothing"
    if gate["state"] != "sound" or floor is None:
        return "no reference yields this metric: its floor is not known"
    if limit <= 0 and floor <= 0:
        above = "the reference reproduces this exactly and equality is asked for"
    elif floor <= 0:
        above = "the reference reproduces this exactly"
    else:
        above = f"the limit is {_times(limit / floor)} times the floor"
    if fault is None or math.isinf(fault):
        return f"{above}; the smallest fault cannot be compared at all"
    return f"{above}; the smallest fault is " + (
        f"{_times(fault / limit)} times the limit" if limit > 0 else f"{number(fault)}"
    )


# The taps.


def tap_axis(taps: Sequence[Content]) -> Axis:
    """One axis for every error and floor of a trace."""
    known = (row[name] for row in taps for name in ("error", "floor", "isolated"))
    positive = [value for value in known if value is not None and value > 0]
    low = max(math.floor(math.log10(min(positive, default=1e-7))), LOWEST_TAP_DECADE)
    high = max(math.ceil(math.log10(max(positive, default=1.0))), 0)
    return Axis(min(low, high - 1), high, TAP_LABEL, TAP_SPAN, TAP_LABEL)


def tap_views(content: Content) -> list[TapView]:
    """The rows of the divergence chart, in execution order."""
    axis = tap_axis(content["taps"])
    rows = []
    for index, row in enumerate(content["taps"]):
        first = row["tap"] == content["first_divergence"]
        error, status = row["error"], row["status"]
        x = TAP_LABEL if status == "unmatched" else axis.x(_size(error))
        rows.append(
            TapView(
                bounded(row["tap"], TAP_NAME_CHARACTERS)
                if len(row["tap"]) <= TAP_NAME_CHARACTERS
                else _cut(row["tap"]),
                TAP_TOP + index * TAP_ROW,
                round(x - TAP_LABEL, 1),
                axis.x(_size(row["floor"])),
                None if row["isolated"] is None else axis.x(row["isolated"]),
                status,
                _tap_text(row, first),
                first,
            )
        )
    return rows


def _cut(name: str) -> str:
    """A tap's name, without its beginning when it is too long: its end tells more."""
    if len(name) > TAP_NAME_CHARACTERS:
        name = "…" + name[1 - TAP_NAME_CHARACTERS :]
    return bounded(name, TAP_NAME_CHARACTERS)


def _tap_text(row: Content, first: bool) -> str:
    if row["status"] == "unmatched":
        return f"– unmatched: {bounded(row['note'], 24)}"
    error = "not comparable" if row["error"] is None else "0 (exact)" if row["error"] == 0 else number(row["error"])
    words = "inherited, not blamed" if row["status"] == "inherited" else row["status"]
    return f"{TAP_SIGNS.get(row['status'], '?')} {error}  {'first divergence' if first else words}"


# The pipeline.


def worst_clip(run: Run, content: Content) -> ClipView | None:
    """The clip on which the ports' pipeline fails worst, drawn as in any report; writes its sounds beside the page."""
    if (worst := content["worst"]) is None:
        return None
    rows = [{**row, "value": math.nan if row["value"] is None else row["value"]} for row in worst["rows"]]
    try:
        sides = Sides(*(read_observation(run.observation(*_where(worst[side]))) for side in ("reference", "port")))
        clip = next(item for item in run.read_inputs(content["family"]) if item.id == worst["reference"]["clip"])
        task = next(plan["task"] for plan in run.read_json("run.json")["plans"])
    except (ParityError, OSError, StopIteration) as error:
        return ClipView(worst["clip"], None, True, rows, (), str(error))
    panels = DRAWINGS.get(task, UNDRAWN).draw(Assets(run.folder / "report" / "assets"), clip, sides, rows)
    return ClipView(worst["clip"], clip, True, rows, panels, "")


def _where(side: Content) -> tuple[str, str]:
    return side["execution"], side["clip"]
