"""Our port of the Mimi codec in functions of torch: encoder, quantiser, decoder and streaming.

24 kHz in frames of 1920 samples, 12.5 a second. Everything is one stream from fresh state, the whole too: it is run in
blocks of 50 frames, which is faster than at once and bounds the memory for a recording of any length.

    samples              zero-padded at the right to whole frames                           [B, 1, 1920 T]
    encoder              causal convolutions, strides 4, 5, 6, 8                            [B, 512, 2 T]
    encoder_transformer  8 layers at 25 Hz that see 250 steps back                          [B, 512, 2 T]
    downsample           stride 2; the only one that repeats the first value in front       [B, 512, T]
    quantiser            one semantic codebook, beside it a chain of 31 acoustic ones       [B, 32, T]
    upsample             depthwise transposed convolution, stride 2                         [B, 512, 2 T]
    decoder_transformer  as above                                                           [B, 512, 2 T]
    decoder              transposed convolutions, strides 8, 6, 5, 4                        [B, 1, 1920 T]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ports.mimi_weights import CODEBOOKS, DECODER, ENCODER, LAYERS, Weights, load_weights, weights_of_codebook

FRAME_SAMPLES = 1920
HEADS = 8
LAYER_NORM_EPS = 1e-5
ROPE_BASE = 10000.0
CONTEXT = 250
USAGE_FLOOR = 1e-5
CANDIDATES = 8
BLOCK_FRAMES = 50

State = dict[str, Any]
Watch = Callable[[str, Tensor], None]


class Torch:
    """The codec in float32. checkpoint: a folder with `native.safetensors`, names as Kyutai publishes them.

    Raises ParityError when a tensor is missing or has another shape.
    """

    dtype = torch.float32

    def __init__(self, *, checkpoint: Path) -> None:
        self.version = f"torch {torch.__version__}"
        weights = load_weights(Path(checkpoint) / "native.safetensors")
        self._entries = [codebook(*weights_of_codebook(weights, index)) for index in range(CODEBOOKS)]  # [2048, 256]
        self._weights = {name: weight.to(self.dtype) for name, weight in weights.items()}

    @torch.inference_mode()
    def encode(self, samples: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        """[N] to codes [32, T], latents [512, T], and the 8 nearest entries [32, T, 8] with their distances."""
        latents = self._latents(_tensor(samples)[None, None], {})  # [1, 512, T]
        codes, indices, distances = quantise(latents.float(), self._weights, self._entries)
        return {
            "codes": codes[0].numpy(),
            "latents": latents[0].float().numpy(),
            "candidates": indices[0].to(torch.int16).numpy(),
            "distances": distances[0].numpy(),
        }

    @torch.inference_mode()
    def encode_batch(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """[B, N] to codes [B, 32, T]."""
        latents = self._latents(_tensor(samples)[:, None], {})  # [B, 512, T]
        return quantise(latents.float(), self._weights, self._entries)[0].numpy()

    @torch.inference_mode()
    def encode_stream(self, samples: NDArray[np.float32], frames: Sequence[int]) -> NDArray[np.int64]:
        """[1920 T] in chunks of so many frames, from a fresh state, to codes [32, T]."""
        state: State = {}
        codes = []
        for chunk in torch.split(_tensor(samples), [FRAME_SAMPLES * count for count in frames]):
            state = carried(state)
            codes.append(quantise(self._latents(chunk[None, None], state).float(), self._weights, self._entries)[0])
        return torch.cat(codes, 2)[0].numpy()

    @torch.inference_mode()
    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """[K, T] to [1920 T]; K may be less than 32."""
        return self._waveform(torch.from_numpy(codes)[None], {})[0, 0].float().numpy()

    @torch.inference_mode()
    def decode_stream(self, codes: NDArray[np.int64], frames: Sequence[int]) -> NDArray[np.float32]:
        """[K, T] in chunks of so many frames, from a fresh state, to [1920 T]."""
        state: State = {}
        parts = []
        for chunk in torch.split(torch.from_numpy(codes), list(frames), dim=1):
            state = carried(state)
            parts.append(self._waveform(chunk[None], state))
        return torch.cat(parts, 2)[0, 0].float().numpy()

    @torch.inference_mode()
    def taps(self, samples: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Every stage's output [channels, time] of encoding and of decoding the own codes."""
        seen: dict[str, list[Tensor]] = {}

        def watch(name: str, block: Tensor) -> None:
            seen.setdefault(name, []).append(block[0].float())

        latents = self._latents(_tensor(samples)[None, None], {}, watch)
        codes, *_ = quantise(latents.float(), self._weights, self._entries)
        self._waveform(codes, {}, watch)
        return {name: torch.cat(blocks, -1).numpy() for name, blocks in seen.items()}

    def _latents(self, samples: Tensor, state: State, watch: Watch = lambda *_: None) -> Tensor:
        """[B, 1, N] to [B, 512, T], before quantisation."""
        w = self._weights
        latents = []
        for x in pad_input(samples).to(self.dtype).split(FRAME_SAMPLES * BLOCK_FRAMES, -1):
            x = seanet(x, "encoder", ENCODER, w, state, watch)  # [B, 512, 2T]
            x = transformer(x, "encoder_transformer", w, state, watch)
            x = joined(x, 2, state, "downsample", pad_first)  # [B, 512, 2 + 2T]
            x = F.conv1d(x, w["downsample.conv.conv.conv.weight"], None, 2)  # [B, 512, T]
            watch("downsample", x)
            latents.append(x)
        return torch.cat(latents, -1)

    def _waveform(self, codes: Tensor, state: State, watch: Watch = lambda *_: None) -> Tensor:
        """[B, K, T] to [B, 1, 1920 T]."""
        w = self._weights
        parts = []
        for x in dequantise(codes, w, self._entries).to(self.dtype).split(BLOCK_FRAMES, -1):
            watch("quantized", x)
            x = upsample(x, w["upsample.convtr.convtr.convtr.weight"], state)  # [B, 512, 2T]
            watch("upsample", x)
            x = transformer(x, "decoder_transformer", w, state, watch)
            parts.append(decode_seanet(x, w, state, watch))  # [B, 1, 1920 T]
        return torch.cat(parts, -1)


class Bfloat16(Torch):
    """Weights and activations in bfloat16; distances and outputs in float32."""

    dtype = torch.bfloat16


class Float16(Torch):
    """Weights and values rounded to float16, sums in float32, as the matrix units of GPUs have it.

    torch's own float16 takes ten times as long on a processor, and its error is of the same size.
    """

    def __init__(self, *, checkpoint: Path) -> None:
        super().__init__(checkpoint=checkpoint)
        self._weights = {name: in_float16(weight) for name, weight in self._weights.items()}

    def _latents(self, samples: Tensor, state: State, watch: Watch = lambda *_: None) -> Tensor:
        with RoundedToFloat16():
            return super()._latents(samples, state, watch)

    def _waveform(self, codes: Tensor, state: State, watch: Watch = lambda *_: None) -> Tensor:
        with RoundedToFloat16():
            return super()._waveform(codes, state, watch)


class RoundedToFloat16(TorchFunctionMode):
    """Every float32 result of an operation is rounded to what float16 can represent."""

    def __torch_function__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Called by torch in place of each of its functions."""
        made = operation(*arguments, **(options or {}))
        rounds = isinstance(made, Tensor) and made.dtype == torch.float32
        return in_float16(made) if rounds else made


def in_float16(x: Tensor) -> Tensor:
    """The nearest float16 values, in float32."""
    return x.half().float()


# The stages.


def pad_input(samples: Tensor) -> Tensor:
    """Silence at the right up to a whole frame."""
    return F.pad(samples, (0, -samples.shape[-1] % FRAME_SAMPLES))


def seanet(x: Tensor, part: str, layers: Mapping[int, Any], w: Weights, state: State, watch: Watch) -> Tensor:
    """The convolutions of the encoder or the decoder; before all but the first an ELU. [B, C, T] to [B, C', T']."""
    for index, (kind, stride) in layers.items():
        name = f"{part}.model.{index}"
        if kind == "block":
            y = conv(x, *_both(w, f"{name}.block.1.conv.conv"), 1, state, f"{name}.1")  # [B, C/2, T]
            x = F.conv1d(F.elu_(y), *_both(w, f"{name}.block.3.conv.conv")).add_(x)  # [B, C, T]
        elif kind == "up":
            x = transposed(F.elu(x), *_both(w, f"{name}.convtr.convtr"), stride, state, name)  # [B, C', sT]
        else:
            x = conv(x, *_both(w, f"{name}.conv.conv"), stride, state, name, elu=index > 0)  # [B, C', T/s]
        watch(f"{part}.{index}", x)
    return x


def decode_seanet(x: Tensor, w: Weights, state: State, watch: Watch) -> Tensor:
    """[B, 512, 2T] to [B, 1, 1920 T]."""
    return seanet(x, "decoder", DECODER, w, state, watch)


def pad_zero(x: Tensor, amount: int) -> Tensor:
    """Silence in front of a stream."""
    return F.pad(x, (amount, 0))


def pad_first(x: Tensor, amount: int) -> Tensor:
    """The first value, repeated in front of a stream."""
    return F.pad(x, (amount, 0), mode="replicate")


def joined(x: Tensor, amount: int, state: State, name: str, pad: Callable[[Tensor, int], Tensor] = pad_zero) -> Tensor:
    """A new tensor: so many values of the chunk before, or padding, in front of x. [B, C, T] to [B, C, amount + T]."""
    x = torch.cat([state[name], x], -1) if name in state else pad(x, amount)
    state[name] = x[..., x.shape[-1] - amount :].clone()  # a view would keep the whole chunk, and share its ELU
    return x


def conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int, state: State, name: str, elu: bool = True) -> Tensor:
    """Causal: kernel − stride values stand in front. Padding is silence before ELU and after, so ELU comes second."""
    x = joined(x, weight.shape[-1] - stride, state, name)
    return F.conv1d(F.elu_(x) if elu else x, weight, bias, stride)


def transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, state: State, name: str, groups: int = 1
) -> Tensor:
    """Causal: T values give stride·T; what reaches beyond is added to the next chunk, without the bias."""
    y = F.conv_transpose1d(x, weight, None, stride, groups=groups)  # [B, C', sT + kernel − stride]
    beyond = weight.shape[-1] - stride
    if name in state:
        y[..., :beyond] += state[name]
    state[name] = y[..., y.shape[-1] - beyond :].clone()
    y = y[..., : y.shape[-1] - beyond]  # [B, C', sT]
    return y if bias is None else y.add_(bias[:, None])


def upsample(x: Tensor, weight: Tensor, state: State) -> Tensor:
    """Each channel by itself. [B, 512, T] to [B, 512, 2T]."""
    return transposed(x, weight, None, 2, state, "upsample", groups=512)


def transformer(x: Tensor, part: str, w: Weights, state: State, watch: Watch) -> Tensor:
    """Eight layers before whose branches the values are normalised. [B, 512, T] to the same."""
    x = x.transpose(1, 2).contiguous()  # [B, T, 512]
    start = state.get(part, 0)
    positions = torch.arange(start, start + x.shape[1])  # [T]
    for layer in range(LAYERS):
        name = f"{part}.transformer.layers.{layer}"
        y = layer_norm(x, w[f"{name}.norm1.weight"], w[f"{name}.norm1.bias"])
        x = x + layer_scaled(attention(y, positions, name, w, state), w[f"{name}.layer_scale_1.scale"])
        y = layer_norm(x, w[f"{name}.norm2.weight"], w[f"{name}.norm2.bias"])
        y = F.linear(gelu(F.linear(y, w[f"{name}.linear1.weight"])), w[f"{name}.linear2.weight"])
        x = x + layer_scaled(y, w[f"{name}.layer_scale_2.scale"])
        watch(f"{part}.{layer}", x.transpose(1, 2))
    state[part] = start + x.shape[1]
    return x.transpose(1, 2)  # [B, 512, T]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the channels, the last dimension."""
    return F.layer_norm(x, weight.shape, weight, bias, LAYER_NORM_EPS)


def gelu(x: Tensor) -> Tensor:
    """By the error function, not its tanh approximation."""
    return F.gelu(x)


def layer_scaled(x: Tensor, scale: Tensor) -> Tensor:
    """A learned factor for each channel of a branch."""
    return x * scale


def attention(x: Tensor, positions: Tensor, name: str, w: Weights, state: State) -> Tensor:
    """Causal, over the present and CONTEXT − 1 steps before. x: [B, T, 512]."""
    batch, steps, _ = x.shape
    packed = F.linear(x, w[f"{name}.self_attn.in_proj_weight"]).view(batch, steps, 3, HEADS, -1)
    packed = packed.permute(2, 0, 3, 1, 4)  # [3, B, 8, T, 64]
    (q, k), v = rotate(packed[:2], positions), packed[2]  # each [B, 8, T, 64]
    if name in state:
        k, v = (torch.cat(pair, 2) for pair in zip(state[name], (k, v), strict=True))  # [B, 8, before + T, 64]
    state[name] = (k[:, :, -CONTEXT:], v[:, :, -CONTEXT:])
    delta = positions[:, None] - (positions[-1] - torch.arange(k.shape[2] - 1, -1, -1))  # [T, before + T]
    y = F.scaled_dot_product_attention(q, k, v, visible(delta))  # [B, 8, T, 64]
    return F.linear(y.transpose(1, 2).reshape(batch, steps, -1), w[f"{name}.self_attn.out_proj.weight"])


def visible(delta: Tensor) -> Tensor:
    """Which steps attention sees; delta: how far they lie back."""
    return (delta >= 0) & (delta < CONTEXT)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions on neighbouring pairs, angles in float32. x: [..., T, 64]."""
    half = x.shape[-1] // 2
    rates = torch.exp(torch.arange(half).float() * (-np.log(ROPE_BASE) / half))  # [32]
    angles = positions[:, None].float() * rates  # [T, 32]
    cos, sin = angles.cos(), angles.sin()
    real, imaginary = x.float().unflatten(-1, (half, 2)).unbind(-1)  # each [..., T, 32]
    turned = (real * cos - imaginary * sin, real * sin + imaginary * cos)
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)


def codebook(embedding_sum: Tensor, cluster_usage: Tensor) -> Tensor:
    """The entries [2048, 256] are means: sums over how often each was used."""
    return embedding_sum / cluster_usage.clamp(min=USAGE_FLOOR)[:, None]


def nearest(x: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and Euclidean distances of the 8 nearest entries, nearest first. x: [B, T, 256]; gives [B, T, 8]."""
    distances = torch.cdist(x, entries[None])  # [B, T, 2048]
    first = distances.argmin(-1, keepdim=True)  # [B, T, 1]; among equals the lowest, which topk does not promise
    indices = distances.scatter(-1, first, -1.0).topk(CANDIDATES, largest=False).indices  # [B, T, 8]
    return indices, distances.gather(-1, indices)


def chains() -> tuple[tuple[str, range], ...]:
    """The two quantisers and their codebooks: the semantic one, and the acoustic ones, each on the residual before."""
    return ("quantizer.rvq_first", range(1)), ("quantizer.rvq_rest", range(1, CODEBOOKS))


def quantise(latents: Tensor, w: Weights, entries: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """[B, 512, T] to codes [B, 32, T] and the nearest entries and distances [B, 32, T, 8]."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for name, indices in chains():
        residual = F.conv1d(latents, w[f"{name}.input_proj.weight"].float()).transpose(1, 2)  # [B, T, 256]
        for index in indices:
            found[index] = nearest(residual, entries[index])
            residual = residual - entries[index][found[index][0][..., 0]]
    near, distances = (torch.stack([found[index][side] for index in sorted(found)], 1) for side in (0, 1))
    return near[..., 0], near, distances


def dequantise(codes: Tensor, w: Weights, entries: Sequence[Tensor]) -> Tensor:
    """[B, K, T] to [B, 512, T]: the entries of each chain summed, projected, and both added."""
    parts = []
    for name, indices in chains():
        if chosen := [entries[index][codes[:, index]] for index in indices if index < codes.shape[1]]:
            summed = torch.stack(chosen).sum(0).transpose(1, 2)  # [B, 256, T]
            parts.append(F.conv1d(summed, w[f"{name}.output_proj.weight"].float()))  # [B, 512, T]
    return torch.stack(parts).sum(0)


def carried(state: State) -> State:
    """The state that the next chunk of a stream starts from."""
    return state


def _both(w: Weights, name: str) -> tuple[Tensor, Tensor]:
    return w[f"{name}.weight"], w[f"{name}.bias"]


def _tensor(samples: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))
