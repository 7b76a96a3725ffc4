"""One number from comparing two observations.

Conventions: every value is an error or an excess, so that smaller is better and a gate is `value <= limit`. A value
that could not be computed because the port's output has the wrong shape, length or dtype, or is missing, is NaN with
`state="invalid"` and a detail that says why; a NaN never passes a gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["measured", "invalid", "missing"]


@dataclass(frozen=True)
class Measurement:
    """One measured value.

    metric: name as gates use it, for example `max_abs`. unit: `1`, `dB`, `samples`, `ms`, … place: the tensor or tap it
    was measured on. detail: a sentence for the report (worst index with both values, why a value is NaN). state:
    `measured`; `invalid` when the port's output cannot be compared (the port's fault); `missing` when there is no
    observation at all (the implementation crashed or did not run).
    """

    metric: str
    unit: str
    place: str
    value: float
    detail: str = ""
    state: State = "measured"
