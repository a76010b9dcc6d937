"""The dense part: at which precision, and how many bytes where."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from colibri.config import EngineConfig
from colibri.config.choices import EmbedBits, StoredBits
from colibri.config.routers import parse_router
from colibri.container.trunk import matrix_bytes
from colibri.errors import ConfigError
from colibri.formats.packed import INT8
from colibri.planner.model import Model, streamed_layers

TRUNK_8BIT_LIMIT = 12_000_000_000  # above it the default goes to 4 bits


@dataclass(frozen=True)
class Trunk:
    """Bytes in memory."""

    bits: StoredBits
    embed_bits: EmbedBits
    layers: Mapping[int, int]
    outer_bytes: int  # last norm and its like
    head_bytes: int  # 0: tied to the embedding
    embedding_bytes: int

    @property
    def nbytes(self) -> int:
        """All but the embedding."""
        return sum(self.layers.values()) + self.outer_bytes + self.head_bytes


def trunk_of(config: EngineConfig, model: Model) -> Trunk:
    """Raises ConfigError for a precision that the stored weights do not have."""
    trunk = _at_bits(config, model)
    tables = parse_router(config.router).name == "int8-table"
    return _with_router_tables(trunk, model) if tables else trunk


def _with_router_tables(trunk: Trunk, model: Model) -> Trunk:
    """The exact router weights stay, to measure against."""
    layers = dict(trunk.layers)
    for n, layer in streamed_layers(model).items():
        table = INT8.nbytes(layer.num_experts, layer.layout.hidden)
        layers[n] = layers.get(n, 0) + table
    return replace(trunk, layers=layers)


def _at_bits(config: EngineConfig, model: Model) -> Trunk:
    stored, embed = model.stored_bits, model.stored_embed_bits
    embed_bits = config.embed_bits if embed is None else _kept("embed", config.embed_bits, embed)
    if stored is not None:
        asked = config.trunk_bits
        return _sized(
            model, stored if asked == "auto" else _kept("trunk", asked, stored), embed_bits
        )
    if config.trunk_bits != "auto":
        return _sized(model, config.trunk_bits, embed_bits)
    at_8 = _sized(model, 8, embed_bits)
    return at_8 if at_8.nbytes <= TRUNK_8BIT_LIMIT else _sized(model, 4, embed_bits)


def bits_text(bits: StoredBits | EmbedBits) -> str:
    return "the source's precision" if bits in ("source", 32) else f"{bits} bits"


def _kept(part: str, asked: StoredBits | EmbedBits, stored: Literal[8, 4]) -> Literal[8, 4]:
    """What is stored packed stays as it is: fewer bits are not made of it, more cannot be."""
    if asked in ("source", 32) or int(asked) > stored:
        raise ConfigError(
            f"--{part}-bits {asked}: this model's {'embedding' if part == 'embed' else part} is "
            f"stored at {stored} bits; use {stored}, or convert again with --store-trunk source"
        )
    return stored


def _sized(model: Model, bits: StoredBits, embed_bits: EmbedBits) -> Trunk:
    layers: dict[int, int] = {}
    outer = head = embedding = 0
    for name in model.weights.required:
        match, info = model.weights.classify(name), model.info(name)
        kind = match.rule.kind if match else "exact"
        if kind == "embedding":
            embedding += matrix_bytes(info, "source" if embed_bits == 32 else embed_bits)
            continue
        if kind == "absorbed" and bits == "source":  # rearranged, so no fp8 any more
            nbytes = info.decoded_bytes
        else:
            nbytes = matrix_bytes(info, "source" if kind == "exact" else bits)
        if match is not None and match.layer is not None:
            layers[match.layer] = layers.get(match.layer, 0) + nbytes
        elif kind == "linear":
            head += nbytes
        else:
            outer += nbytes
    return Trunk(bits, embed_bits, dict(sorted(layers.items())), outer, head, embedding)
