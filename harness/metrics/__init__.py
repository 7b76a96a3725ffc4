"""The metrics, written once: pure functions on NumPy arrays, one module per kind.

`tensors` holds the one comparison verb, `compare_tensors`; `resampling`, `speech`, `voice_activity` and `timing`
measure what is peculiar to their kind. Every definition, with unit and source, is in `docs/metrics.md`. Nothing here
imports a model, torch or librosa.
"""
