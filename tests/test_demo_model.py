"""The embedded model: small enough to ship, honest in its quantisation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import golden
from colibri.container.header import read_header
from colibri.container.reader import Container, open_container
from colibri.container.trunk import to_float32
from colibri.formats.base import decode
from colibri.formats.packed import INT4, pack_matrix
from colibri.llm import embedded_model
from colibri.models.registry import family_for

SAMPLE = Path(__file__).parent / "fixtures" / "demo" / "experts.safetensors"
HIDDEN, INNER = 256, 128


@pytest.fixture(scope="module")
def model() -> Container:
    return open_container(embedded_model(), lambda c: family_for(c).weights_of(c))


def test_size() -> None:
    assert sum(f.stat().st_size for f in Path(embedded_model()).iterdir()) <= 16_000_000


def test_draft_layer_is_kept_at_8_bits(model: Container) -> None:
    schemes = {n: (e.layout.format.name, e.draft) for n, e in model.expert_layers().items()}
    assert schemes == {
        **{n: ("int4-gs64", False) for n in (1, 2, 3, 4)},
        5: ("int8-gs64", True),
    }
    assert model.stored_bits == 8


@pytest.mark.parametrize("name", sorted(read_header(SAMPLE)[0]))
def test_int4_on_trained_weights(model: Container, name: str) -> None:
    """The embedded record holds this matrix's int4 form, as near to it as promised."""
    tensor = read_header(SAMPLE)[0][name]
    stored = np.fromfile(SAMPLE, np.uint16, tensor.nbytes // 2, offset=tensor.offset)
    source = stored.reshape(tensor.shape)
    values = to_float32(source)

    packed = pack_matrix(values, INT4)
    assert embedded_bytes(model, name) == packed.data.tobytes()
    assert packed.multiplier == 1
    back = decode(packed)
    assert golden.cosine(back, values) >= 0.994


def embedded_bytes(model: Container, name: str) -> bytes:
    """The packed matrix as it lies in its expert's record."""
    found = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(\w+)_proj\.weight", name)
    assert found
    layer = model.expert_layers()[int(found[1])]
    (span,) = layer.reads(int(found[2]))
    record: NDArray[np.uint8] = np.fromfile(span.file, np.uint8, span.nbytes, offset=span.offset)
    down = layer.parts(int(found[2]))[2]
    size = down // (2 * INNER // 16)
    pairs = record[:down].reshape(INNER // 16, 2, size)
    if found[3] == "down":
        return record[down : down + HIDDEN // 16 * (INNER // 64) * 544].tobytes()
    return pairs[:, {"gate": 0, "up": 1}[found[3]]].tobytes()
