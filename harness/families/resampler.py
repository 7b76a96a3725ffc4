"""Family `resampler`: soxr's HQ recipe as librosa calls it, and a port that calls the system's libsoxr."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.family import Family, Fault, Implementation, Replacement, Variation

REMEDY = 'pip install "speech-parity[resampler]"'
PORT = "resampler/libsoxr"
HERE = "harness.families.resampler"
# The bug that this family exists for: a filter close enough for the ear, not for the codec behind it.
APPROXIMATE = "a port's approximate resampler in front of a codec changed its codes from frame 23 on"
COMMON = "common in ports that write the formula from the documentation instead of from the code"

HALF_WIDTH = 16  # zero crossings of the Kaiser windowed sinc on either side
KAISER_BETA = 8.6
SOXR_DOUBLE_PRECISION = 16  # a flag of soxr_quality_spec
VARIED_BLOCK_SAMPLES = 509  # another size than the task's own blocks


def _fault(name: str, description: str, seen: str, target: str, **plant: Any) -> Fault:
    return Fault(name, description, PORT, seen, Replacement(f"ports.resampler:{target}", **plant))


FAULTS = (
    _fault("lq-instead-of-hq", "quality NULL for soxr_oneshot, which means LQ", COMMON, "RECIPE", value=1),
    _fault("mq-instead-of-hq", "the medium recipe", COMMON, "RECIPE", value=2),
    _fault("kaiser-sinc", "a Kaiser windowed sinc of half-width 16", APPROXIMATE, "convert",
           replacement=f"{HERE}:kaiser_sinc"),
    _fault("linear-interpolation", "neighbouring samples interpolated, no filter", APPROXIMATE, "convert",
           replacement=f"{HERE}:linear_interpolation"),
    _fault("resample-poly", "scipy.signal.resample_poly with its default filter", APPROXIMATE, "convert",
           replacement=f"{HERE}:resample_poly"),
    _fault("exact-rational-ceil", "the length as an exact rational: 80 instead of 81 samples", COMMON, "output_length",
           replacement=f"{HERE}:exact_length"),
    _fault("own-length", "soxr's own length, without the zero padding", COMMON, "output_length",
           replacement=f"{HERE}:own_length"),
    _fault("no-flush", "what the filter still holds is never asked for: a short tail", COMMON, "flush",
           replacement=f"{HERE}:no_flush"),
    _fault("one-sample-delay", "the output one sample late", COMMON, "convert",
           replacement=f"{HERE}:delayed", wraps=True),
    _fault("sqrt-ratio-scale", "scaled by the root of the ratio, as scale=True does", COMMON, "convert",
           replacement=f"{HERE}:scaled", wraps=True),
    _fault("handle-per-block", "a fresh handle for every block of a stream", COMMON, "Libsoxr.stream",
           replacement=f"{HERE}:handle_per_block", wraps=True),
    _fault("int16-input", "the input rounded to 16-bit integers on the way in", COMMON, "Libsoxr.stream",
           replacement=f"{HERE}:through_int16", wraps=True),
    _fault("int16-units", "the output in units of 16-bit integers", COMMON, "convert",
           replacement=f"{HERE}:in_int16_units", wraps=True),
    _fault("float64-output", "computed and returned in float64", COMMON, "convert",
           replacement=f"{HERE}:in_float64", wraps=True),
    _fault("channels-swapped", "left and right exchanged", COMMON, "convert",
           replacement=f"{HERE}:swapped", wraps=True),
    _fault("assumed-source-rate", "every input taken as 16 kHz", COMMON, "Libsoxr.stream",
           replacement=f"{HERE}:assumed_rate", wraps=True),
)  # fmt: skip

FLOAT64 = "float64 in and out, rounded to the input's dtype at the end; the recipe computes in float32 all the same"
DOUBLE = "computed by libsoxr's engine in double precision, rounded once at the end"
IN_BLOCKS = "handed over in blocks"


def _within(name: str, description: str, short_name: str, target: str, function: str) -> Variation:
    change = Replacement(target, replacement=f"{HERE}:{function}", wraps=True)
    return Variation(f"{name}-{short_name}", description, (f"resampler/{short_name}",), change=change)


VARIATIONS = (
    Variation("threads-2", "two numerical threads", threads=2),
    Variation("ulp-up", "every input sample moved up by one representable number", ulp=1),
    Variation("ulp-down", "every input sample moved down by one representable number", ulp=-1),
    _within("float64", FLOAT64, "librosa", "references.resampler:Librosa", "widened"),
    _within("float64", FLOAT64, "python-soxr", "references.resampler:PythonSoxr", "widened"),
    _within("float64", DOUBLE, "libsoxr", "ports.resampler:library", "DoublePrecision"),
    _within("blocks", IN_BLOCKS, "python-soxr", "references.resampler:PythonSoxr.resample", "in_blocks"),
    _within("blocks", IN_BLOCKS, "libsoxr", "ports.resampler:Libsoxr.resample", "in_blocks"),
)

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
            remedy=REMEDY,
        ),
        Implementation(
            "resampler/python-soxr",
            "reference",
            "references.resampler:PythonSoxr",
            packages=("soxr", "numpy"),
            remedy=REMEDY,
        ),
        Implementation(
            PORT,
            "port",
            "ports.resampler:Libsoxr",
            packages=("numpy",),
            remedy="apt-get install libsoxr0",
        ),
    ),
    faults=FAULTS,
    variations=VARIATIONS,
)

# What is planted. Frames are [N, C] as the port hands them to libsoxr; `convert` makes [length, C] of them.

Frames = NDArray[Any]
Convert = Callable[[Sequence[Frames], int, int, int], Frames]


def kaiser_sinc(blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """A windowed sinc cut off at the lower Nyquist frequency."""
    from scipy.signal import firwin

    common = math.gcd(rate_hz, target_rate_hz)
    longest = max(rate_hz, target_rate_hz) // common
    taps = firwin(2 * HALF_WIDTH * longest + 1, 1 / longest, window=("kaiser", KAISER_BETA))
    return _polyphase(blocks, rate_hz, target_rate_hz, length, window=taps)


def linear_interpolation(blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """Each output on the line between its two neighbours."""
    frames = np.concatenate(blocks)
    positions = np.arange(length) * rate_hz / target_rate_hz
    columns = [np.interp(positions, np.arange(len(frames)), channel) for channel in frames.T]
    return np.stack(columns, axis=1).astype(frames.dtype)


def resample_poly(blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """scipy's polyphase filter as it comes."""
    return _polyphase(blocks, rate_hz, target_rate_hz, length)


def _polyphase(blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int, **options: Any) -> Frames:
    from scipy.signal import resample_poly as poly

    frames = np.concatenate(blocks)
    common = math.gcd(rate_hz, target_rate_hz)
    made = poly(frames, target_rate_hz // common, rate_hz // common, axis=0, **options).astype(frames.dtype)
    return np.pad(made, ((0, max(0, length - len(made))), (0, 0)))[:length]


def exact_length(count: int, rate_hz: int, target_rate_hz: int) -> int:
    """The ceiling without float64's rounding."""
    return -(-count * target_rate_hz // rate_hz)


def own_length(count: int, rate_hz: int, target_rate_hz: int) -> int:
    """What soxr itself yields, and something of every sample."""
    return max(1, int(count * (target_rate_hz / rate_hz) + 0.5))


def no_flush(resampler: Any, room: Frames) -> None:
    """Nothing is asked for at the end."""


def delayed(original: Convert, blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """One zero first."""
    out = original(blocks, rate_hz, target_rate_hz, length)
    return np.concatenate([np.zeros_like(out[:1]), out[:-1]])


def scaled(original: Convert, blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """Energy kept instead of level."""
    out = original(blocks, rate_hz, target_rate_hz, length)
    return np.asarray(out * out.dtype.type(math.sqrt(target_rate_hz / rate_hz)))


def in_int16_units(
    original: Convert, blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int
) -> Frames:
    """Full scale 32768."""
    out = original(blocks, rate_hz, target_rate_hz, length)
    return np.asarray(out * out.dtype.type(32768))


def in_float64(original: Convert, blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """The dtype of the computation instead of the input's."""
    return original([block.astype(np.float64) for block in blocks], rate_hz, target_rate_hz, length)


def swapped(original: Convert, blocks: Sequence[Frames], rate_hz: int, target_rate_hz: int, length: int) -> Frames:
    """The channels in reverse."""
    return original(blocks, rate_hz, target_rate_hz, length)[:, ::-1]


def handle_per_block(
    original: Any, port: Any, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int
) -> NDArray[Any]:
    """Every block begins and ends a stream of its own."""
    whole = original(port, blocks, rate_hz, target_rate_hz)
    parts = [original(port, [block], rate_hz, target_rate_hz) for block in blocks]
    joined = np.concatenate(parts, axis=-1)[..., : whole.shape[-1]]
    return np.ascontiguousarray(joined)


def through_int16(
    original: Any, port: Any, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int
) -> NDArray[Any]:
    """Steps of 1/32768 in the input."""
    rounded = [(np.rint(block * 32768).clip(-32768, 32767) / 32768).astype(block.dtype) for block in blocks]
    result: NDArray[Any] = original(port, rounded, rate_hz, target_rate_hz)
    return result


def assumed_rate(
    original: Any, port: Any, blocks: Sequence[NDArray[Any]], rate_hz: int, target_rate_hz: int
) -> NDArray[Any]:
    """The source's rate is a constant of the port."""
    result: NDArray[Any] = original(port, blocks, 16000, target_rate_hz)
    return result


# What the variations do.


class DoublePrecision:
    """libsoxr, but for the flag that every quality gets."""

    def __init__(self, original: Callable[[], Any]) -> None:
        self._soxr = original()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._soxr, name)

    def soxr_quality_spec(self, recipe: int, flags: int) -> Any:
        """The recipe computed in float64, whatever its precision."""
        return self._soxr.soxr_quality_spec(recipe, flags | SOXR_DOUBLE_PRECISION)


def widened(original: Callable[[], Any]) -> Any:
    """A reference that is given float64, whole and in blocks."""
    reference = original()
    resample = reference.resample
    reference.resample = lambda samples, *rates: resample(samples.astype(np.float64), *rates).astype(samples.dtype)
    if hasattr(reference, "stream"):
        stream = reference.stream
        reference.stream = lambda blocks, *rates: stream([block.astype(np.float64) for block in blocks], *rates).astype(
            blocks[0].dtype
        )
    return reference


def in_blocks(
    original: Any, implementation: Any, samples: NDArray[Any], rate_hz: int, target_rate_hz: int
) -> NDArray[Any]:
    """[N] or [C, N] as a stream of short blocks."""
    starts = range(0, max(samples.shape[-1], 1), VARIED_BLOCK_SAMPLES)
    blocks = [samples[..., start : start + VARIED_BLOCK_SAMPLES] for start in starts]
    return np.asarray(implementation.stream(blocks, rate_hz, target_rate_hz))
