"""Rotary position embedding: the frequencies of a config, and the tables of a step.

Source: the `rope_type`s of transformers (default, linear, yarn). Frequencies are rounded to fp32
as there; the power is taken in decimal arithmetic, so no machine's libm decides a bit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ConfigError, UnsupportedModelError
from colibri.kernels import ops

F32 = NDArray[np.float32]
_EXACT = Context(prec=40)


@dataclass(frozen=True)
class Rope:
    inv_freq: F32  # [rotated dims / 2]
    scale: float = 1.0  # yarn's attention factor, on cos and sin
    interleaved: bool = False

    def tables(self, positions: NDArray[np.int64]) -> tuple[F32, F32]:
        """cos, sin [tokens, rotated dims / 2]."""
        return ops.rope_table(positions, self.inv_freq, self.scale)

    def rotate(self, x: F32, tables: tuple[F32, F32], offset: int = 0) -> None:
        """In place, dims offset..offset + 2 * len(inv_freq) of every head of x [tokens, heads,
        dim]."""
        ops.apply_rope(x, *tables, offset, self.interleaved)


NO_ROPE = Rope(np.empty(0, np.float32))  # of a model whose positions are not embedded


def rope_from_config(
    dims: int,
    max_positions: int,
    *,
    theta: float | None,
    scaling: Mapping[str, Any] | None,
    parameters: Mapping[str, Any] | None,
    interleaved: bool = False,
) -> Rope:
    """`rope_parameters` (new) or `rope_theta` + `rope_scaling` (old) of a config."""
    given = {k: v for k, v in dict(parameters or scaling or {}).items() if v is not None}
    base = _number(given, "rope_theta", 10000.0 if theta is None else theta, 1.01, 1e12)
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return Rope(_default(base, dims), 1.0, interleaved)
    factor = _number(given, "factor", None, 1.0, 1e6)
    if kind == "linear":
        return Rope(
            (_default(base, dims) / np.float32(factor)).astype(np.float32), 1.0, interleaved
        )
    if kind == "yarn":
        return _yarn(base, dims, max_positions, factor, given, interleaved)
    raise UnsupportedModelError(
        f"config.json: rope_type = {kind!r} is not supported: "
        "it must be one of default, linear, yarn"
    )


def _number(
    given: Mapping[str, Any], field: str, default: float | None, low: float, high: float
) -> float:
    value = given.get(field, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(
            f"config.json: rope field {field} = {value!r} is not a number from {low:g} to {high:g}"
        )
    return float(value)


def _default(base: float, dims: int) -> F32:
    log_base = _EXACT.ln(Decimal(base))
    powers = [
        _EXACT.exp(_EXACT.multiply(log_base, Decimal(2 * i) / Decimal(dims)))
        for i in range(dims // 2)
    ]
    return np.float32(1.0) / np.array([float(p) for p in powers], np.float32)


def _yarn(
    base: float,
    dims: int,
    max_positions: int,
    factor: float,
    given: Mapping[str, Any],
    interleaved: bool,
) -> Rope:
    original = _number(given, "original_max_position_embeddings", max_positions, 1, 1 << 24)
    fast, slow = (
        _number(given, "beta_fast", 32, 1e-3, 1e6),
        _number(given, "beta_slow", 1, 1e-3, 1e6),
    )

    def dim_of(rotations: float) -> float:
        return dims * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = dim_of(fast), dim_of(slow)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    span = high - low if high != low else 0.001
    ramp = np.clip(
        (np.arange(dims // 2, dtype=np.float32) - np.float32(low)) / np.float32(span), 0, 1
    )
    plain = _default(base, dims)
    keep = np.float32(1.0) - ramp
    inv_freq = plain / np.float32(factor) * (np.float32(1.0) - keep) + plain * keep
    return Rope(inv_freq.astype(np.float32), _yarn_scale(factor, given), interleaved)


def _yarn_scale(factor: float, given: Mapping[str, Any]) -> float:
    if "attention_factor" in given:
        return _number(given, "attention_factor", None, 1e-3, 1e3)

    def mscale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    if given.get("mscale") and given.get("mscale_all_dim"):
        return mscale(_number(given, "mscale", None, 0, 1e3)) / mscale(
            _number(given, "mscale_all_dim", None, 0, 1e3)
        )
    return mscale(1.0)
