"""How often each expert is chosen, as far as it was counted: what a forecast of hits may start
from."""

import os

from colibri.config import EngineConfig
from colibri.container.mirror import main_layers
from colibri.container.reader import Container
from colibri.errors import ColibriError
from colibri.experts.usage.counts import Counts
from colibri.experts.usage.file import Subject, UsageFile
from colibri.experts.usage.log import usage_path
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
    layers = main_layers(container.expert_layers())
    subject = Subject.of(container.path.absolute().name, container.config, layers)
    embedded = config.model is None
    path = usage_path(config.usage, container.path, subject, os.environ, embedded=embedded)
    if path is None:
        return None
    try:
        return popularity(UsageFile(path, subject, config.usage_half_life).read().counts)
    except ColibriError:
        return None
