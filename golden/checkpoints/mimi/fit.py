"""Fit the codebooks of `mimi-fitted` to the golden clips: `python golden/checkpoints/mimi/fit.py`, two minutes.

Codebook after codebook, the mean and the spread of each dimension of what the ones before have left over; the spread is
multiplied by the factor that leaves the least. Writes `codebooks.safetensors` beside this file. The digests in
`references/mimi_fitted.py` change with it: the script prints them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from harness.checkpoints import folder_digests
from harness.clips import load_clips
from harness.provenance import PROJECT
from harness.tasks import load_task
from ports import mimi
from references import mimi_fitted, mimi_layout

FACTORS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def main() -> None:
    """Fit, save, and print the digests."""
    zeros = {name: np.zeros((32, 256), np.float32) for name in ("mean", "spread")}
    weights = mimi_fitted.native(zeros)
    clips = [
        clip for clip in load_task("codec").stimuli(load_clips(PROJECT / "golden" / "clips")) if clip.scope == "clips"
    ]
    with tempfile.TemporaryDirectory() as folder:
        save_file(weights, Path(folder) / mimi_layout.NATIVE_FILE)
        model = mimi.Torch(checkpoint=Path(folder))
        latents = np.concatenate([model.encode(clip.samples)["latents"] for clip in clips], 1)  # [512, T]
    print(f"{latents.shape[1]} frames, latents {latents.std():.3g}")
    mean, spread = zeros["mean"], zeros["spread"]
    for chain, indices in mimi.chains():
        residual = latents.T @ weights[f"{chain}.input_proj.weight"][:, :, 0].T  # [T, 256]
        for index in indices:
            before = float((residual**2).sum())
            mean[index], spread[index], residual = _fit(index, residual)
            print(f"codebook {index}: energy {before:.4g} to {float((residual**2).sum()):.4g}")
    save_file({"mean": mean, "spread": spread}, mimi_fitted.STATISTICS)
    with tempfile.TemporaryDirectory() as folder:
        mimi_fitted.make(Path(folder))
        for name, digest in folder_digests(Path(folder)).items():
            print(f'    "{name}": "{digest}",')


def _fit(index: int, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, spread, and what the codebook leaves over."""
    mean, deviation = residual.mean(0).astype(np.float32), residual.std(0).astype(np.float32)
    best = None
    for factor in FACTORS:
        spread = (deviation * np.float32(factor)).astype(np.float32)
        left = _left(index, mean, spread, residual)
        if best is None or (left**2).sum() < (best[2] ** 2).sum():
            best = mean, spread, left
    assert best
    return best


def _left(index: int, mean: np.ndarray, spread: np.ndarray, residual: np.ndarray) -> np.ndarray:
    tensors = list(mimi_fitted.codebook(index, mean, spread).values())
    entries = mimi.codebook(torch.from_numpy(tensors[2]), torch.from_numpy(tensors[1]))
    chosen = torch.cdist(torch.from_numpy(residual)[None], entries[None])[0].argmin(-1)
    return residual - entries[chosen].numpy()


if __name__ == "__main__":
    main()
