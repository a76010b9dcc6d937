"""How often each expert is chosen, as far as it was counted: what a forecast of hits may start
from."""

import os

from colibri.config import EngineConfig
from colibri.container.reader import Container
from colibri.errors import ColibriError
from colibri.experts.usage.counts import Counts
from colibri.experts.usage.log import usage_file
from colibri.experts.usage.pins import enough
from colibri.planner.forecast import Popularity

_UNSEEN = 1.0  # selections that every expert is given, so that none seems impossible


def popularity(counts: Counts) -> Popularity | None:
    """None: too little was counted to say anything of what is to come."""
    if not enough(counts):
        return None
    return {layer: (heat + _UNSEEN).tolist() for layer, heat in counts.heat.items()}


def recorded_popularity(config: EngineConfig, container: Container) -> Popularity | None:
    """Of the usage file that a run would use. One that is missing, damaged or of another model says
    nothing here; `coli usage` and a run tell of it."""
    file = usage_file(config, container, os.environ)
    try:
        return None if file is None else popularity(file.read().counts)
    except ColibriError:
        return None
