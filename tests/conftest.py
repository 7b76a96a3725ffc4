"""Shared by all tests: the real clips when they are there, and Hypothesis profiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]
REAL_CLIPS = PROJECT.parent / "shared" / "clips" / "librispeech-20"

# The machine is noisy: no example may fail for being slow.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000)
settings.load_profile("default")


@pytest.fixture
def real_clips() -> Path:
    """Twenty real utterances, when they lie beside the project."""
    if not REAL_CLIPS.is_dir():
        pytest.skip(f"no real clips at {REAL_CLIPS.name} beside the project")
    return REAL_CLIPS


@pytest.fixture(scope="session")
def short_clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three short clips: noise bursts at 16 and 24 kHz, one of them stereo."""
    folder = tmp_path_factory.mktemp("short-clips")
    rng = np.random.default_rng(7)
    for name, rate_hz, channels in (("one", 16000, 1), ("two", 24000, 1), ("three", 24000, 2)):
        envelope = np.hanning(rate_hz // 2)[:, None]
        soundfile.write(
            folder / f"{name}.flac", 0.5 * envelope * rng.uniform(-1, 1, (len(envelope), channels)), rate_hz
        )
    return folder
