"""Tells a tracer where the sequences of a step begin."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.layers.decoder import AroundStep, Decoder
from colibri.layers.step import Step
from colibri.routing.tracing import Tracer


@dataclass(frozen=True)
class TracedSteps:
    tracer: Tracer
    inner: AroundStep | None

    def step(self, step: Step, x: NDArray[np.float32]) -> AbstractContextManager[None]:
        self.tracer.step([rows.start for rows in step.sequences])
        return self.inner.step(step, x) if self.inner else nullcontext()


def with_tracer(decoder: Decoder, tracer: Tracer | None) -> Decoder:
    """The decoder, its routers made by tracer.wrap; None: as it is."""
    if tracer is None:
        return decoder
    return replace(decoder, lookahead=TracedSteps(tracer, decoder.lookahead))
