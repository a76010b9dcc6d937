"""What a model family says of its checkpoint: which tensor is what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Role = Literal["trunk", "expert", "drop"]
# linear: a matrix that may be quantised. embedding: vocabulary rows. exact: never quantised (norms,
# biases, routers, convolutions). absorbed: quantised at load in another arrangement (MLA kv_b), so
# always stored in its source dtype.
Kind = Literal["linear", "embedding", "exact", "absorbed"]
Part = Literal["gate", "up", "down", "gate_up"]


@dataclass(frozen=True)
class Rule:
    """Tensor names that fully match `pattern`; its named groups `layer` and `expert` are numbers.

    An expert rule without the group `expert` names a fused tensor [experts, rows, columns].
    `layer`: of names that do not say it (a draft layer beside the numbered ones).
    """

    pattern: str
    role: Role
    kind: Kind = "exact"
    part: Part | None = None
    layer: int | None = None

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


@dataclass(frozen=True)
class Match:
    rule: Rule
    layer: int | None
    expert: int | None


@dataclass(frozen=True)
class ExpertShape:
    """Routed experts of one layer; a `draft` layer (MTP) may be absent from the checkpoint."""

    num_experts: int
    hidden: int
    inner: int
    draft: bool = False


@dataclass(frozen=True)
class WeightMap:
    """First rule that matches wins; `required` are trunk tensors and their shapes."""

    rules: tuple[Rule, ...]
    experts: Mapping[int, ExpertShape]
    required: Mapping[str, tuple[int, ...]]

    def classify(self, name: str) -> Match | None:
        """The rule for a tensor name with its layer and expert; None if no rule knows it."""
        for rule in self.rules:
            found = rule.regex.fullmatch(name)
            if found:
                return _match(rule, found.groupdict())
        return None


def _match(rule: Rule, groups: Mapping[str, str | None]) -> Match | None:
    layer, expert = groups.get("layer"), groups.get("expert")
    if not (_is_plain(layer) and _is_plain(expert)):
        return None
    return Match(
        rule, rule.layer if layer is None else int(layer), None if expert is None else int(expert)
    )


def _is_plain(digits: str | None) -> bool:
    """007, 12345678901 or a digit of another script would be a second name for the same tensor."""
    return digits is None or (len(digits) < 10 and str(int(digits)) == digits)
