"""From wishes to numbers: what the memory budget holds, item by item, decided before anything is
loaded."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from colibri.config import EngineConfig
from colibri.config.choices import CacheBits, EmbedBits, StoredBits
from colibri.errors import CapacityError, ConfigError
from colibri.experts.cache.narrow import buffer_count
from colibri.experts.cache.policies.auto import ratio, resolve
from colibri.experts.stored import checks_stored_bits, shared_bytes
from colibri.experts.usage.pins import CachedLayer, pin_limits
from colibri.models.family import Sizes
from colibri.planner.budget import MB, Machine, resolve_budget
from colibri.planner.model import LayerSizes, Model, kept_layers, streamed_layers
from colibri.planner.trunk import bits_text, trunk_of
from colibri.text.tokenizermemory import NO_TOKENIZER, TokenizerMemory
from colibri.words import count

DEFAULT_CONTEXT = 8192
SMALLEST_CHUNK, LARGEST_CHUNK = 32, 2048
PAIR_BUFFER_BYTES = 64 * MB
WORKING_BYTES = 12 * MB  # Python's own growth, thread stacks, load buffers
# Of a process with all of its libraries, a server's too: the same in every command, so that the
# plan of one is the plan of all, unless whoever holds the model has taken more already. Of
# libraries that were just installed the system maps more pages than are asked for, some 6 MB.
PROCESS_BYTES = 74 * MB
LOGIT_ROWS = 16  # of a step whose logits exist at a time
_PREFIXES = "of prompts and answers that ended, beside the context"
_LOADING = "of the tokenizer's file, beyond what is needed once it is read"
_ENFORCING = "a second copy of the vocabulary, from the first structured answer on"
_LANDING = "experts as they are read, before they are cut to 3 bits, and for checking these"
# A vocabulary entry: probabilities and their order, and for each row logits and what was made of
# them, which the system's allocator does not use again at once.
SAMPLING_BYTES = 28 + 20 * LOGIT_ROWS


@dataclass(frozen=True)
class Item:
    """One line of the plan."""

    name: str
    nbytes: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """Resolved numbers, all in bytes unless named otherwise."""

    budget_bytes: int
    process_bytes: int
    trunk_bytes: int  # with the head, without the embedding
    head_bytes: int  # 0: tied to the embedding
    embedding_bytes: int
    context: int  # tokens
    state_bytes: int  # keys and values of the whole context, recurrent states
    prefill_chunk: int  # tokens
    activation_bytes: int
    slots: Mapping[int, int]  # expert slots by layer
    slot_bytes: Mapping[int, int]  # by layer
    experts_per_layer: Mapping[int, int]
    experts_per_token: int  # of a layer
    layer_trunk_bytes: Mapping[int, int]
    trunk_bits: StoredBits
    embed_bits: EmbedBits
    budget_reason: str = ""
    policy: str = "lru"  # of the cache
    pin_bytes: int = 0  # of the arena's, at most, for the experts used most
    cache_bits: CacheBits = "stored"
    prefix_bytes: int = 0  # for what ended sequences left, beside the context
    buffer_bytes: int = 0  # for experts on their way that do not stay as they are read
    rss_bytes: int = 0  # what the process had when this was planned
    tokenizer: TokenizerMemory = NO_TOKENIZER
    notes: tuple[str, ...] = ()  # what whoever reads the plan should know

    @property
    def arena_bytes(self) -> int:
        return sum(n * self.slot_bytes[layer] for layer, n in self.slots.items())

    @property
    def peak_bytes(self) -> int:
        return self._loaded_bytes + self.loading_bytes

    @property
    def _loaded_bytes(self) -> int:
        """The most once everything is loaded."""
        fixed = self.process_bytes + self.tokenizer.held + self.tokenizer.structures
        fixed += self.trunk_bytes + self.embedding_bytes
        fixed += self.state_bytes + self.prefix_bytes + self.activation_bytes
        return fixed + self.buffer_bytes + self.arena_bytes

    @property
    def loading_bytes(self) -> int:
        """What the tokenizer takes beyond that while it is read: before anything else is loaded, so
        this is above 0 only where all the rest is small."""
        reading = self.process_bytes - WORKING_BYTES + self.tokenizer.loading
        return max(0, reading - self._loaded_bytes)

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.budget_bytes

    def items(self) -> list[Item]:
        """What the peak is the sum of."""
        few, many = min(self.slots.values(), default=0), max(self.slots.values(), default=0)
        held = f"{few}" if few == many else f"{few} to {many}"
        of = max(self.experts_per_layer.values(), default=0)
        bits, embed_bits = bits_text(self.trunk_bits), bits_text(self.embed_bits)
        pinned = f"; {self.pin_bytes / MB:,.1f} MB pinned at most" if self.pin_bytes else ""
        at_bits = "" if self.cache_bits == "stored" else f", at {self.cache_bits} bits"
        structures = self.tokenizer.structures
        tied = "" if self.head_bytes else ", which is the head too"
        return [
            Item("process", self.process_bytes, "Python, libraries and working buffers"),
            Item("tokenizer", self.tokenizer.held, self.tokenizer.source),
            *([Item("structures", structures, _ENFORCING)] if structures else []),
            Item("trunk", self.trunk_bytes - self.head_bytes, f"at {bits}"),
            *([Item("head", self.head_bytes, f"at {bits}")] if self.head_bytes else []),
            Item("embedding", self.embedding_bytes, f"at {embed_bits}{tied}"),
            Item(
                "state",
                self.state_bytes,
                f"keys and values of {count(self.context, 'token')}, touched as used",
            ),
            *([Item("prefixes", self.prefix_bytes, _PREFIXES)] if self.prefix_bytes else []),
            Item(
                "activations",
                self.activation_bytes,
                f"prefill in chunks of {count(self.prefill_chunk, 'token')}",
            ),
            *([Item("buffers", self.buffer_bytes, _LANDING)] if self.buffer_bytes else []),
            Item(
                "experts",
                self.arena_bytes,
                f"{held} of {of} a layer, {count(len(self.slots), 'layer')}{at_bits}{pinned}",
            ),
            *([Item("loading", self.loading_bytes, _LOADING)] if self.loading_bytes else []),
        ]

    def lines(self) -> list[str]:
        budget = f"of a budget of {self.budget_bytes / MB:,.0f} MB"
        rows = [*self.items(), Item("peak", self.peak_bytes, budget)]
        table = [f"{r.name:<12}{r.nbytes / MB:>10,.1f} MB  {r.reason}".rstrip() for r in rows]
        return table + [f"note: {note}" for note in self.notes]


def make_plan(
    config: EngineConfig,
    model: Model,
    sizes: Sizes,
    max_positions: int,
    vocab: int,
    machine: Machine,
    tokenizer: TokenizerMemory = NO_TOKENIZER,
) -> Plan:
    """Raises CapacityError with the least that works where the budget does not suffice."""
    plan = draft_plan(config, model, sizes, max_positions, vocab, machine, tokenizer)
    if not plan.fits:
        raise CapacityError(refusal(plan, shrinkable=model.stored_bits is None))
    return plan


def draft_plan(
    config: EngineConfig,
    model: Model,
    sizes: Sizes,
    max_positions: int,
    vocab: int,
    machine: Machine,
    tokenizer: TokenizerMemory = NO_TOKENIZER,
) -> Plan:
    """The same, also where it does not fit; its peak is then the least that works."""
    stored = streamed_layers(model)
    layers = kept_layers(stored, config.cache_bits)
    if config.experts_per_token is not None:
        sizes = sizes.choosing(config.experts_per_token)
    trunk = trunk_of(config, model)
    context = _context(config, max_positions)
    budget = resolve_budget(config.ram, machine)
    process = max(machine.rss_bytes, PROCESS_BYTES) + WORKING_BYTES
    state = context * sizes.state_bytes + sizes.sequence_bytes
    prefixes = 0 if config.prefix_cache == "auto" else config.prefix_cache * sizes.state_bytes
    text = tokenizer.held + tokenizer.structures
    fixed = process + text + trunk.nbytes + trunk.embedding_bytes + state + prefixes
    room = budget.nbytes - fixed
    largest = max((layer.slot_bytes for layer in stored.values()), default=0)
    buffers = largest * buffer_count(config.readers, config.cache_bits)
    if checks_stored_bits(config.cache_bits, config.approx_check):
        buffers += shared_bytes({n: layer.slot_bytes for n, layer in stored.items()})
    room -= buffers
    rows = _Rows(sizes, vocab, context)
    chunk = min(config.prefill_chunk or context, context)
    if config.prefill_chunk is None:
        least = _arena_of(_slots(config, layers, 0), layers)
        chunk = _chunk(room + buffers, room - least, rows)
    activations = rows.nbytes(chunk)
    slots = _slots(config, layers, room - activations)
    cached = {n: CachedLayer(slots[n], e.num_experts, e.slot_bytes) for n, e in layers.items()}
    return Plan(
        budget_bytes=budget.nbytes,
        process_bytes=process,
        trunk_bytes=trunk.nbytes,
        head_bytes=trunk.head_bytes,
        embedding_bytes=trunk.embedding_bytes,
        context=context,
        state_bytes=state,
        prefix_bytes=prefixes,
        prefill_chunk=chunk,
        activation_bytes=activations,
        slots=slots,
        slot_bytes={n: layer.slot_bytes for n, layer in layers.items()},
        experts_per_layer={n: layer.num_experts for n, layer in layers.items()},
        experts_per_token=sizes.experts_per_token,
        layer_trunk_bytes=trunk.layers,
        trunk_bits=trunk.bits,
        embed_bits=trunk.embed_bits,
        budget_reason=budget.reason,
        policy=resolve(config.policy, ratio(slots, len(slots) * sizes.experts_per_token)),
        pin_bytes=pin_limits(config.pin, cached, sizes.experts_per_token).nbytes,
        cache_bits=config.cache_bits,
        buffer_bytes=buffers,
        rss_bytes=machine.rss_bytes,
        tokenizer=tokenizer,
        notes=budget.notes + _short_of_a_token(slots, layers, sizes.experts_per_token),
    )


def _context(config: EngineConfig, max_positions: int) -> int:
    if config.context is not None and config.context > max_positions:
        raise ConfigError(
            f"--context {config.context} is more than the model's {max_positions} positions"
        )
    return config.context or min(max_positions, DEFAULT_CONTEXT)


@dataclass(frozen=True)
class _Rows:
    """What a step takes beside weights and states."""

    sizes: Sizes
    vocab: int
    context: int

    def nbytes(self, chunk: int) -> int:
        count = max(chunk, LOGIT_ROWS)  # so many sequences may decode together
        pairs = min(count * self.sizes.pair_bytes, PAIR_BUFFER_BYTES)
        rows = count * self.sizes.activation_bytes + self.sizes.index_bytes(count, self.context)
        return rows + pairs + self.vocab * SAMPLING_BYTES


def _chunk(spare: int, room: int, rows: _Rows) -> int:
    """A twentieth of what is spare: longer chunks read each expert less often. At most what there
    is room for beside the least number of slots: a larger budget never stops a plan from fitting.
    """
    least = min(SMALLEST_CHUNK, rows.context)
    fitting = spare // 20 // rows.sizes.activation_bytes if spare > 0 else 0
    most = max(min(fitting, LARGEST_CHUNK, rows.context), least)
    beyond = bisect_left(range(least, most + 1), True, key=lambda chunk: rows.nbytes(chunk) > room)
    return max(least, least + beyond - 1)


def _slots(config: EngineConfig, layers: Mapping[int, LayerSizes], room: int) -> dict[int, int]:
    """The same number a layer, as many as fit; a layer with fewer experts leaves its room to the
    others."""
    if config.cache_experts is not None:
        return {n: min(config.cache_experts, layer.num_experts) for n, layer in layers.items()}
    low, high = 1, max((layer.num_experts for layer in layers.values()), default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _arena(layers, middle) <= room else (low, middle - 1)
    low = max(1, low * config.cache_share // 100)
    return {n: min(low, layer.num_experts) for n, layer in layers.items()}


def _arena_of(slots: Mapping[int, int], layers: Mapping[int, LayerSizes]) -> int:
    return sum(count * layers[n].slot_bytes for n, count in slots.items())


def _arena(layers: Mapping[int, LayerSizes], count: int) -> int:
    return sum(min(count, layer.num_experts) * layer.slot_bytes for layer in layers.values())


def _short_of_a_token(
    slots: Mapping[int, int], layers: Mapping[int, LayerSizes], needed: int
) -> tuple[str, ...]:
    """That not even the experts of one token fit, and what is missing."""
    missing = _arena(layers, needed) - _arena_of(slots, layers)
    if all(slots[n] >= min(needed, layer.num_experts) for n, layer in layers.items()):
        return ()
    few = min(slots.values())
    return (
        f"{few} of the {needed} experts that one token takes of a layer fit at a time, so nothing "
        f"is kept for the next: {math.ceil(missing / MB):,} MB more would hold one token's",
    )


def refusal(plan: Plan, shrinkable: bool) -> str:
    """`shrinkable`: the trunk may be loaded at fewer bits."""
    lower = ["--context"] + ["--prefix-cache"] * (plan.prefix_bytes > 0)
    if shrinkable and plan.trunk_bits != 4:
        lower.append("--trunk-bits")
    if plan.prefill_chunk > 1:
        lower.append("--prefill-chunk")
    if max(plan.slots.values(), default=1) > 1:
        lower.append("--cache-experts")
    return (
        f"a memory budget of {plan.budget_bytes / MB:,.0f} MB does not suffice: "
        f"the least that works is {math.ceil(plan.peak_bytes / MB):,} MB\n  "
        + "\n  ".join(plan.lines())
        + f"\nRaise --ram, or lower {' or '.join(lower)}."
    )
