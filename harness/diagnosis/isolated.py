"""Planted in a worker: a port's `taps` gives each stage alone, fed with the reference's taps of the same clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.family import resolve
from harness.observations import TAP_PREFIX, read_observation

# The observation folder whose taps are fed, and the stages as `Stage` states them; planted before `isolated`.
FOLDER = ""
STAGES: Sequence[Mapping[str, Any]] = ()


def isolated(
    original: Callable[..., Any], port: Any, samples: NDArray[np.float32], rate_hz: int
) -> dict[str, NDArray[Any]]:
    """In place of a port's `taps`: each stage that can run alone, by its name at the port."""
    observation = read_observation(Path(FOLDER))
    taps = {tap: observation.tensors[TAP_PREFIX + tap] for tap in observation.taps}
    return {
        stage["port_tap"] or stage["tap"]: resolve(stage["function"])(port, taps, samples, rate_hz)
        for stage in STAGES
        if stage["function"] and all(tap in taps for tap in stage["inputs"])
    }
