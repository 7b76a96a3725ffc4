"""Task `codec`: a waveform to codes and back.

Conventions: input is one channel at 24 kHz, a frame is 1920 samples. Outputs are `codes` [K, T] int64, `waveform`
[1920 T] float32, what the own codes decode to, and, where offered, `latents` [512, T] before quantisation and the
nearest entries, `candidates` and `distances` [K, T, 8]. `given/waveform` is what the other side's codes decode to. Of
a port with fewer codebooks the first ones are compared, and the count is a finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness import signals as test_signals
from harness.clips import Clip, one_channel
from harness.measurements import Measurement
from harness.metrics import codes as metrics
from harness.metrics.tensors import NotComparable
from harness.observations import Observation, Outputs
from harness.tasks.rows import SPEECH_METRICS, TAP_METRICS, Rows

TASK = "codec"
RATE_HZ = 24000
FRAME_SAMPLES = 1920
GOLDEN_TENSORS = ("codes", "latents", "candidates", "distances")
# What the other side is given, and under which name its output comes back.
EXCHANGED = ("codes",)
GIVEN = "given/"
# The largest relative margin that rounding explains: see docs/decisions/code-ties.md.
TIE_MARGIN = 1e-5
TAPPED_SAMPLES = 4 * FRAME_SAMPLES
STREAMED_SAMPLES = (8 * FRAME_SAMPLES, 60 * FRAME_SAMPLES)
BATCH_ROWS = 4
LONG_S = 11  # beyond the 250 steps of 25 Hz that the transformers see

METRICS: Mapping[str, str] = {
    "frame_count_error": "frames",
    "codebook_count_error": "codebooks",
    "codes_dtype_mismatch": "1",
    "code_mismatch_rate": "1",
    "code_root_errors": "codes",
    "code_tie_rate": "1",
    "code_margin": "1",
    "code_late_frames": "frames",
    "codebooks_moved": "codebooks",
    "latent_nrmse": "1",
    "sample_count_error": "samples",
    "decode_nrmse": "1",
    **SPEECH_METRICS,
    "four_way_nrmse": "1",
    "stream_root_errors": "codes",
    "stream_max_abs": "1",
    "batch_root_errors": "codes",
    "again_mismatches": "codes",
    **TAP_METRICS,
}
ROWS = Rows(METRICS)


class Codec(Protocol):
    """What an implementation of this task offers; all but the first two methods are optional."""

    version: str

    def encode(self, samples: NDArray[np.float32]) -> Mapping[str, NDArray[Any]]:
        """[N] to `codes` [K, T] and, where offered, `latents`, `candidates` and `distances`."""

    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[K, T] to [1920 T]."""

    def encode_stream(self, samples: NDArray[np.float32], frames: Sequence[int]) -> NDArray[np.int64]:
        """[1920 T] in chunks of so many frames, from a fresh state, to [K, T]."""

    def decode_stream(self, codes: NDArray[np.int64], frames: Sequence[int]) -> NDArray[np.float32]:
        """[K, T] in chunks of so many frames, from a fresh state, to [1920 T]."""

    def encode_batch(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """[B, N] to [B, K, T]."""

    def taps(self, samples: NDArray[np.float32]) -> Mapping[str, NDArray[np.float32]]:
        """Intermediate activations [channels, time] of encoding, then of decoding the own codes."""


def stimuli(clips: Iterable[Clip]) -> list[Clip]:
    """Every recording as one channel at 24 kHz, by soxr HQ before any implementation sees it; no test signals."""
    return [one_channel(clip, RATE_HZ) for clip in clips if clip.scope == "clips"]


def signals() -> list[Clip]:
    """Short and odd lengths, silence, a sweep, and one sound that is longer than attention sees."""
    frame = FRAME_SAMPLES
    lengths = (1, frame - 1, frame, frame + 1, 3 * frame + 7, LONG_S * RATE_HZ)
    made = [test_signals.noise(RATE_HZ, length, seed=length) for length in lengths]
    return [*made, test_signals.silence(RATE_HZ, 0.5), test_signals.log_sweep(RATE_HZ, duration_s=0.7)]


def chunkings(frames: int) -> dict[str, list[int]]:
    """Ways to cut a stream: chunks of 1, 2 and 7 frames, and of a random number; the last one takes the rest."""
    sizes = {"1": [1], "2": [2], "7": [7], "random": np.random.default_rng(frames).integers(1, 6, frames).tolist()}
    made = {}
    for name, cycle in sizes.items():
        cut: list[int] = []
        while sum(cut) < frames:
            cut.append(min(cycle[len(cut) % len(cycle)], frames - sum(cut)))
        made[name] = cut
    return made


def observe(implementation: Codec, clip: Clip) -> Outputs:
    """Encode and decode one clip; on test signals also in streams, in a batch, again, and with taps."""
    started = time.perf_counter()
    encoded = dict(implementation.encode(clip.samples))
    encode_s = time.perf_counter() - started
    started = time.perf_counter()
    tensors = {**encoded, "waveform": implementation.decode(encoded["codes"])}
    timings = {"encode": encode_s, "decode": time.perf_counter() - started}
    taps: Mapping[str, NDArray[Any]] = {}
    if clip.scope == "signals":
        tensors |= _otherwise(implementation, clip, encoded["codes"])
        if hasattr(implementation, "taps") and len(clip.samples) <= TAPPED_SAMPLES:
            taps = implementation.taps(clip.samples)
    return Outputs(tensors, taps=taps, timings=timings)


def observe_given(implementation: Codec, given: Mapping[str, NDArray[Any]]) -> Outputs:
    """Decode the codes of the other side."""
    return Outputs({"waveform": implementation.decode(given["codes"])})


def observe_timed(implementation: Codec, clip: Clip) -> Outputs:
    """For `nox -s bench`: the fastest of three passes over a recording, whole and in a stream of single frames, in s.

    `peak_mb` among the timings is the largest memory of the process so far, with all that it has loaded.
    """
    import resource

    codes = implementation.encode(clip.samples)["codes"]
    if clip.scope != "clips":
        return Outputs({"codes": codes})
    padded = np.pad(clip.samples, (0, -len(clip.samples) % FRAME_SAMPLES))
    single = [1] * codes.shape[-1]
    ways: dict[str, Callable[[], Any]] = {
        "encode": lambda: implementation.encode(clip.samples),
        "decode": lambda: implementation.decode(codes),
        "encode_stream": lambda: implementation.encode_stream(padded, single),
        "decode_stream": lambda: implementation.decode_stream(codes, single),
    }
    offered = {name: way for name, way in ways.items() if hasattr(implementation, name)}
    timings = {name: min(_seconds(way) for _ in range(3)) for name, way in offered.items()}
    timings["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Outputs({"codes": codes}, timings=timings)


def _seconds(way: Callable[[], Any]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started


def _otherwise(implementation: Codec, clip: Clip, codes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """The same clip by other ways that must not matter. Of a batch each row is encoded alone too."""
    tensors: dict[str, NDArray[Any]] = {}
    padded = np.pad(clip.samples, (0, -len(clip.samples) % FRAME_SAMPLES))
    if STREAMED_SAMPLES[0] <= len(padded) <= STREAMED_SAMPLES[1]:
        if hasattr(implementation, "encode_stream"):
            for name, frames in chunkings(len(padded) // FRAME_SAMPLES).items():
                tensors[f"stream_codes/{name}"] = implementation.encode_stream(padded, frames)
        if hasattr(implementation, "decode_stream"):
            for name, frames in chunkings(codes.shape[-1]).items():
                tensors[f"stream_waveform/{name}"] = implementation.decode_stream(codes, frames)
        rows = [clip.samples, clip.samples[::-1], -clip.samples, np.roll(clip.samples, len(clip.samples) // 3)]
        alone = [implementation.encode(np.ascontiguousarray(row)) for row in rows]
        for name in set(alone[0]) & {"codes", "candidates", "distances"}:
            tensors[f"row_{name}"] = np.stack([row[name] for row in alone])
        if hasattr(implementation, "encode_batch"):
            tensors["batch_codes"] = implementation.encode_batch(np.stack(rows))
    if len(padded) <= STREAMED_SAMPLES[1]:
        tensors["again_codes"] = implementation.encode(clip.samples)["codes"]
    return tensors


def compare(reference: Observation, port: Observation, clip: Clip) -> Iterator[Measurement]:
    """Measure codes, latents, decoding, streams and taps. Raises NotComparable without codes or waveform."""
    if absent := [name for name in ("codes", "waveform") if name not in port.tensors]:
        raise NotComparable(f"the port gives no {' and no '.join(absent)}; {'; '.join(port.warnings)}")
    expected, obtained = reference.tensors["codes"], port.tensors["codes"]
    if expected.ndim != 2 or obtained.ndim != 2 or len(obtained) > len(expected):
        raise NotComparable(f"codes {list(obtained.shape)}, the reference's are {list(expected.shape)}")
    frames = f"{obtained.shape[1]} frames, reference {expected.shape[1]}"
    yield ROWS.measured("frame_count_error", "codes", abs(obtained.shape[1] - expected.shape[1]), frames)
    counts = f"{len(obtained)} codebooks, reference {len(expected)}"
    yield ROWS.measured("codebook_count_error", "codes", len(expected) - len(obtained), counts)
    dtypes = f"{obtained.dtype}, reference {expected.dtype}"
    yield ROWS.measured("codes_dtype_mismatch", "codes", obtained.dtype != expected.dtype, dtypes)
    yield from _compare_codes(reference, port)
    if "latents" in reference.tensors and "latents" in port.tensors:
        yield ROWS.nrmse("latent_nrmse", "latents", reference.tensors["latents"], port.tensors["latents"])
    if "waveform" in reference.tensors and len(obtained) == len(expected):
        yield from _compare_decoding(reference, port, clip)
    yield from _compare_otherwise(reference, port)
    yield from ROWS.taps(reference, port)


CODE_METRICS = (
    "code_mismatch_rate", "code_root_errors", "code_tie_rate", "code_margin", "code_late_frames", "codebooks_moved",
)  # fmt: skip


def _compare_codes(reference: Observation, port: Observation) -> Iterator[Measurement]:
    obtained = port.tensors["codes"]
    expected = reference.tensors["codes"][: len(obtained)]
    try:
        found = _classify(reference.tensors, "", obtained)
    except NotComparable as reason:
        for metric in CODE_METRICS:
            yield ROWS.invalid(metric, "codes", reason)
        return
    for codebook, rate in enumerate(metrics.match_rates(expected, obtained)):
        yield ROWS.measured("code_mismatch_rate", f"codebook {codebook}", 1 - rate)
    counts = {kind: found.count(kind) for kind in (metrics.TIE, metrics.ROOT, metrics.CASCADE)}
    detail = (
        f"{counts[metrics.TIE]} ties, {counts[metrics.ROOT]} roots, {counts[metrics.CASCADE]} cascades "
        f"of {expected.size} codes{_first(found.first_mismatch, 'first mismatch')}"
    )
    yield ROWS.measured("code_mismatch_rate", "all", float((expected != obtained).mean()), detail)
    root = _describe_root(found, expected, obtained)
    yield ROWS.measured("code_root_errors", "codes", counts[metrics.ROOT], root)
    yield ROWS.measured("code_tie_rate", "codes", counts[metrics.TIE] / expected.size)
    own = found.margins[~np.isnan(found.margins)]
    yield ROWS.measured("code_margin", "codes", own.max(initial=0.0), f"{own.max(initial=0.0) / TIE_MARGIN:.3g} floors")
    late = metrics.late_frames(expected, obtained)
    yield ROWS.measured("code_late_frames", "codes", abs(late), f"late by {late} frames" if late else "")
    moved = metrics.moved_codebooks(expected, obtained)
    shown = ", ".join(f"{own} holds {other}" for own, other in moved.items())
    yield ROWS.measured("codebooks_moved", "codes", len(moved), shown)


def _classify(tensors: Mapping[str, NDArray[Any]], prefix: str, obtained: NDArray[Any]) -> metrics.CodeComparison:
    """Codes by the reference's of the same codebooks, and by its distances where it has some."""
    names = (f"{prefix}codes", f"{prefix}candidates", f"{prefix}distances")
    expected, near, distances = (tensors[name][: len(obtained)] if name in tensors else None for name in names)
    if expected is None:
        raise NotComparable(f"the reference has no {prefix}codes")
    return metrics.classify(expected, obtained, near, distances, TIE_MARGIN)


def _first(place: tuple[int, int] | None, what: str) -> str:
    return "" if place is None else f"; {what} in frame {place[0]} ({_time(place[0])}), codebook {place[1]}"


def _time(frame: int) -> str:
    return f"{frame * FRAME_SAMPLES / RATE_HZ:.2f} s"


def _describe_root(found: metrics.CodeComparison, expected: NDArray[Any], obtained: NDArray[Any]) -> str:
    if (place := found.first_root) is None:
        return ""
    frame, codebook = place
    margin = found.margins[codebook, frame] / TIE_MARGIN
    least = "at least " if found.bounded[codebook, frame] else ""
    after = int((found.grid[:, frame] == metrics.CASCADE).sum())
    entries = f"entry {obtained[codebook, frame]}, expected {expected[codebook, frame]}"
    return (
        f"first root in frame {frame} ({_time(frame)}), codebook {codebook}: {entries}, margin {least}{margin:.3g} "
        f"floors; {after} cascades in the frame"
    )


def _compare_decoding(reference: Observation, port: Observation, clip: Clip) -> Iterator[Measurement]:
    """The port's decoder on the reference's codes, and the four ways to pair encoders and decoders."""
    expected, own = reference.tensors["waveform"], port.tensors["waveform"]
    same = np.array_equal(reference.tensors["codes"], port.tensors["codes"])
    given = port.tensors.get(f"{GIVEN}waveform", own if same else None)
    if given is None:
        for metric in ("sample_count_error", "decode_nrmse"):
            yield ROWS.invalid(metric, "waveform", "codes differ, and the port has not decoded the reference's")
        return
    lengths = f"{list(given.shape)} samples, reference {list(expected.shape)}"
    yield ROWS.measured("sample_count_error", "waveform", abs(given.size - expected.size), lengths)
    yield ROWS.nrmse("decode_nrmse", "waveform", expected, given)
    ways = {
        "port codes, port decoder": own,
        "reference codes, port decoder": given,
        "port codes, reference decoder": reference.tensors.get(f"{GIVEN}waveform"),
    }
    for name, waveform in ways.items():
        if waveform is not None:
            yield ROWS.nrmse("four_way_nrmse", name, expected, waveform)
    if clip.scope == "clips":
        yield from ROWS.speech("waveform", expected, given, RATE_HZ)


def _compare_otherwise(reference: Observation, port: Observation) -> Iterator[Measurement]:
    """The port's streams, batch and second run against its own whole."""
    whole = port.tensors["codes"]
    for name, tensor in sorted(port.tensors.items()):
        kind, _, _ = name.partition("/")
        if kind == "stream_codes":
            yield _new_roots("stream_root_errors", name, reference.tensors, "", whole, tensor)
        elif kind == "stream_waveform":
            yield ROWS.max_abs("stream_max_abs", name, port.tensors["waveform"], tensor)
        elif kind == "again_codes":
            if tensor.shape == whole.shape:
                yield ROWS.measured("again_mismatches", name, (tensor != whole).sum())
            else:
                yield ROWS.invalid("again_mismatches", name, f"shape {list(tensor.shape)}, first {list(whole.shape)}")
    if "batch_codes" in port.tensors and "row_codes" in reference.tensors:  # a golden has none
        yield from _compare_batch(reference, port)


def _compare_batch(reference: Observation, port: Observation) -> Iterator[Measurement]:
    batch, alone = port.tensors["batch_codes"], port.tensors.get("row_codes")
    if alone is None or batch.shape != alone.shape:
        found = "no codes" if alone is None else f"shape {list(alone.shape)}"
        yield ROWS.invalid("batch_root_errors", "batch_codes", f"shape {list(batch.shape)}, row by row {found}")
        return
    for row in range(len(batch)):
        tensors = {name: rows[row] for name, rows in reference.tensors.items() if name.startswith("row_")}
        yield _new_roots("batch_root_errors", f"batch_codes/{row}", tensors, "row_", alone[row], batch[row])


def _new_roots(
    metric: str, place: str, tensors: Mapping[str, NDArray[Any]], prefix: str, whole: NDArray[Any], other: NDArray[Any]
) -> Measurement:
    """Root errors of another way that the whole has not.

    Both are judged by the reference's own distances, which are those of the whole only while its codes are the same.
    """
    if whole.shape != other.shape:
        return ROWS.invalid(metric, place, f"shape {list(other.shape)}, whole {list(whole.shape)}")
    try:
        found = _classify(tensors, prefix, other)
    except NotComparable as reason:
        return ROWS.invalid(metric, place, reason)
    found = found.only(whole != other)
    return ROWS.measured(metric, place, found.count(metrics.ROOT), _describe_root(found, whole, other))
