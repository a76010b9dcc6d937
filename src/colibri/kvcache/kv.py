"""Keys and values of grouped-query attention, fp32, after norm and rope.

The kernel that appends them keeps count.
"""

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
        return key_values(*self._buffers)

    @property
    def length(self) -> int:
        return self.kernel.length

    @length.setter
    def length(self, length: int) -> None:
        self.kernel.length = length

    @property
    def touched(self) -> int:
        return self.kernel.touched

    @touched.setter
    def touched(self, touched: int) -> None:
        self.kernel.touched = touched

    @property
    def keys(self) -> F32:  # [length, heads, head_dim]
        return self._buffers[0][: self.length]

    @property
    def values(self) -> F32:  # [length, heads, value_dim]
        return self._buffers[1][: self.length]
