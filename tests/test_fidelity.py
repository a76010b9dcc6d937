"""Against transformers: the tiny checkpoints' logits at source precision, cast to bf16, and
quantised."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import colibri.layers.indexer
import colibri.routing.sigmoid
import colibri.routing.softmax
import golden
from colibri import LLM, SamplingParams
from colibri.formats.base import decode
from colibri.formats.packed import pack_matrix
from colibri.formats.table import FORMATS
from colibri.routing.sigmoid import SigmoidRouter
from colibri.routing.softmax import SoftmaxRouter

EXACT: dict[str, Any] = {"trunk_bits": "source", "embed_bits": 32}


@pytest.fixture(params=golden.FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_source_precision(family: str) -> None:
    ref = golden.reference(family)
    with LLM(golden.tiny(family), **EXACT) as llm:
        logits = llm.forward(ref.prompt_ids)
        answer = llm.generate(
            ref.prompt_ids, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        )
        last = llm.forward([*ref.prompt_ids, *ref.greedy_ids])[-1]
    assert np.abs(logits - ref.prompt_logits).max() <= 1e-3
    assert list(answer.token_ids) == ref.greedy_ids
    assert np.abs(last - ref.last_logits).max() <= 1e-3


def test_bf16_file_equals_its_values_in_fp32(family: str, tmp_path: Path) -> None:
    """A bf16 checkpoint loses what the cast loses and nothing more: to the bit against the same
    values in fp32, and against transformers' own logits of the rounded weights."""
    ref = golden.reference(family)
    cast = copy_with(family, tmp_path / "cast", lambda _, w: round_to_bf16(w))
    bf16 = copy_with(family, tmp_path / "bf16", lambda _, w: round_to_bf16(w), as_bf16=True)
    with LLM(cast, **EXACT) as llm:
        expected = llm.forward(ref.prompt_ids)
    with LLM(bf16, **EXACT) as llm:
        got = llm.forward(ref.prompt_ids)
    assert (got.view(np.uint32) == expected.view(np.uint32)).all()
    assert np.abs(got - golden.cast_logits(family)).max() <= 1e-3


@pytest.mark.parametrize("variant", ["int8", "int4"])
def test_packed_experts_are_the_model_of_their_values(
    family: str, variant: str, model_of: Any, tmp_path: Path
) -> None:
    """Converting loses what rounding the weights loses and nothing more: the same choices and
    logits as the rounded weights give in fp32, to the second activation plane's error."""
    ref = golden.reference(family)
    rounded = copy_with(family, tmp_path / "rounded", round_experts(f"{variant}-gs64"))
    with LLM(rounded, **EXACT) as llm:
        expected = llm.forward(ref.prompt_ids)
    with LLM(model_of(family, variant), **EXACT) as llm:
        logits = llm.forward(ref.prompt_ids)
    assert golden.cosine(logits, expected) >= 0.9999999
    assert np.abs(logits - expected).max() <= 2e-3


def test_int8_experts(family: str, model_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the source's choices of experts and positions: a near-tie that quantisation turns is a
    different computation, not an error of this one (GLM's tiny model has three in 24 rows)."""
    ref = golden.reference(family)
    choices = Choices(monkeypatch)
    with LLM(golden.tiny(family), **EXACT) as llm:
        llm.forward(ref.prompt_ids)
    choices.replay()
    with LLM(model_of(family, "int8"), **EXACT) as llm:
        logits = llm.forward(ref.prompt_ids)
    assert golden.cosine(logits, ref.prompt_logits) >= 0.9995


@pytest.mark.parametrize("family", ["olmoe", "mixtral", "qwen2_moe", "qwen3_moe"])
def test_int8_experts_choosing_for_themselves(family: str, model_of: Any) -> None:
    ref = golden.reference(family)
    with LLM(model_of(family, "int8"), **EXACT) as llm:
        logits = llm.forward(ref.prompt_ids)
    assert golden.cosine(logits, ref.prompt_logits) >= 0.9995


class Choices:
    """Records what routers and indexers choose in one run, then makes them choose it again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log: list[Any] = []
        self._replaying = False
        for module, name in (
            (colibri.routing.softmax, "softmax_topk"),
            (colibri.routing.sigmoid, "sigmoid_topk"),
            (colibri.layers.indexer, "index_scores_select"),
        ):
            monkeypatch.setattr(module, name, self._wrap(name, getattr(module, name)))
        for router in (SoftmaxRouter, SigmoidRouter):  # or a kernel would choose by itself
            monkeypatch.setattr(router, "rule", lambda self, experts: None)

    def replay(self) -> None:
        self._replaying = True

    def _wrap(self, name: str, choose: Any) -> Any:
        def wrapped(*args: Any) -> Any:
            if not self._replaying:
                self._log.append(choose(*args))
                return self._log[-1]
            chosen = self._log.pop(0)
            return chosen if name == "index_scores_select" else self._weigh(name, chosen[0], *args)

        return wrapped

    def _weigh(self, name: str, ids: Any, logits: Any, *rule: Any) -> Any:
        """The weights that these logits give to those ids."""
        x = logits.astype(np.float64)
        if name == "softmax_topk":
            p = np.exp(x - x.max(1, keepdims=True))
            p, renormalize, scale = p / p.sum(1, keepdims=True), rule[1], 1.0
        else:
            p, renormalize, scale = 1 / (1 + np.exp(-x)), rule[4], rule[5]
        w = np.take_along_axis(p, ids.astype(np.int64), 1)
        w = w / w.sum(1, keepdims=True) if renormalize else w
        return ids, (w * scale).astype(np.float32)


def round_to_bf16(w: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = w.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def round_experts(scheme: Any) -> Any:
    def matrix(w: NDArray[np.float32]) -> NDArray[np.float32]:
        m = pack_matrix(np.ascontiguousarray(w), FORMATS[scheme])
        return decode(m)

    def change(name: str, w: NDArray[np.float32]) -> NDArray[np.float32]:
        if ".experts." not in name:
            return w
        return np.stack([matrix(m) for m in w]) if w.ndim == 3 else matrix(w)

    return change


def copy_with(family: str, target: Path, change: Any, *, as_bf16: bool = False) -> Path:
    source = golden.tiny(family)
    target.mkdir()
    shutil.copy(source / "config.json", target)
    tensors = {name: change(name, w) for name, w in load_file(source / "model.safetensors").items()}
    if not as_bf16:
        save_file(tensors, target / "model.safetensors")
        return target
    header: dict[str, Any] = {}
    data = b""
    for name, w in tensors.items():
        raw = (w.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(w.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (target / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return target
