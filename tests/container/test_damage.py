"""Whatever happens to a byte of a model's files: it opens, or a ColibriError says why not."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from converted_model import write_converted
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import (
    expert_tensors,
    fused,
    trunk_tensors,
    weight_map,
    write_config,
    write_sharded,
)

from colibri.container.files import opened, read_into
from colibri.container.reader import open_container
from colibri.container.trunk import load_matrix, load_vector
from colibri.errors import ColibriError

Q = "model.layers.0.q_proj.weight"


def converted(path: Path) -> None:
    write_converted(path, packed=(Q,))


def as_downloaded(path: Path) -> None:
    write_config(path)
    write_sharded(path, {**trunk_tensors(), **expert_tensors()}, 3)


def as_downloaded_fused(path: Path) -> None:
    write_config(path)
    write_sharded(path, {**trunk_tensors(), **fused(expert_tensors())}, 2, index=False)


def use(path: Path) -> None:
    """Open, load the trunk and read every expert as the loader does."""
    c = open_container(path, lambda _: weight_map())
    for name in c.names():
        if len(c.info(name).shape) == 2:
            load_matrix(c, name, 4)
        else:
            load_vector(c, name)
    for layer in c.expert_layers().values():
        slot = np.empty(layer.slot_bytes, np.uint8)
        for expert in range(layer.num_experts):
            for span in layer.reads(expert):
                with opened(span.file) as (fd, _):
                    target = slot[span.slot_offset :][: span.needed]
                    read_into(fd, span.file, target.data, span.offset)
            assert max(layer.parts(expert)) < layer.slot_bytes


def outcome(path: Path) -> str:
    try:
        use(path)
    except ColibriError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("make", [converted, as_downloaded, as_downloaded_fused])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_gives_a_named_error_or_none(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[[Path], None], data: st.DataObject
) -> None:
    good = tmp_path_factory.getbasetemp() / make.__name__
    if not good.exists():
        good.mkdir()
        make(good)
        use(good)
    bad = good.with_suffix(".bad")
    shutil.copytree(good, bad, dirs_exist_ok=True)
    victim = bad / data.draw(st.sampled_from(sorted(p.name for p in good.iterdir())))
    content = victim.read_bytes()
    # Text, headers and the manifest are where damage can mislead: mostly strike there.
    at = data.draw(st.integers(0, min(len(content), 3000)) | st.integers(0, len(content)))
    new = data.draw(st.binary(max_size=3) | st.sampled_from([b"9", b"-", b"]", b"null", b'"']))
    gone = data.draw(st.sampled_from([0, 1, 2, 8, len(content)]))
    victim.write_bytes(content[:at] + new + content[at + gone :])
    message = outcome(bad)
    assert not message or str(bad) in message
