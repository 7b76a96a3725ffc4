"""Family `resampler`: soxr's HQ recipe as librosa calls it, and a port that calls the system's libsoxr."""

from __future__ import annotations

from harness.family import Family, Implementation

LIBSOXR_REMEDY = "apt-get install libsoxr0"

FAMILY = Family(
    name="resampler",
    description="Sample rate conversion by soxr HQ, as librosa.resample does it by default",
    task="resampler",
    implementations=(
        Implementation(
            "resampler/librosa",
            "reference",
            "references.resampler:Librosa",
            packages=("librosa", "soxr", "numpy"),
            remedy='pip install "speech-parity[resampler]"',
        ),
        Implementation(
            "resampler/python-soxr",
            "reference",
            "references.resampler:PythonSoxr",
            packages=("soxr", "numpy"),
            remedy='pip install "speech-parity[resampler]"',
        ),
        Implementation(
            "resampler/libsoxr",
            "port",
            "ports.resampler:Libsoxr",
            packages=("numpy",),
            remedy=LIBSOXR_REMEDY,
        ),
    ),
)
