"""Parts of a runtime that are there only where they are wanted."""

import os
from collections.abc import Mapping
from pathlib import Path

from colibri.config import EngineConfig
from colibri.container.files import as_unicode
from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container
from colibri.engine.check import ExactCheck
from colibri.engine.watch import Watch
from colibri.errors import ConfigError
from colibri.experts.stored import checks_stored_bits, stored_experts
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.log import UsageLog, usage_of_model
from colibri.layers.decoder import Decoder
from colibri.layers.exact import exact_twin
from colibri.planner.plan import PAIR_BUFFER_BYTES, Plan
from colibri.routing.approximation import Approximation
from colibri.routing.trace import Header, LayerFacts
from colibri.routing.tracing import Tracer

CHECK_EVERY = 16  # tokens, where the exact experts may have to be read


def make_tracer(
    config: EngineConfig,
    container: Container,
    plan: Plan,
    layers: Mapping[int, LayerExperts],
    hidden: int,
) -> Tracer | None:
    if config.trace is None:
        return None
    if not layers:
        raise ConfigError("this model has no routed experts, so there is no routing to record")
    return Tracer(
        Path(config.trace),
        Header(
            model=as_unicode(container.path.absolute().name),
            hidden_size=hidden,
            layers=[_facts(layer, plan) for layer in layers.values()],
            logits=config.trace_logits == "on",
            policy=plan.policy,
            scope=config.cache_scope,
            pair_buffer_bytes=PAIR_BUFFER_BYTES,
        ),
    )


def _facts(layer: LayerExperts, plan: Plan) -> LayerFacts:
    return LayerFacts(
        layer.layer,
        layer.num_experts,
        expert_bytes=sum(span.nbytes for span in layer.reads(0)),
        slot_bytes=plan.slot_bytes[layer.layer],
        slots=plan.slots[layer.layer],
    )


def open_usage(config: EngineConfig, container: Container) -> UsageLog:
    subject, path = usage_of_model(config, container, os.environ)
    log = UsageLog(subject, config.usage_half_life, path)
    log.load(named=config.usage not in ("auto", "off"))
    return log


def make_stored(
    config: EngineConfig,
    layers: Mapping[int, LayerExperts],
    planes: int,
    experts: StreamedExperts,
    watch: Watch,
) -> StreamedExperts | None:
    """The experts at their stored bits, for the check of a cache that keeps fewer."""
    if not checks_stored_bits(config.cache_bits, config.approx_check):
        return None
    return stored_experts(
        layers,
        experts,
        planes=planes,
        pair_buffer_bytes=PAIR_BUFFER_BYTES,
        verify=config.verify_reads == "on",
        direct=config.direct,
        cancelled=watch.cancelled,
    )


def make_check(
    config: EngineConfig,
    approximation: Approximation,
    model: Decoder,
    plan: Plan,
    experts: StreamedExperts,
    stored: StreamedExperts | None,
) -> ExactCheck | None:
    """stored: of make_stored(); its experts are what is exact, where there are any."""
    approximate = approximation.changes_anything or config.cache_bits != "stored"
    if not approximate or config.approx_check == "off":
        return None
    every = config.approx_check
    if every == "auto":
        at_hand = plan.slots == plan.experts_per_layer and stored is None
        every = 1 if at_hand else CHECK_EVERY
    reader = experts if stored is None else stored
    return ExactCheck(
        exact_twin(model, stored),
        every,
        bytes_read=lambda: reader.bytes_read,
        aside=lambda: approximation.resident.keep(plan.slots),
    )
