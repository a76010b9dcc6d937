"""From wishes to a running engine. Only here are implementations chosen."""

from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from colibri.config import EngineConfig
from colibri.config.routers import parse_router
from colibri.container.layerexperts import main_layers
from colibri.container.reader import Container, open_container
from colibri.engine.check import ApproxCost
from colibri.engine.engine import Engine
from colibri.engine.guard import MemoryGuard
from colibri.engine.thread import EngineThread
from colibri.engine.watch import Watch
from colibri.experts.learning import Learning
from colibri.experts.reads.sources import open_drives
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.pins import Pins, pin_limits
from colibri.hardware import probe
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.exact import telling_positions
from colibri.layers.lookahead import with_lookahead
from colibri.layers.traced import with_tracer
from colibri.layers.walk import with_walks
from colibri.models.loader import TrunkLoader
from colibri.models.registry import family_for
from colibri.planner.descriptors import allow_open_files
from colibri.planner.forecast import Forecast, Rates, forecast
from colibri.planner.plan import LOGIT_ROWS, PAIR_BUFFER_BYTES, Plan
from colibri.planner.threads import use_threads
from colibri.planner.usage import popularity
from colibri.routing.approximation import Approximation
from colibri.routing.base import RouterFactory, own_router
from colibri.routing.cacheaware import Residency
from colibri.runtime.notices import (
    load_line,
    precision,
    warn,
    warn_of_pins,
    warn_of_reads,
    warn_of_threads,
)
from colibri.runtime.parts import make_check, make_stored, make_tracer, open_usage
from colibri.runtime.stats import Stats


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
        plan: Plan,
        make_router: RouterFactory = own_router,
        clock: Clock = NO_CLOCK,
    ) -> None:
        family = family_for(container.config)
        model_config = family.parse(container.config)
        self.vocab_size = model_config.vocab_size
        on_threads = use_threads(config)
        sizes = family.sizes(model_config)
        self.plan = plan
        self.wants_marks = sizes.sequence_bytes > 0  # its states cannot be cut anywhere
        self.container, self.config = container, config
        planes = self.planes = 2 if config.activations == "int8x2" else 1
        layers = main_layers(container.expert_layers())
        allow_open_files(container.path, layers, len(config.mirror))
        log = self.usage = open_usage(config, container)
        self._popularity = popularity(log.counts())
        drives = open_drives(layers, [Path(name) for name in config.mirror])
        watch = Watch()
        self.tracer = make_tracer(config, container, self.plan, layers, model_config.hidden_size)
        if self.tracer is not None:
            make_router = self.tracer.wrap(make_router)
        experts = self.experts = StreamedExperts(
            layers,
            slots_per_layer=dict(self.plan.slots),
            policy=self.plan.policy,
            scope=config.cache_scope,
            cache_bits=config.cache_bits,
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
        approximation = self._approximation = Approximation(
            parse_router(config.router),
            config.experts_per_token,
            config.expert_top_p,
            Residency(experts.at_hand),
        )
        with ExitStack() as ends:
            ends.callback(experts.close)
            if self.tracer is not None:
                ends.callback(self.tracer.close)
            pins = Pins(config.pin, sizes.experts_per_token)
            learning = Learning(log, pins, experts, self.plan.policy)
            ends.callback(learning.close)
            bits = self.plan.trunk_bits, self.plan.embed_bits
            router_bits: Literal["source", 8] = 8 if approximation.int8_gates else "source"
            routers = approximation.over(make_router)
            loader = TrunkLoader(container, *bits, planes, routers, router_bits)
            model = family.build(model_config, loader, experts)
            stored = self._stored = make_stored(config, layers, planes, experts, watch)
            if stored is not None:
                ends.callback(stored.close)
            check = make_check(config, approximation, model, self.plan, experts, stored)
            model = with_walks(with_lookahead(model, experts, config.lookahead))
            if approximation.noise is not None:
                model = telling_positions(model, approximation.noise.tell)
            model = with_tracer(model, self.tracer)
            at_end = ends.pop_all().close
        guard = self._guard = MemoryGuard(self.plan.budget_bytes, probe.rss_bytes, experts)
        engine = Engine(
            model,
            context=self.plan.context,
            prefill_chunk=self.plan.prefill_chunk,
            logit_rows=LOGIT_ROWS,
            watch=watch,
            bytes_read=lambda: experts.bytes_read,
            after_step=guard.after,
            clock=clock,
            check=check,
            turn_ended=learning.turn_ended,
            sequence_positions=sizes.sequence_positions,
            prefix_cache=None if config.prefix_cache == "auto" else config.prefix_cache,
            max_queue=config.max_queue,
        )
        self._cost = ApproxCost() if check is None else check.cost
        self._counters = engine.stats
        self._loaded_rss_bytes = probe.rss_bytes()

        # Nothing else holds the engine, so its end gives the model's memory back.
        self.thread = EngineThread(engine, at_end, config.stall_timeout)
        self.approximate = approximation.text()
        self.precision = precision(config, container, self.plan)
        self.load_line = load_line(
            config, container, family.name, self.plan, experts.drives, self.approximate
        )
        warn(config, self.plan, self.approximate)
        warn_of_threads(on_threads)
        warn_of_reads(config, layers.values())
        cached = experts.cached_layers()
        warn_of_pins(config, pin_limits(config.pin, cached, sizes.experts_per_token))

    def forecast(self, rates: Rates) -> Forecast:
        """What the plan is worth at these rates."""
        return forecast(self.plan, self.container, rates, self._popularity)

    def stats(self) -> Stats:
        engine, experts, rss = self._counters, self.experts.stats(), probe.rss_bytes()
        if self._stored is not None:
            experts = experts.and_of_checks(self._stored.stats())
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
            approx_tokens=self._cost.tokens,
            approx_agreed=self._cost.agreed,
            approx_kl=self._cost.kl,
            approx_seconds=self._cost.seconds,
            approx_bytes_read=self._cost.bytes_read,
            experts_chosen=self._approximation.swaps.chosen,
            experts_swapped=self._approximation.swaps.swapped,
        )
