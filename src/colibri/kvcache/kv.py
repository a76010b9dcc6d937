"""Keys and values of grouped-query attention, fp32, after norm and rope."""

from functools import cached_property

from colibri.kernels.layer import KeyValues, key_values
from colibri.kvcache.base import F32, RowCache


class KVCache(RowCache):
    def __init__(
        self, capacity: int, heads: int, head_dim: int, value_dim: int | None = None
    ) -> None:
        super().__init__(capacity, (heads, head_dim), (heads, value_dim or head_dim))

    @cached_property
    def kernel(self) -> KeyValues:
        """The buffers, as the kernel that appends to them takes them."""
        return key_values(*self._buffers)

    @property
    def keys(self) -> F32:  # [length, heads, head_dim]
        return self._buffers[0][: self.length]

    @property
    def values(self) -> F32:  # [length, heads, value_dim]
        return self._buffers[1][: self.length]
