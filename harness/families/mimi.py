"""Family `mimi`: Kyutai's neural codec, with weights that the project makes or that the user names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.family import (
    CheckpointSource,
    Family,
    Fault,
    Implementation,
    Pinned,
    Pipeline,
    PipelineStage,
    Replacement,
    Variation,
)
from references.mimi_fitted import DIGESTS, NAME

REMEDY = 'pip install "speech-parity[mimi]"'
HERE = "harness.families.mimi"
COMMON = "common in hand-written ports of neural codecs"
CONVERSIONS = "conversions between moshi's and transformers' layouts"
EXPORTS = "ONNX exports of Mimi"

# Seven of the published repository's files would be fetched by nobody: these two are the weights.
HUB = {
    "kyutai/mimi": Pinned("89091b3e466eb6a9d11e537bf26b144f194978f7", ("model.safetensors", "config.json")),
}


def _fault(name: str, description: str, seen: str, target: str, port: str = "torch", **plant: Any) -> Fault:
    return Fault(name, description, f"mimi/{port}", seen, Replacement(f"ports.mimi:{target}", **plant))


FAULTS = (
    _fault("layer-norm-eps", "1e-6 instead of 1e-5 in every LayerNorm", EXPORTS, "LAYER_NORM_EPS", value=1e-6),
    _fault("zero-padded-downsample", "silence instead of the first value repeated", COMMON, "pad_first",
           replacement="ports.mimi:pad_zero"),
    _fault("rope-halves", "the halves of a head turned, not neighbouring pairs", CONVERSIONS, "rotate",
           replacement=f"{HERE}:rotate_halves", wraps=True),
    _fault("tanh-gelu", "the tanh approximation of GELU", COMMON, "gelu", replacement=f"{HERE}:tanh_gelu"),
    _fault("no-usage-clamp", "codebook sums divided by a usage below 1e-5", COMMON, "USAGE_FLOOR", value=0.0),
    _fault("undivided-codebook", "codebook sums taken for the entries", COMMON, "codebook",
           replacement=f"{HERE}:undivided"),
    _fault("float16-distance", "the nearest entry by distances in float16", "TensorRT and Core ML ports", "nearest",
           replacement=f"{HERE}:nearest_in_float16", wraps=True),
    _fault("no-layer-scale", "the factor of each branch dropped", COMMON, "layer_scaled",
           replacement=f"{HERE}:unscaled"),
    _fault("unlimited-context", "attention sees everything before", COMMON, "CONTEXT", value=1 << 20),
    _fault("state-reset-between-chunks", "every chunk of a stream from a fresh state", COMMON, "carried",
           replacement=f"{HERE}:fresh"),
    _fault("float16-decoder", "the decoder's convolutions in float16", "Core ML ports", "decode_seanet",
           replacement=f"{HERE}:decode_in_float16", wraps=True),
    _fault("codebook-order", "the acoustic codebooks in reverse order", COMMON, "quantise",
           replacement=f"{HERE}:reversed_codebooks", wraps=True),
    _fault("semantic-last", "the acoustic codebooks before the semantic one", CONVERSIONS, "quantise",
           replacement=f"{HERE}:semantic_last", wraps=True),
    _fault("one-upsampling-kernel", "one kernel for all channels instead of one for each",
           "upsample_channel_wise_bug of the MLX port", "upsample", replacement=f"{HERE}:one_kernel", wraps=True),
    _fault("one-frame-delay", "codes one frame late", COMMON, "quantise", replacement=f"{HERE}:one_frame_late",
           wraps=True),
    _fault("partial-frame-dropped", "the last, partial frame is not padded but dropped", COMMON, "pad_input",
           replacement=f"{HERE}:without_tail", wraps=True),
    _fault("state-kept", "the next recording starts from the state of the one before", COMMON, "Torch._latents",
           replacement=f"{HERE}:with_kept_state", wraps=True),
    _fault("batch-order", "the rows of a batch in reverse order", COMMON, "Torch.encode_batch",
           replacement=f"{HERE}:reversed_rows", wraps=True),
    _fault("int32-codes", "codes in 32-bit integers", COMMON, "Torch.encode", replacement=f"{HERE}:int32_codes",
           wraps=True),
    _fault("trimmed-decode", "the decoder's output without its last 8 ms", COMMON, "Torch.decode",
           replacement=f"{HERE}:trimmed", wraps=True),
    _fault("downsample-tap-missing", "an intermediate activation is not handed out", COMMON, "Torch.taps",
           replacement=f"{HERE}:without_downsample", wraps=True),
    _fault("codebook-missing", "the last codebook left out", "ports of the first codebooks only", "Torch.encode",
           replacement=f"{HERE}:without_last_codebook", wraps=True),
    _fault("bfloat16-rope-halves", "the halves of a head turned, in bfloat16", CONVERSIONS, "rotate",
           "torch-bfloat16", replacement=f"{HERE}:rotate_halves", wraps=True),
    _fault("float16-rope-halves", "the halves of a head turned, in float16", CONVERSIONS, "rotate", "torch-float16",
           replacement=f"{HERE}:rotate_halves", wraps=True),
)  # fmt: skip

HF_MODEL = "references.mimi:HuggingFace"
VARIATIONS = (
    Variation("threads-1", "one numerical thread instead of two", threads=1),
    Variation("float64-hf", "computed in float64, rounded once at the end", ("mimi/hf",),
              change=Replacement(HF_MODEL, replacement=f"{HERE}:widened", wraps=True)),
    Variation("float64-torch", "weights and activations in float64", ("mimi/torch",),
              change=Replacement("ports.mimi:Torch.dtype", replacement="torch:float64")),
)  # fmt: skip

# What candle computes: docs/decisions/mimi-context.md.
EIGHT = "8-codebooks-context-bug"
RATES_HZ = (24000,)
THREADS = 2
FAMILY = Family(
    name="mimi",
    description="Neural codec: 24 kHz speech to 32 codes of 2048 entries, 12.5 times a second, and back",
    task="codec",
    implementations=(
        Implementation(
            "mimi/hf",
            "reference",
            HF_MODEL,
            packages=("transformers", "torch", "numpy", "safetensors"),
            variants={EIGHT: RATES_HZ},
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy=REMEDY,
        ),
        Implementation(
            "mimi/moshi",
            "reference",
            "references.mimi:Moshi",
            packages=("moshi", "torch", "numpy", "safetensors"),
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy="parity env install moshi",
            overlay="moshi",
        ),
        Implementation(
            "mimi/torch",
            "port",
            "ports.mimi:Torch",
            packages=("torch", "numpy", "safetensors"),
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy=REMEDY,
        ),
        Implementation(
            "mimi/torch-bfloat16",
            "port",
            "ports.mimi:Bfloat16",
            packages=("torch", "numpy", "safetensors"),
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy=REMEDY,
        ),
        Implementation(
            "mimi/torch-float16",
            "port",
            "ports.mimi:Float16",
            packages=("torch", "numpy", "safetensors"),
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy=REMEDY,
        ),
        Implementation(
            "mimi/rustymimi",
            "port",
            "ports.mimi_rust:Rustymimi",
            variant=EIGHT,
            packages=("rustymimi", "numpy"),
            rates_hz=RATES_HZ,
            threads=THREADS,
            remedy=REMEDY,
        ),
    ),
    faults=FAULTS,
    variations=VARIATIONS,
    # Speech as recognisers and telephones have it, to the codec's 24 kHz.
    pipeline=Pipeline(
        stages=(
            PipelineStage("resampler", "resampler", "librosa", "libsoxr", tensor="resampled_24000", rate_hz=24000),
            PipelineStage("codec", "mimi", "hf"),
        ),
        rates_hz=(16000,),
    ),
    checkpoint=CheckpointSource(
        name=NAME,
        make="references.mimi_fitted:make",
        digests=DIGESTS,
        prepare="references.mimi_layout:prepare",
        hub=HUB,
    ),
    proof_clips=("joe-ferry",),
)

# What is planted in `ports.mimi`. Shapes are those of its functions.


def rotate_halves(original: Callable[..., Any], x: Any, positions: Any) -> Any:
    """Value i with value i + 32."""
    pairs = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return original(pairs, positions).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


def tanh_gelu(x: Any) -> Any:
    """0.5 x (1 + tanh(…))."""
    import torch

    return torch.nn.functional.gelu(x, approximate="tanh")


def undivided(embedding_sum: Any, cluster_usage: Any) -> Any:
    """The sums themselves."""
    return embedding_sum


def nearest_in_float16(original: Callable[..., Any], x: Any, entries: Any) -> Any:
    """Distances rounded to 11 bits, of which the first smallest is taken."""
    import torch

    near, distances = original(x, entries)
    chosen = torch.cdist(x, entries[None]).half().argmin(-1, keepdim=True)
    return torch.cat([chosen, near[..., 1:]], -1), distances


def unscaled(x: Any, scale: Any) -> Any:
    """The branch as it is."""
    return x


def fresh(state: dict[str, Any]) -> dict[str, Any]:
    """Nothing is carried over."""
    return {}


def decode_in_float16(original: Callable[..., Any], x: Any, w: Any, state: Any, watch: Any) -> Any:
    """Weights and activations in half precision."""
    halved = {name: weight.half() if name.startswith("decoder.") else weight for name, weight in w.items()}
    return original(x.half(), halved, state, watch)


def reversed_codebooks(original: Callable[..., Any], *arguments: Any) -> Any:
    """Codebook 0, then 31 to 1."""
    return tuple(_taken(side, [0, *range(side.shape[1] - 1, 0, -1)]) for side in original(*arguments))


def semantic_last(original: Callable[..., Any], *arguments: Any) -> Any:
    """Codebooks 1 to 31, then 0."""
    return tuple(_taken(side, [*range(1, side.shape[1]), 0]) for side in original(*arguments))


def _taken(side: Any, order: list[int]) -> Any:
    return side[:, order]


def one_kernel(original: Callable[..., Any], x: Any, weight: Any, state: Any) -> Any:
    """The first channel's kernel for all."""
    return original(x, weight[:1].expand_as(weight).contiguous(), state)


def one_frame_late(original: Callable[..., Any], *arguments: Any) -> Any:
    """The first frame twice, the last one lost."""
    import torch

    return tuple(torch.cat([side[:, :, :1], side[:, :, :-1]], 2) for side in original(*arguments))


def without_tail(original: Callable[..., Any], samples: Any) -> Any:
    """Whole frames only; what is shorter than one is padded."""
    whole = samples.shape[-1] // 1920 * 1920
    return samples[..., :whole] if whole else original(samples)


def with_kept_state(original: Callable[..., Any], port: Any, samples: Any, state: Any, *watch: Any) -> Any:
    """A whole recording continues the one before; a stream has its own state."""
    kept = vars(port).setdefault("_kept", {})
    if state or samples.shape[0] != len(next(iter(kept.values()), samples)):
        return original(port, samples, state, *watch)
    return original(port, samples, kept, *watch)


def reversed_rows(original: Callable[..., Any], port: Any, samples: Any) -> Any:
    """The last row first."""
    return original(port, samples)[::-1].copy()


def int32_codes(original: Callable[..., Any], port: Any, samples: Any) -> Any:
    """A dtype too narrow for what the reference gives."""
    import numpy as np

    encoded = original(port, samples)
    return {**encoded, "codes": encoded["codes"].astype(np.int32)}


def without_last_codebook(original: Callable[..., Any], port: Any, samples: Any) -> Any:
    """31 codebooks instead of 32."""
    encoded = original(port, samples)
    return {**encoded, "codes": encoded["codes"][:-1]}


def trimmed(original: Callable[..., Any], port: Any, codes: Any) -> Any:
    """192 samples less."""
    import numpy as np

    return original(port, codes.astype(np.int64))[:-192].copy()


def without_downsample(original: Callable[..., Any], port: Any, samples: Any) -> Any:
    """A tap under no name."""
    return {name: tap for name, tap in original(port, samples).items() if name != "downsample"}


# What the variations do.


def widened(original: Callable[..., Any], *variant: str, **options: Any) -> Any:
    """The reference with weights, samples and entries in float64; what it gives is rounded to float32."""
    import torch

    reference = original(*variant, **options)
    reference._model.double()
    reference._dtype = torch.float64
    for module in reference._model.modules():
        if hasattr(module, "_embed"):
            module._embed = None  # entries that it keeps in float32
    # Its stream takes float32 as it is given.
    reference.encode_stream = lambda samples, frames: reference.encode(samples)["codes"]
    return reference
