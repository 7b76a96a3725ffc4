"""What the laws are tried on: one place for every Hypothesis strategy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=6)
FLOAT_DTYPES = st.sampled_from([np.float16, np.float32, np.float64])
INTEGER_DTYPES = st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])


def float_arrays(shape: Any = SHAPES, dtype: Any = FLOAT_DTYPES) -> st.SearchStrategy[NDArray[Any]]:
    """Finite numbers of any size, subnormal ones and both zeros included."""
    finite = {"allow_nan": False, "allow_infinity": False}
    return st.one_of(dtype if isinstance(dtype, st.SearchStrategy) else st.just(dtype)).flatmap(
        lambda kind: hnp.arrays(kind, shape, elements=finite)
    )


def integer_arrays() -> st.SearchStrategy[NDArray[Any]]:
    return INTEGER_DTYPES.flatmap(lambda kind: hnp.arrays(kind, SHAPES))


def waveforms(min_samples: int = 1, max_samples: int = 3000) -> st.SearchStrategy[NDArray[np.float32]]:
    """Noise whose level changes along the way: cheap to draw, and unlike itself in every order."""
    return st.builds(
        _waveform,
        st.integers(min_samples, max_samples),
        st.integers(0, 2**32 - 1),
        st.floats(-60, 0),
    )


def _waveform(samples: int, seed: int, level_db: float) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    envelope = np.interp(np.linspace(0, 1, samples), np.linspace(0, 1, 9), random.random(9))
    return (10 ** (level_db / 20) * envelope * random.uniform(-1, 1, samples)).astype(np.float32)


def probabilities(min_chunks: int = 0, max_chunks: int = 120) -> st.SearchStrategy[NDArray[np.float32]]:
    """Runs of speech, silence and doubt, with values on and beside both thresholds."""
    runs = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.34, 0.35, 0.4, 0.499, 0.5, 0.51, 1.0]), st.integers(1, 12)))
    return runs.map(_unroll).filter(lambda values: min_chunks <= len(values) <= max_chunks)


def _unroll(runs: list[tuple[float, int]]) -> NDArray[np.float32]:
    return np.array([value for value, count in runs for _ in range(count)], dtype=np.float32)


def times_s(count: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(1e-4, 1e3), min_size=count, max_size=count)
