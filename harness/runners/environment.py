"""The environment a worker gets: everything that changes numerics is set or removed, and recorded.

Conventions: thread counts are set for every runtime that reads one; variables that steer a resampler's kernels are
removed. `OPENBLAS_CORETYPE` is left as it is found, because it guards some processors against wrong kernels, and is
recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
REMOVED_VARIABLES = (
    "SOXR_USE_SIMD", "SOXR_USE_SIMD32", "SOXR_USE_SIMD64", "SOXR_MIN_DFT_SIZE", "SOXR_LARGE_DFT_SIZE",
    "SOXR_COEFS_SIZE", "SOXR_NUM_THREADS", "SOXR_COEF_INTERP", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE",
    "ATEN_CPU_CAPABILITY", "TORCH_ALLOW_TF32", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "OMP_DYNAMIC",
    "OMP_SCHEDULE", "KMP_AFFINITY", "LD_PRELOAD",
)  # fmt: skip
RECORDED_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES", "MALLOC_ARENA_MAX")


def worker_environment(threads: int, python_path: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment of one worker, from this process's own."""
    environment = {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES}
    environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    environment["PYTHONHASHSEED"] = "0"
    # The packages of this project stand beside each other: a worker finds them wherever it is started.
    root = str(Path(__file__).resolve().parents[2])
    inherited = [path for path in (environment.get("PYTHONPATH"),) if path]
    environment["PYTHONPATH"] = os.pathsep.join([*python_path, root, *inherited])
    return environment


def recorded_variables() -> Mapping[str, str]:
    """Numerics-changing variables found in this process's environment, removed from the workers or not."""
    names = (*THREAD_VARIABLES, *REMOVED_VARIABLES, *RECORDED_VARIABLES)
    return {name: os.environ[name] for name in names if name in os.environ}
