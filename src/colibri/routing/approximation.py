"""What --router, --experts-per-token and --expert-top-p make of a family's routers."""

from dataclasses import dataclass, field

from colibri.config.routers import RouterWish
from colibri.errors import ConfigError
from colibri.routing.base import FamilyRouter, Router, RouterFactory
from colibri.routing.cacheaware import CacheAwareRouter, Residency, Swaps
from colibri.routing.drawn import GumbelRouter, SoftRouter
from colibri.routing.noise import Noise
from colibri.routing.topp import TopPRouter
from colibri.words import count


@dataclass
class Approximation:
    """Of one model. `make` is a RouterFactory; it may be called by several threads.

    noise: to be told the positions of every step, where there is any. `int8_gates`: whether router
    logits come from weights at 8 bits.
    """

    wish: RouterWish
    experts_per_token: int | None
    top_p: float | None
    resident: Residency
    swaps: Swaps = field(default_factory=Swaps)
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if self.wish.name in ("gumbel", "soft"):
            self.noise = Noise(self.wish.whole("seed"))

    @property
    def int8_gates(self) -> bool:
        return self.wish.name == "int8-table"

    @property
    def changes_anything(self) -> bool:
        return (self.wish.name, self.experts_per_token, self.top_p) != ("own", None, None)

    def text(self) -> str:
        """The settings, as a line of facts says them."""
        parts = [] if self.wish.name == "own" else [f"router {self._name()}"]
        if self.experts_per_token is not None:
            parts.append(f"{count(self.experts_per_token, 'expert')} a token")
        if self.top_p is not None:
            parts.append(f"expert top-p {self.top_p:g}")
        return ", ".join(parts)

    def over(self, make_router: RouterFactory) -> RouterFactory:
        """The same routers, made from approximate ones."""
        if not self.changes_anything:
            return make_router
        return lambda n, own, experts: make_router(n, self.make(n, own, experts), experts)

    def make(self, layer: int, own: Router, experts: int) -> Router:
        """Raises ConfigError where the family's rule is none to build on."""
        if not isinstance(own, FamilyRouter):
            raise ConfigError(f"{self.text()}: not for the router of this model (layer {layer})")
        if self.experts_per_token is not None:
            self._check_k(layer, own.reach(experts), experts)
            own = own.with_k(self.experts_per_token)
        router = self._strategy(layer, own, experts)
        return router if self.top_p is None else TopPRouter(router, self.top_p, own.total)

    def _strategy(self, layer: int, own: FamilyRouter, experts: int) -> Router:
        wish = self.wish
        if wish.name == "cache-aware":
            ranked = own.with_k(min(max(wish.whole("M"), own.k), own.reach(experts)))
            keep = wish.whole("J")
            return CacheAwareRouter(own, ranked, keep, layer, self.resident, self.swaps)
        if self.noise is not None:
            kind = GumbelRouter if wish.name == "gumbel" else SoftRouter
            return kind(own, layer, self.noise, wish["temperature"])
        return own

    def _check_k(self, layer: int, reach: int, experts: int) -> None:
        if self.experts_per_token is not None and self.experts_per_token > reach:
            limit = count(experts, "expert")
            if reach < experts:
                limit += f", of which a token can go to {reach}"
            raise ConfigError(
                f"--experts-per-token {self.experts_per_token}: layer {layer} has {limit}"
            )

    def _name(self) -> str:
        values = ",".join(f"{name}={value:g}" for name, value in self.wish.values.items())
        return self.wish.name + (f":{values}" if values else "")
