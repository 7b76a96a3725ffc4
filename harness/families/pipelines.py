"""Pipelines: stages of several families one behind the other, as a product runs them."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import ParityError


@dataclass(frozen=True)
class PipelineStage:
    """One stage. name: what it is called. family: whose implementations run it. reference, port: their short names; an
    empty port is the one that the user names. tensor, rate_hz: which of its outputs becomes the next stage's clip, and
    the rate of that clip; of the last stage, empty."""

    name: str
    family: str
    reference: str
    port: str = ""
    tensor: str = ""
    rate_hz: int = 0


@dataclass(frozen=True)
class Pipeline:
    """Stages in order; the last one's family judges. rates_hz: of the clips that it is given."""

    stages: tuple[PipelineStage, ...]
    rates_hz: tuple[int, ...]

    @property
    def family(self) -> str:
        """The family whose gates judge what comes out."""
        return self.stages[-1].family


PIPELINES = (
    Pipeline(
        stages=(
            PipelineStage("resampler", "resampler", "librosa", "libsoxr", tensor="resampled_16000", rate_hz=16000),
            PipelineStage("vad", "silero-vad", "torchscript"),
        ),
        rates_hz=(24000,),
    ),
)


def pipeline_of(family: str) -> Pipeline:
    """The pipeline that ends in a family. Raises ParityError when there is none."""
    for pipeline in PIPELINES:
        if pipeline.family == family:
            return pipeline
    known = ", ".join(pipeline.family for pipeline in PIPELINES)
    raise ParityError(family, "no pipeline ends in this family", f"one of {known}", "declare one")
