"""What a runtime says once its model is loaded: the load line, and warnings."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from colibri.config import EngineConfig
from colibri.container.hubcache import model_name
from colibri.container.layerexperts import LayerExperts, main_layers
from colibri.container.reader import Container
from colibri.experts.reads.sources import Drive
from colibri.experts.usage.pins import PinLimits
from colibri.kernels import cpu
from colibri.planner.plan import Plan
from colibri.planner.trunk import bits_text
from colibri.words import count

logger = logging.getLogger("colibri")


def load_line(
    config: EngineConfig,
    container: Container,
    family: str,
    plan: Plan,
    drives: Sequence[Drive],
    approximate: str,
) -> str:
    """The model, the precision it runs at, and by what, in one line."""
    name = model_name(config.model, container.path)
    line = (
        f"{name} ({family}): {precision(config, container, plan)}, "
        f"{cpu.active_path()} on {count(cpu.num_threads(), 'thread')}"
        f"{_drives_text(drives)}{_profile_text(config)}"
    )
    return f"{line}, approximate: {approximate}" if approximate else line


def precision(config: EngineConfig, container: Container, plan: Plan) -> str:
    """What decides a model's logits beside its weights."""
    layers = main_layers(container.expert_layers())
    scheme = next((layer.layout.format.name for layer in layers.values()), "none")
    return (
        f"experts {scheme}{_cache_text(config)}, trunk at {bits_text(plan.trunk_bits)}, "
        f"embedding at {bits_text(plan.embed_bits)}, activations {config.activations}"
    )


def warn(config: EngineConfig, plan: Plan, approximate: str) -> None:
    """Of a precision that is not what one may think, and of what is approximate."""
    measured = "what that costs is measured"
    if config.approx_check == "off":
        measured += " unless --approx-check is off, as here"
    if approximate:
        logger.warning("%s: the text is not the model's own; %s", approximate, measured)
    for part in ("trunk", "embed"):
        asked, got = getattr(config, f"{part}_bits"), getattr(plan, f"{part}_bits")
        # 8 is the embedding's default: a model stored at 4 is no surprise to who did not ask.
        if asked not in ("auto", got) and (part, asked) != ("embed", 8):
            logger.warning("--%s-bits %s: it is stored at %s bits, and stays so", part, asked, got)
    if config.activations == "int8":
        logger.warning("activations int8: one plane instead of two, so logits are less exact")
    if config.cache_bits == 3:
        logger.warning(
            "cache-bits 3: experts lose their lowest bits once read, so logits are less exact; %s",
            measured,
        )


def warn_of_threads(notes: Sequence[str]) -> None:
    for note in notes:
        logger.warning("%s", note)


def warn_of_reads(config: EngineConfig, layers: Iterable[LayerExperts]) -> None:
    if config.verify_reads == "on" and not all(layer.record for layer in layers):
        logger.warning(
            "--verify-reads: a model as downloaded has no checksums of its experts, so none is "
            "checked; convert it: coli convert"
        )


def warn_of_pins(config: EngineConfig, limits: PinLimits) -> None:
    if limits.asked_bytes > limits.nbytes:
        logger.warning(
            "--pin %s: that is %s MB of experts, and %s MB are pinned at most: every layer "
            "keeps slots for the others",
            config.pin,
            *(f"{nbytes / 1e6:,.1f}" for nbytes in (limits.asked_bytes, limits.nbytes)),
        )


def _cache_text(config: EngineConfig) -> str:
    return "" if config.cache_bits == "stored" else f" cached at {config.cache_bits} bits"


def _drives_text(drives: Sequence[Drive]) -> str:
    total = sum(drive.weight for drive in drives)
    shares = (f"{100 * drive.weight / total:.0f} % {drive.directory}" for drive in drives)
    return f", reading {', '.join(shares)}" if total else ""


def _profile_text(config: EngineConfig) -> str:
    taken = config.profile not in ("auto", "off")
    return f", profile {Path(config.profile).name}" if taken else ""
