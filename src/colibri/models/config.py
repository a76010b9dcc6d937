"""Reading a Hugging Face config.json into typed fields: null means absent, anything else wrong is
named."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from colibri.errors import ConfigError, UnsupportedModelError
from colibri.words import count

T = TypeVar("T", bound="DecoderConfig")

MAX_LAYERS = 4096
MAX_WIDTH = 1 << 24


class DecoderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that every decoder here has, under their HF names."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    rms_norm_eps: float
    max_position_embeddings: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    rope_theta: float | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    layer_types: list[str] | None = None  # said by other fields too; checked, not used

    @property
    def kv_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    def check(self) -> None:
        """Refuse what cannot be built; families extend it."""
        refuse_unless(self.hidden_act == "silu", "hidden_act", self.hidden_act, "'silu'")
        for name in ("vocab_size", "hidden_size", "num_attention_heads", "max_position_embeddings"):
            in_range(name, getattr(self, name), 1, MAX_WIDTH)
        in_range("num_hidden_layers", self.num_hidden_layers, 1, MAX_LAYERS)
        in_range("num_key_value_heads", self.kv_heads, 1, self.num_attention_heads)
        refuse_unless(
            self.num_attention_heads % self.kv_heads == 0,
            "num_key_value_heads",
            self.kv_heads,
            f"a divisor of num_attention_heads ({self.num_attention_heads})",
        )
        if self.layer_types is not None:
            of_length("layer_types", self.layer_types, self.num_hidden_layers)
        refuse_unless(0 < self.rms_norm_eps < 1, "rms_norm_eps", self.rms_norm_eps, "in (0, 1)")


def parse_config(
    config: Mapping[str, Any], kind: type[T], aliases: Mapping[str, str] | None = None
) -> T:
    """`config` as `kind`; `aliases` are other names of fields. Raises ConfigError naming the
    field."""
    present = {key: value for key, value in config.items() if value is not None}
    for other, field in (aliases or {}).items():
        if other in present and present.setdefault(field, present[other]) != present[other]:
            raise ConfigError(
                f"config.json: {field} = {present[field]!r}, but {other} = {present[other]!r}"
            )
    try:
        parsed = msgspec.convert(present, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"config.json: {error}") from None
    for field in kind.__struct_fields__:
        value = getattr(parsed, field)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"config.json: {field} = {value} is not a finite number")
    parsed.check()
    return parsed


def refuse_unless(condition: bool, field: str, value: object, wanted: str) -> None:
    if not condition:
        raise UnsupportedModelError(
            f"config.json: {field} = {value!r} is not supported: it must be {wanted}"
        )


def in_range(field: str, value: int | float, low: int | float, high: int | float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"config.json: {field} = {value} is out of range {low}..{high}")


def of_length(field: str, values: Sequence[object], layers: int) -> None:
    if len(values) != layers:
        raise ConfigError(
            f"config.json: {field} has {count(len(values), 'entry', 'entries')}, but "
            f"num_hidden_layers is {layers}"
        )


def one_of(field: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    for value in values:
        refuse_unless(value in allowed, field, value, "one of " + ", ".join(allowed))
