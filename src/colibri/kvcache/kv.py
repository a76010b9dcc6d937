"""Keys and values of grouped-query attention, fp32, after norm and rope."""

from colibri.kvcache.base import F32, RowCache


class KVCache(RowCache):
    def __init__(
        self, capacity: int, heads: int, head_dim: int, value_dim: int | None = None
    ) -> None:
        super().__init__(capacity, (heads, head_dim), (heads, value_dim or head_dim))

    @property
    def keys(self) -> F32:  # [length, heads, head_dim]
        return self._buffers[0][: self.length]

    @property
    def values(self) -> F32:  # [length, heads, value_dim]
        return self._buffers[1][: self.length]
