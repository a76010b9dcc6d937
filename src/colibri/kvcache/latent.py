"""What multi-head latent attention keeps: the normed latent and the rotated shared key, in one row
a position; with an indexer, its key too."""

from colibri.kvcache.base import F32, RowCache


class LatentCache(RowCache):
    def __init__(self, capacity: int, latent: int, rope: int, index_dim: int | None = None) -> None:
        shapes: list[tuple[int, ...]] = [(1, latent + rope)]
        if index_dim is not None:
            shapes.append((index_dim,))
        super().__init__(capacity, *shapes)
        self._latent = latent

    @property
    def keys(self) -> F32:  # [length, 1, latent + rope]
        return self._buffers[0][: self.length]

    @property
    def values(self) -> F32:  # [length, 1, latent], a view of the keys
        return self._buffers[0][: self.length, :, : self._latent]

    @property
    def index_keys(self) -> F32:  # [length, index_dim]
        return self._buffers[1][: self.length]
