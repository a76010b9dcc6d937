"""The plan of a model as it lies there: what every command makes, so that all say the same."""

from colibri.config import EngineConfig
from colibri.container.reader import Container
from colibri.models.registry import family_for
from colibri.planner.budget import Machine
from colibri.planner.plan import Plan, make_plan
from colibri.text.tokenizermemory import TokenizerMemory


def plan_of(
    container: Container, config: EngineConfig, tokenizer: TokenizerMemory, machine: Machine
) -> Plan:
    """Nothing is loaded. Raises CapacityError with the least that works."""
    family = family_for(container.config)
    parsed = family.parse(container.config)
    return make_plan(
        config,
        container,
        family.sizes(parsed),
        parsed.max_position_embeddings,
        parsed.vocab_size,
        machine,
        tokenizer,
    )
