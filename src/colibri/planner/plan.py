"""From wishes to numbers: what the memory budget holds, item by item, decided before anything is
loaded."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from colibri.config import EngineConfig, parse_bytes
from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container
from colibri.container.trunk import matrix_bytes
from colibri.errors import CapacityError, ConfigError
from colibri.experts.pins import CachedLayer, pin_limits
from colibri.models.family import Sizes

TrunkBits = Literal["source", 8, 4]
EmbedBits = Literal[8, 4, 32]

MB = 1_000_000
TRUNK_8BIT_LIMIT = 12_000 * MB  # above it the default goes to 4 bits
DEFAULT_CONTEXT = 8192
SMALLEST_CHUNK, LARGEST_CHUNK = 32, 2048
PAIR_BUFFER_BYTES = 64 * MB
WORKING_BYTES = 16 * MB  # Python's own growth, thread stacks, load buffers
LOGIT_ROWS = 16  # of a step whose logits exist at a time
SAMPLING_BYTES = 28 + 4 * LOGIT_ROWS  # a vocabulary entry: probabilities, their order, logits
AVAILABLE_SHARE = 0.9  # of what is free now, for `--ram auto`


@dataclass(frozen=True)
class Machine:
    """Memory facts at the moment of planning."""

    total_bytes: int
    available_bytes: int  # what this process may still take
    rss_bytes: int  # what it has taken


@dataclass(frozen=True)
class Plan:
    """Resolved numbers, all in bytes unless named otherwise."""

    budget_bytes: int
    process_bytes: int
    trunk_bytes: int
    embedding_bytes: int
    context: int  # tokens
    state_bytes: int  # keys and values of the whole context
    prefill_chunk: int  # tokens
    activation_bytes: int
    slots: Mapping[int, int]  # expert slots by layer
    slot_bytes: Mapping[int, int]  # by layer
    experts_per_layer: Mapping[int, int]
    trunk_bits: TrunkBits
    embed_bits: EmbedBits
    pin_bytes: int = 0  # of the slots, at most: for the experts used most

    @property
    def arena_bytes(self) -> int:
        return sum(n * self.slot_bytes[layer] for layer, n in self.slots.items())

    @property
    def peak_bytes(self) -> int:
        fixed = self.process_bytes + self.trunk_bytes + self.embedding_bytes
        return fixed + self.state_bytes + self.activation_bytes + self.arena_bytes

    def lines(self) -> list[str]:
        few, many = min(self.slots.values(), default=0), max(self.slots.values(), default=0)
        held = f"{few}" if few == many else f"{few} to {many}"
        of = max(self.experts_per_layer.values(), default=0)
        rows = (
            ("process", self.process_bytes, "Python, libraries and working buffers"),
            ("trunk", self.trunk_bytes, f"at {bits_text(self.trunk_bits)}"),
            ("embedding", self.embedding_bytes, f"at {bits_text(self.embed_bits)}"),
            (
                "state",
                self.state_bytes,
                f"keys and values of {self.context} tokens, touched as used",
            ),
            (
                "activations",
                self.activation_bytes,
                f"prefill in chunks of {self.prefill_chunk} tokens",
            ),
            ("experts", self.arena_bytes, f"{held} of {of} a layer, {len(self.slots)} layers"),
            *self._pins(),
            ("peak", self.peak_bytes, f"of a budget of {self.budget_bytes / MB:,.0f} MB"),
        )
        return [f"{name:<12}{size / MB:>10,.1f} MB  {why}".rstrip() for name, size, why in rows]

    def _pins(self) -> list[tuple[str, int, str]]:
        if not self.pin_bytes:
            return []
        return [("of these", self.pin_bytes, "at most pinned: kept for the experts used most")]


def bits_text(bits: TrunkBits | EmbedBits) -> str:
    return "the source's precision" if bits in ("source", 32) else f"{bits} bits"


def make_plan(
    config: EngineConfig,
    container: Container,
    sizes: Sizes,
    max_positions: int,
    vocab: int,
    machine: Machine,
) -> Plan:
    """Raises CapacityError with the least that works where the budget does not suffice."""
    layers = {n: layer for n, layer in container.expert_layers().items() if not layer.draft}
    embed_bits = _embed_bits(config, container)
    trunk_bits = _trunk_bits(config, container, embed_bits)
    trunk, embedding = _trunk_bytes(container, trunk_bits, embed_bits)
    context = _context(config, max_positions)
    budget = _budget(config, machine)
    fixed = machine.rss_bytes + WORKING_BYTES + trunk + embedding + context * sizes.state_bytes
    chunk = min(config.prefill_chunk or context, context)
    if config.prefill_chunk is None:
        chunk = _chunk(budget - fixed, context, sizes)
    rows = max(chunk, LOGIT_ROWS)  # so many sequences may decode together
    pairs = min(rows * sizes.pair_bytes, PAIR_BUFFER_BYTES)
    activations = rows * sizes.activation_bytes + pairs + vocab * SAMPLING_BYTES
    slots = _slots(config, layers, budget - fixed - activations)
    cached = {n: CachedLayer(slots[n], e.num_experts, e.slot_bytes) for n, e in layers.items()}
    plan = Plan(
        budget_bytes=budget,
        process_bytes=machine.rss_bytes + WORKING_BYTES,
        trunk_bytes=trunk,
        embedding_bytes=embedding,
        context=context,
        state_bytes=context * sizes.state_bytes,
        prefill_chunk=chunk,
        activation_bytes=activations,
        slots=slots,
        slot_bytes={n: layer.slot_bytes for n, layer in layers.items()},
        experts_per_layer={n: layer.num_experts for n, layer in layers.items()},
        trunk_bits=trunk_bits,
        embed_bits=embed_bits,
        pin_bytes=pin_limits(config.pin, cached, sizes.experts_per_token).nbytes,
    )
    if plan.peak_bytes > budget:
        raise CapacityError(_refusal(plan, shrinkable=container.stored_bits is None))
    return plan


def _trunk_bits(config: EngineConfig, container: Container, embed_bits: EmbedBits) -> TrunkBits:
    stored = container.stored_bits
    if stored is not None:
        return stored if config.trunk_bits == "auto" else _kept("trunk", config.trunk_bits, stored)
    if config.trunk_bits != "auto":
        return config.trunk_bits
    at_8, _ = _trunk_bytes(container, 8, embed_bits)
    return 8 if at_8 <= TRUNK_8BIT_LIMIT else 4


def _embed_bits(config: EngineConfig, container: Container) -> EmbedBits:
    stored = container.stored_embed_bits
    return config.embed_bits if stored is None else _kept("embed", config.embed_bits, stored)


def _kept(part: str, asked: TrunkBits | EmbedBits, stored: Literal[8, 4]) -> Literal[8, 4]:
    """What is stored packed stays as it is: fewer bits are not made of it, more cannot be."""
    if asked in ("source", 32) or int(asked) > stored:
        raise ConfigError(
            f"--{part}-bits {asked}: this model's {'embedding' if part == 'embed' else part} is "
            f"stored at {stored} bits; use {stored}, or convert again with --store-trunk source"
        )
    return stored


def _trunk_bytes(container: Container, bits: TrunkBits, embed_bits: EmbedBits) -> tuple[int, int]:
    trunk = embedding = 0
    for name in container.weights.required:
        match = container.weights.classify(name)
        kind = match.rule.kind if match else "exact"
        info = container.info(name)
        if kind == "embedding":
            embedding += matrix_bytes(info, "source" if embed_bits == 32 else embed_bits)
        elif kind == "exact":
            trunk += matrix_bytes(info, "source")
        else:
            trunk += matrix_bytes(info, bits)
    return trunk, embedding


def _context(config: EngineConfig, max_positions: int) -> int:
    if config.context is not None and config.context > max_positions:
        raise ConfigError(
            f"--context {config.context} is more than the model's {max_positions} positions"
        )
    return config.context or min(max_positions, DEFAULT_CONTEXT)


def _budget(config: EngineConfig, machine: Machine) -> int:
    if config.ram == "auto":
        return machine.rss_bytes + int(machine.available_bytes * AVAILABLE_SHARE)
    budget = parse_bytes(config.ram, total=machine.total_bytes)
    if budget > machine.total_bytes:
        raise CapacityError(
            f"--ram {config.ram} is {budget / MB:,.0f} MB, more than the "
            f"{machine.total_bytes / MB:,.0f} MB there are"
        )
    return budget


def _chunk(spare: int, context: int, sizes: Sizes) -> int:
    """A twentieth of what is left for activations: longer chunks read each expert less often."""
    fitting = spare // 20 // sizes.activation_bytes if spare > 0 else 0
    return max(min(fitting, LARGEST_CHUNK, context), min(SMALLEST_CHUNK, context))


def _slots(config: EngineConfig, layers: Mapping[int, LayerExperts], room: int) -> dict[int, int]:
    """The same number a layer, as many as fit; a layer with fewer experts leaves its room to the
    others."""
    if config.cache_experts is not None:
        return {n: min(config.cache_experts, layer.num_experts) for n, layer in layers.items()}

    def bytes_for(count: int) -> int:
        return sum(min(count, layer.num_experts) * layer.slot_bytes for layer in layers.values())

    low, high = 1, max((layer.num_experts for layer in layers.values()), default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if bytes_for(middle) <= room else (low, middle - 1)
    return {n: min(low, layer.num_experts) for n, layer in layers.items()}


def _refusal(plan: Plan, shrinkable: bool) -> str:
    """`shrinkable`: the trunk may be loaded at fewer bits."""
    lower = ["--context"]
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
