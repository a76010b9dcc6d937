"""What is done to which tensor, and what a resumed conversion must match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from colibri.container.header import TensorInfo
from colibri.container.weights import ExpertShape, Kind
from colibri.errors import ConfigError
from colibri.formats.names import Scheme
from colibri.formats.packed import GROUP, SCHEMES

StoreTrunk = Literal["source", 8, 4]

_TRUNK_SCHEMES: dict[StoreTrunk, Scheme] = {8: "int8-gs64", 4: "int4-gs64"}


@dataclass(frozen=True)
class Policy:
    """Schemes of routed experts, of draft layers' experts, and of the stored trunk."""

    scheme: Scheme
    draft_scheme: Scheme
    store_trunk: StoreTrunk

    def __post_init__(self) -> None:
        for flag, value in (("scheme", self.scheme), ("draft_scheme", self.draft_scheme)):
            if value not in SCHEMES:
                raise ConfigError(f"{flag}: {value!r} is unknown; choose from {', '.join(SCHEMES)}")
        known = isinstance(self.store_trunk, str | int) and not isinstance(self.store_trunk, bool)
        if not known or self.store_trunk not in ("source", 8, 4):
            raise ConfigError(f"store_trunk: {self.store_trunk!r}; choose from source, 8, 4")

    def expert_scheme(self, shape: ExpertShape) -> Scheme:
        return self.draft_scheme if shape.draft else self.scheme

    def trunk_scheme(self, info: TensorInfo, kind: Kind) -> Scheme | None:
        """None: stored as in the source. Embedding rows are never stored below 8 bits."""
        if len(info.shape) != 2 or not info.nbytes:
            return None
        return self.scheme_of_kind(kind)

    def scheme_of_kind(self, kind: Kind) -> Scheme | None:
        """Of a matrix that is not empty."""
        if self.store_trunk == "source":
            return None
        if kind == "linear":
            return _TRUNK_SCHEMES[self.store_trunk]
        return "int8-gs64" if kind == "embedding" else None

    def params(self, family: str, source_digest: str) -> dict[str, str]:
        """Everything that decides the bytes of the outputs."""
        return {
            "family": family,
            "scheme": self.scheme,
            "draft_scheme": self.draft_scheme,
            "store_trunk": str(self.store_trunk),
            "source": source_digest,
        }

    def quantization(self) -> dict[str, Any]:
        """The manifest's account of what was done to each kind of tensor."""
        packed = self.store_trunk != "source"
        return {
            "group_size": GROUP,
            "scale_dtype": "f16",
            "experts": self.scheme,
            "draft_experts": self.draft_scheme,
            "linear": _TRUNK_SCHEMES[self.store_trunk] if packed else "source",
            "embedding": "int8-gs64" if packed else "source",
            "absorbed": "source",
            "exact": "source",
        }
