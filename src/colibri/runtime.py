"""From wishes to a running engine. Only here are implementations chosen."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from colibri.config import EngineConfig
from colibri.container.files import as_unicode
from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container, open_container
from colibri.engine.engine import Engine
from colibri.engine.guard import MemoryGuard
from colibri.engine.request import Watch
from colibri.engine.thread import EngineThread
from colibri.errors import ConfigError
from colibri.experts.base import DriveStats
from colibri.experts.learning import Learning
from colibri.experts.pins import Pins, pin_limits
from colibri.experts.sources import Drive, open_drives
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usagefile import Subject
from colibri.experts.usagelog import UsageLog, usage_path
from colibri.hardware import probe
from colibri.kernels import cpu
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.lookahead import with_lookahead
from colibri.layers.traced import with_tracer
from colibri.models.loader import TrunkLoader
from colibri.models.registry import family_for
from colibri.planner.budget import this_machine
from colibri.planner.forecast import Forecast, Rates, forecast
from colibri.planner.plan import LOGIT_ROWS, PAIR_BUFFER_BYTES, Plan, make_plan
from colibri.planner.trunk import bits_text
from colibri.planner.usage import popularity
from colibri.routing.base import RouterFactory, own_router
from colibri.routing.trace import Header, LayerFacts
from colibri.routing.tracing import Tracer

logger = logging.getLogger("colibri")


@dataclass(frozen=True)
class Stats:
    """Counters since the model was loaded."""

    prefill_tokens: int
    prefill_seconds: float
    decode_tokens: int
    decode_seconds: float
    hits: int
    misses: int
    bytes_read: int
    read_seconds: float
    wait_seconds: float
    prefetch_reads: int
    prefetch_useful: int
    prefetch_wasted_bytes: int
    prefetch_expired: int
    lookahead_missing: int
    lookahead_right: int
    guard_shrinks: int  # times that the expert cache gave memory back to keep the budget
    guard_bytes: int  # what it gave
    loaded_rss_bytes: int  # resident once the model was loaded
    rss_bytes: int
    peak_rss_bytes: int
    drives: tuple[DriveStats, ...] = ()  # where experts are read from several


def open_model(path: Path, config: EngineConfig) -> Container:
    """The model's directory, checked; nothing loaded yet."""
    return open_container(
        path,
        lambda c: family_for(c).weights_of(c),
        direct=config.direct != "off",
        others=[Path(name) for name in config.model_dirs],
    )


class Runtime:
    """A model loaded, on its own thread, in token ids; text is the caller's."""

    def __init__(
        self,
        container: Container,
        config: EngineConfig,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
    ) -> None:
        family = family_for(container.config)
        model_config = family.parse(container.config)
        self.vocab_size = model_config.vocab_size
        cpu.configure_as_asked(config.threads, config.cpu)
        sizes, positions = family.sizes(model_config), model_config.max_position_embeddings
        self.plan: Plan = make_plan(
            config, container, sizes, positions, self.vocab_size, this_machine()
        )
        self.container = container
        planes = self.planes = 2 if config.activations == "int8x2" else 1
        layers = {n: layer for n, layer in container.expert_layers().items() if not layer.draft}
        log = _usage_log(config, container, layers)
        self._popularity = popularity(log.counts())
        drives = open_drives(layers, [Path(name) for name in config.mirror])
        watch = Watch()
        self.tracer = _tracer(config, container, self.plan, layers, model_config.hidden_size)
        if self.tracer is not None:
            make_router = self.tracer.wrap(make_router)
        experts = self.experts = StreamedExperts(
            layers,
            slots_per_layer=dict(self.plan.slots),
            policy=config.policy,
            scope=config.cache_scope,
            planes=planes,
            readers=config.readers,
            pair_buffer_bytes=PAIR_BUFFER_BYTES,
            verify=config.verify_reads == "on",
            direct=config.direct,
            drives=drives,
            disk_weights=config.disk_weights,
            cancelled=watch.cancelled,
            note=log.recorder.note,
        )
        with ExitStack() as ends:
            ends.callback(experts.close)
            if self.tracer is not None:
                ends.callback(self.tracer.close)
            pins = Pins(config.pin, sizes.experts_per_token)
            learning = Learning(log, pins, experts, config.policy)
            ends.callback(learning.close)
            bits = self.plan.trunk_bits, self.plan.embed_bits
            loader = TrunkLoader(container, *bits, planes, make_router)
            model = family.build(model_config, loader, experts)
            model = with_lookahead(model, experts, config.lookahead)
            model = with_tracer(model, self.tracer)
            at_end = ends.pop_all().close
        guard = self._guard = MemoryGuard(self.plan.budget_bytes, probe.rss_bytes, experts)
        engine = Engine(
            model,
            context=self.plan.context,
            prefill_chunk=self.plan.prefill_chunk,
            logit_rows=LOGIT_ROWS,
            watch=watch,
            bytes_read=lambda: experts.stats().bytes_read,
            after_step=guard.after,
            clock=clock,
            turn_ended=learning.turn_ended,
        )
        self._counters = engine.stats
        self._loaded_rss_bytes = probe.rss_bytes()

        # Nothing else holds the engine, so its end gives the model's memory back.
        self.thread = EngineThread(engine, at_end)
        scheme = next(iter(layers.values())).layout.scheme if layers else "none"
        trunk, embedding = bits_text(self.plan.trunk_bits), bits_text(self.plan.embed_bits)
        self.load_line = (
            f"{container.path.absolute().name} ({family.name}): experts {scheme}, "
            f"trunk at {trunk}, embedding at {embedding}, "
            f"activations {config.activations}, "
            f"{cpu.active_path()} on {cpu.num_threads()} threads"
            f"{_drives_text(experts.drives)}{_profile_text(config)}"
        )
        _warn(config, self.plan)
        if config.verify_reads == "on" and not all(layer.record for layer in layers.values()):
            logger.warning(
                "--verify-reads: a model as downloaded has no checksums of its experts, so none is "
                "checked; convert it: coli convert"
            )
        limits = pin_limits(config.pin, experts.cached_layers(), sizes.experts_per_token)
        if limits.asked_bytes > limits.nbytes:
            logger.warning(
                "--pin %s: that is %s MB of experts, and %s MB are pinned at most: every layer "
                "keeps slots for the others",
                config.pin,
                *(f"{nbytes / 1e6:,.1f}" for nbytes in (limits.asked_bytes, limits.nbytes)),
            )

    def forecast(self, rates: Rates) -> Forecast:
        """What the plan is worth at these rates."""
        return forecast(self.plan, self.container, rates, self._popularity)

    def stats(self) -> Stats:
        engine, experts, rss = self._counters, self.experts.stats(), probe.rss_bytes()
        return Stats(
            prefill_tokens=engine.prefill_tokens,
            prefill_seconds=engine.prefill_seconds,
            decode_tokens=engine.decode_tokens,
            decode_seconds=engine.decode_seconds,
            hits=experts.hits,
            misses=experts.misses,
            bytes_read=experts.bytes_read,
            read_seconds=experts.read_seconds,
            wait_seconds=experts.wait_seconds,
            prefetch_reads=experts.prefetch_reads,
            prefetch_useful=experts.prefetch_useful,
            prefetch_wasted_bytes=experts.prefetch_wasted_bytes,
            prefetch_expired=experts.prefetch_expired,
            lookahead_missing=experts.guesses.missing,
            lookahead_right=experts.guesses.right,
            drives=experts.drives,
            guard_shrinks=self._guard.shrinks,
            guard_bytes=self._guard.given_back_bytes,
            loaded_rss_bytes=self._loaded_rss_bytes,
            rss_bytes=rss,
            peak_rss_bytes=max(rss, probe.peak_rss_bytes()),
        )


def _tracer(
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
            policy=config.policy,
            scope=config.cache_scope,
            pair_buffer_bytes=PAIR_BUFFER_BYTES,
        ),
    )


def _facts(layer: LayerExperts, plan: Plan) -> LayerFacts:
    return LayerFacts(
        layer.layer,
        layer.num_experts,
        expert_bytes=sum(span.nbytes for span in layer.reads(0)),
        slot_bytes=layer.slot_bytes,
        slots=plan.slots[layer.layer],
    )


def _usage_log(
    config: EngineConfig, container: Container, layers: Mapping[int, LayerExperts]
) -> UsageLog:
    subject = Subject.of(container.path.absolute().name, container.config, layers)
    embedded = config.model is None
    path = usage_path(config.usage, container.path, subject, os.environ, embedded=embedded)
    log = UsageLog(subject, config.usage_half_life, path)
    log.load(named=config.usage not in ("auto", "off"))
    return log


def _profile_text(config: EngineConfig) -> str:
    taken = config.profile not in ("auto", "off")
    return f", profile {Path(config.profile).name}" if taken else ""


def _warn(config: EngineConfig, plan: Plan) -> None:
    """Of a precision that is not what one may think."""
    for part in ("trunk", "embed"):
        asked, got = getattr(config, f"{part}_bits"), getattr(plan, f"{part}_bits")
        # 8 is the embedding's default: a model stored at 4 is no surprise to who did not ask.
        if asked not in ("auto", got) and (part, asked) != ("embed", 8):
            logger.warning("--%s-bits %s: it is stored at %s bits, and stays so", part, asked, got)
    if config.activations == "int8":
        logger.warning("activations int8: one plane instead of two, so logits are less exact")


def _drives_text(drives: Sequence[Drive]) -> str:
    total = sum(drive.weight for drive in drives)
    shares = (f"{100 * drive.weight / total:.0f} % {drive.directory}" for drive in drives)
    return f", reading {', '.join(shares)}" if total else ""
