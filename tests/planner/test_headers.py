"""A plan of GLM-5.3-Flash from headers, written from its published sizes (scripts/headers.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from colibri.config import EngineConfig
from colibri.container.reader import Container
from colibri.errors import ConfigError, UnsupportedModelError
from colibri.models.registry import family_for
from colibri.planner.assess import Wishes, assess, open_outline
from colibri.planner.budget import Machine
from colibri.planner.document import Document
from colibri.planner.report import report
from scripts import headers

MACHINE = Machine(total_bytes=32 * 10**9, available_bytes=30 * 10**9, rss_bytes=60_000_000)
KDA = headers.TEXT["linear_attn_config"]
KNOWN = {"disk": 3.5e9, "memory": 40e9}


@pytest.fixture(scope="module")
def flash(tmp_path_factory: pytest.TempPathFactory) -> Container:
    folder = tmp_path_factory.mktemp("flash")
    headers.write(folder)
    return open_outline(folder)


def planned(model: Container, wishes: Wishes | None = None, **settings: Any) -> Document:
    config = EngineConfig(**{"ram": "14GB", "trunk_bits": 4} | settings)
    return assess(model, config, wishes or Wishes(**KNOWN))


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.planner.assess.this_machine", lambda: MACHINE)


def test_flash_in_14_gb_holds_more_than_a_tokens_experts(flash: Container) -> None:
    d = planned(flash)
    items = {item.name: item.bytes for item in d.items}
    assert d.fits
    assert sum(items.values()) == d.peak_bytes <= 14_000_000_000
    sparse = [layer for layer in d.layers if layer.slots]
    assert [layer.layer for layer in sparse] == list(range(3, 45))
    assert min(layer.slots for layer in sparse) >= d.experts_per_token == 8
    assert d.notes == []
    # 8.2 billion weights of trunk at 4.25 bits, with what stays exact at 16 and 32.
    assert items["trunk"] == pytest.approx(4.29e9, rel=0.01)
    assert items["head"] == 154880 * 4096 * 17 // 32
    # Twice, for a step may be taken back: in 34 layers 64 x 128 x 128 + 3 x 3 x 8192 floats, in 11
    # the keys and gates [128] of 7 positions. 544 a position.
    recurrent = 2 * (34 * (64 * 128 * 128 + 9 * 8192) + 11 * 7 * 2 * 128)
    assert items["state"] == 4 * (recurrent + 8192 * 11 * 544)
    assert (d.model.files, d.model.files_without_data) == (47, 47)
    assert d.forecast.bottleneck == "disk"
    text = "\n".join(report(d))
    assert "headers only: 47 of 47 files" in text
    assert "as converted to int4-gs64" in text


def test_less_memory_says_what_is_missing(flash: Container) -> None:
    short = planned(flash, ram="9GB")
    assert short.fits
    assert "of the 8 experts that one token takes" in short.notes[0]
    refused = planned(flash, ram="5GB")
    assert not refused.fits
    assert refused.least_bytes > 5_000_000_000
    assert refused.advice == []


def test_the_index_alone_gives_nearly_the_same(flash: Container, tmp_path: Path) -> None:
    headers.write(tmp_path, shards=False)
    kept = {"cache_experts": 8, "prefill_chunk": 256}
    whole, index = planned(flash, **kept), planned(open_outline(tmp_path), **kept)
    # What is stored in fp32 is taken for bf16.
    assert 0 < whole.peak_bytes - index.peak_bytes < 0.01 * whole.peak_bytes
    assert index.layers[3].slot_bytes == whole.layers[3].slot_bytes


def test_other_schemes(flash: Container) -> None:
    as_it_is = planned(flash, Wishes("source", **KNOWN))
    assert as_it_is.model.experts == "bf16"
    assert max(n.slot_bytes for n in as_it_is.layers) >= 3 * 2048 * 4096 * 2
    at_8 = planned(flash, Wishes("int8-gs64", **KNOWN))
    assert at_8.model.as_converted
    assert max(n.slot_bytes for n in at_8.layers) == pytest.approx(3 * 2048 * 4096 * 1.03, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("text_config", None, "text_config is missing"),
        ("text_config", {}, "missing required field"),
        ("layer_types", ["full_attention"], "layer_types has 1 entry"),
        ("qk_rope_head_dim", 64, "qk_rope_head_dim = 64"),
        ("linear_attn_config", {"num_heads": 0, "head_dim": 1, "short_conv_kernel_size": 1}, "out"),
        ("linear_attn_config", KDA | {"gate_lower_bound": 5.0}, "gate_lower_bound = 5.0 is out"),
        ("linear_attn_config", KDA | {"short_conv_kernel_size": 9}, "out of range 1..8"),
        ("mlp_layer_types", ["sparse"], "mlp_layer_types has 1 entry"),
        (
            "layer_types",
            ["linear_attention"] * 44 + ["sliding_attention"],
            "layer_types = 'sliding",
        ),
        ("indexer_types", ["full"] * 43 + ["shared"] * 2, "indexer_types = 'shared at layer 43'"),
        ("index_kpool_compress", False, "index_kpool_compress = False"),
        ("index_kpool_always_select_tail", False, "index_kpool_always_select_tail = False"),
        ("index_kpool", 4096, "index_kpool = 4096 is out of range 1..1024"),
        ("index_topk", 2, "index_kpool = 4 is out of range 1..2"),
        ("mla_use_nope", False, "mla_use_nope = False"),
        ("hc_mult", 9, "hc_mult = 9 is out of range 1..8"),
        ("hc_sinkhorn_iters", 0, "hc_sinkhorn_iters = 0"),
        ("swiglu_limit", -10.0, "swiglu_limit = -10.0"),
        ("swiglu_limit", None, "swiglu_limit"),
        ("n_group", 7, "n_group = 7"),
    ],
)
def test_a_config_that_cannot_be(field: str, value: Any, says: str) -> None:
    config = dict(headers.CONFIG)
    if field == "text_config":
        config[field] = value
    else:
        config["text_config"] = headers.TEXT | {field: value}
    with pytest.raises((ConfigError, UnsupportedModelError), match=says):
        family_for(config).weights_of(config)
