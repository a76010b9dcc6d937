"""`coli info`: what a model is, from its headers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from colibri.cli import figures
from colibri.cli.options import setting_option, take_some
from colibri.cli.types import ModelName

if TYPE_CHECKING:
    from colibri.container.layerexperts import LayerExperts
    from colibri.container.reader import Container
    from colibri.models.config import DecoderConfig
    from colibri.models.family import Family
    from colibri.text.chat import ChatFormat


@click.command("info")
@click.argument("directory", type=ModelName(), required=False)
@setting_option("model")
@setting_option("model_dirs")
def command(directory: str | None, model: str | None, model_dirs: str | None) -> None:
    """Describe the model in DIRECTORY; without one, the one that `coli run` would take.

    Reads configuration and file headers, never a weight.
    """
    from pathlib import Path

    from colibri.cli.paths import model_path, read_config
    from colibri.container.reader import open_container
    from colibri.models.registry import family_for

    config = take_some(model=directory if directory is not None else model, model_dirs=model_dirs)
    path, others = model_path(config.model), [Path(name) for name in config.model_dirs]
    family = family_for(read_config(path))
    container = open_container(path, family.weights_of, others=others)
    for label, text in _facts(container, family, config.model):
        click.echo(f"{label:<11}{text}")


def _facts(container: Container, family: Family, named: str | None) -> Iterator[tuple[str, str]]:
    from colibri.container.layerexperts import main_layers

    config = family.parse(container.config)
    layers = container.expert_layers()
    main = list(main_layers(layers).values())
    trunk_bytes, beside = Counter[str](), 0
    for name in container.names():
        info = container.info(name)
        trunk_bytes[info.format.name] += info.nbytes
        beside += 0 if name in container.weights.required else info.nbytes
    yield "path", str(container.path)
    yield "family", f"{family.name} (runs on {_cpu()})"
    yield "form", _form(container)
    yield "text", _text(container, named)
    yield "layers", _layers(config, len(main), len(layers) - len(main))
    yield "experts", _experts(family.sizes(config).experts_per_token, main)
    yield (
        "on disk",
        f"{figures.size(_expert_bytes(layers))} experts, {_by_dtype(trunk_bytes)} trunk"
        + (f", {figures.size(beside)} of it kept, not run yet" if beside else ""),
    )
    yield "context", figures.count(config.max_position_embeddings, "token")
    yield "vocabulary", figures.count(config.vocab_size, "token")


def _cpu() -> str:
    from colibri.kernels.cpu import cpu_features

    return str(cpu_features()["path"])


def _form(container: Container) -> str:
    if not container.converted:
        return "checkpoint as downloaded"
    from colibri.container.manifest import read_manifest

    manifest = read_manifest(container.path)
    tool = f"{manifest.tool.name} {manifest.tool.version}"
    source = manifest.source.repository
    return f"converted by {tool}" + (f" from {source}" if source else "")


def _layers(config: DecoderConfig, sparse: int, draft: int) -> str:
    text = f"{config.num_hidden_layers}, {sparse} of them with routed experts"
    return text + (f"; {figures.count(draft, 'draft layer')} (kept, not run yet)" if draft else "")


def _experts(chosen: int, layers: list[LayerExperts]) -> str:
    kinds = Counter(
        (layer.num_experts, layer.layout.format.name, layer.slot_bytes) for layer in layers
    )
    return "; ".join(
        f"{experts} a layer, {chosen} chosen a token, {scheme}, {figures.size(slot)} each"
        + (f" ({figures.count(alike, 'layer')})" if len(kinds) > 1 else "")
        for (experts, scheme, slot), alike in kinds.items()
    )


def _expert_bytes(layers: Mapping[int, LayerExperts]) -> int:
    return sum(layer.num_experts * layer.slot_bytes for layer in layers.values())


def _by_dtype(sizes: Counter[str]) -> str:
    return " + ".join(f"{figures.size(nbytes)} {dtype}" for dtype, nbytes in sizes.most_common())


def _text(container: Container, named: str | None) -> str:
    from colibri.container.files import dangling, list_names
    from colibri.text.chat import ChatFormat
    from colibri.words import coli

    run = coli("run", named)
    if said := dangling(container.path / "tokenizer.json"):
        return said
    if "tokenizer.json" not in list_names(container.path):
        return f"no tokenizer.json: token ids only (`{run} --ids`)"
    chat = ChatFormat.load(container.path, str(container.config.get("model_type")))
    return "tokenizer, " + (_chat(chat) if chat else f"no chat template (`{run}` only)")


def _chat(chat: ChatFormat) -> str:
    parts = [f"chat template{f' built in for {chat.model_type}' if chat.built_in else ''}"]
    if chat.thinks:
        parts.append("reasoning" + ("" if chat.can_stop_thinking else " (no switch)"))
    if chat.takes_tools:
        parts.append(f"tool calls ({chat.tool_format or 'of a form not known'})")
    return ", ".join(parts)
