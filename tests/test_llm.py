"""The public class: answers, streams, refusals, faults, and life after each of them."""

import contextlib
import dataclasses
import functools
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colibri.runtime.runtime
import golden
from colibri import LLM, SamplingParams
from colibri.config import EngineConfig
from colibri.container.layerexperts import Span
from colibri.errors import (
    CapacityError,
    ColibriError,
    ConfigError,
    ContainerError,
    ReadError,
    TokenizerError,
)
from colibri.experts.streamed import StreamedExperts
from colibri.formats.packed import PackedFormat
from colibri.kernels import cpu
from colibri.llm import embedded_model
from colibri.text.history import prepared

GREEDY = SamplingParams(temperature=0, max_tokens=32)
QUESTION = [{"role": "user", "content": "What is the capital of Portugal?"}]


@pytest.fixture(scope="module")
def demo() -> Any:
    with LLM() as llm:
        yield llm


def test_embedded_model_answers(demo: LLM) -> None:
    answer = demo.chat(QUESTION, GREEDY)
    assert "Lisbon" in answer.text
    assert answer.finish_reason == "stop"
    assert answer.prompt_tokens > 0


def test_stream_is_the_same_text_in_pieces(demo: LLM) -> None:
    chunks = list(demo.stream_chat(QUESTION, GREEDY))
    whole = demo.chat(QUESTION, GREEDY)
    assert "".join(c.text for c in chunks) == whole.text
    assert [i for c in chunks for i in c.token_ids] == list(whole.token_ids)
    assert [c.finish_reason for c in chunks if c.finish_reason] == ["stop"]
    assert len(chunks) > 3


def test_seed_decides_and_nothing_else(demo: LLM) -> None:
    params = SamplingParams(temperature=0.9, max_tokens=20, seed=5)
    first = demo.generate("The hummingbird", params)
    demo.generate("Something else", GREEDY)
    assert demo.generate("The hummingbird", params).token_ids == first.token_ids
    batch = demo.generate(["A cat", "The hummingbird", "A dog and a cat"], params)
    assert batch[1].token_ids == first.token_ids


def test_logprobs_equal_teacher_forcing(demo: LLM) -> None:
    prompt = demo.render(QUESTION)
    params = SamplingParams(temperature=0, max_tokens=6, logprobs=3)
    answer = demo.generate(prompt, params)
    logits = demo.forward([*prompt, *answer.token_ids]).astype(np.float64)
    assert answer.logprobs is not None
    for i, entry in enumerate(answer.logprobs):
        row = logits[len(prompt) - 1 + i]
        log_p = row - row.max() - np.log(np.exp(row - row.max()).sum())
        assert entry.logprob == pytest.approx(log_p[entry.token_id], abs=1e-5)
        assert [i for i, _ in entry.top] == list(np.argsort(-row, kind="stable")[:3])


def test_stop_string_ends_before_itself(demo: LLM) -> None:
    whole = demo.chat(QUESTION, GREEDY).text
    stopped = demo.chat(QUESTION, SamplingParams(temperature=0, max_tokens=32, stop=("Portugal",)))
    assert stopped.finish_reason == "stop"
    assert stopped.text == whole[: whole.index("Portugal")]


def test_max_tokens_and_context(demo: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)
    assert demo.generate("One", params).finish_reason == "length"
    with LLM(context=16) as llm:
        long = SamplingParams(temperature=0, max_tokens=100, ignore_eos=True)
        answer = llm.generate([5] * 10, long)
        assert len(answer.token_ids) == 6
        assert answer.finish_reason == "length"
        with pytest.raises(CapacityError, match=r"16 tokens.*15"):
            llm.generate([5] * 16, GREEDY)
        with pytest.raises(CapacityError, match=r"17 tokens.*16"):
            llm.forward([5] * 17)


@pytest.mark.parametrize("ids", [[], [-1], [4096], [5, 10**9]])
def test_token_ids_are_checked(demo: LLM, ids: list[int]) -> None:
    with pytest.raises(ColibriError, match=r"empty|vocabulary"):
        demo.forward(ids)
    with pytest.raises(ColibriError, match=r"empty|vocabulary"):
        demo.generate(ids, GREEDY)


def test_calls_from_several_threads_queue(demo: LLM) -> None:
    prompts = [list(range(10 + i, 40 + 2 * i)) for i in range(6)]
    alone = [demo.forward(p) for p in prompts]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(demo.forward, prompts))
    for a, b in zip(alone, together, strict=True):
        assert (a.view(np.uint32) == b.view(np.uint32)).all()


def test_without_a_tokenizer(model_of: Any) -> None:
    with LLM(golden.tiny("olmoe")) as llm:
        assert len(llm.generate([5, 6, 7], GREEDY).token_ids) > 0
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            llm.generate("text", GREEDY)
        # A chat template would not help.
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            llm.chat(QUESTION)


def test_without_a_chat_template(tmp_path: Path) -> None:
    folder = shutil.copytree(golden.tiny("olmoe"), tmp_path / "base")
    shutil.copy(embedded_model() / "tokenizer.json", folder)
    with LLM(folder) as llm, pytest.raises(TokenizerError, match="no chat template"):
        llm.chat(QUESTION)


def test_a_model_without_template_takes_its_family_s(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "model"
    shutil.copytree(embedded_model(), path)
    (path / "chat_template.jinja").unlink()
    tools = [{"type": "function", "function": {"name": "f"}}]
    with LLM(path) as llm:
        prompt = llm.tokenizer.decode(llm.render(QUESTION), skip_special_tokens=False)
        assert prompt.startswith("[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>What")
        assert prompt.endswith("<|assistant|><think>")
        thought = llm.chat(QUESTION, GREEDY, reasoning_effort="xhigh")
        assert (bool(thought.reasoning), thought.text) == (True, "")
        said = llm.chat(QUESTION, GREEDY, thinking=False, tools=tools)
        assert (said.reasoning, said.tool_calls, said.finish_reason) == ("", (), "stop")
        assert said.text
        llm.chat(QUESTION, GREEDY, reasoning_effort="xhigh")
    notes = [r.message for r in caplog.records if "reasoning effort" in r.message]
    assert notes == ["reasoning effort xhigh: the nearest that this model has is Max"]


def test_options_of_a_chat_are_checked(demo: LLM) -> None:
    with pytest.raises(ConfigError, match="no option 'enable_thinking'"):
        demo.chat(QUESTION, GREEDY, enable_thinking=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no place for them"):
        demo.stream_chat(QUESTION, tools=[{"type": "function", "function": {"name": "f"}}])


def test_closing_a_stream_cancels(demo: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=1500, ignore_eos=True)
    stream = demo.stream("Once", params)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    wait_until(lambda: not demo._engine.busy)
    assert demo.stats().decode_tokens < 1000


def test_cancel_in_prefill_takes_effect_within_a_layer(tmp_path: Path) -> None:
    with LLM(prefill_chunk=32) as llm:
        seen: list[Any] = []
        stream = llm.stream([7] * 1500, GREEDY, on_progress=seen.append)
        thread = threading.Thread(target=lambda: [None for _ in stream])
        thread.start()
        wait_until(lambda: len(seen) >= 3)
        request = llm._engine._running[0].request
        request.cancel()
        thread.join(10)
        assert not thread.is_alive()
        assert seen[-1].tokens_done < 1500
        assert seen[0].tokens_total == 1500
        assert llm.chat(QUESTION, GREEDY).finish_reason == "stop"


def damaged(model: Path, copy: Path) -> tuple[Path, Span]:
    """A copy of a converted model with one bit of its last layer's first expert flipped."""
    shutil.copytree(model, copy)
    layers = colibri.runtime.open_model(copy, EngineConfig()).expert_layers()
    (span,) = layers[max(layers)].reads(0)
    with span.file.open("r+b") as file:
        file.seek(span.offset + 100)
        (byte,) = file.read(1)
        file.seek(span.offset + 100)
        file.write(bytes([byte ^ 4]))
    return span.file, span


def test_a_flipped_bit_is_found_when_reads_are_verified(model_of: Any, tmp_path: Path) -> None:
    file, span = damaged(model_of("olmoe", "int4"), tmp_path / "model")
    ids = list(range(5, 60))  # so many that every expert is asked for
    with LLM(file.parent) as llm:
        llm.forward(ids)
    with LLM(file.parent, verify_reads="on") as llm:
        for _ in range(2):
            with pytest.raises(ContainerError, match="checksum does not match") as raised:
                llm.forward(ids)
            assert f"{file} at byte {span.offset}: layers." in str(raised.value)
            assert ": expert 0 of layer" in str(raised.value)


def test_verified_reads_of_a_model_as_downloaded(caplog: pytest.LogCaptureFixture) -> None:
    with LLM(golden.tiny("olmoe"), verify_reads="on") as llm:
        llm.forward([5, 6, 7])
    assert "has no checksums of its experts" in caplog.text


def test_memory_of_several_sockets_is_in_the_load_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.llm.model.spread", lambda mode: contextlib.nullcontext((0, 1)))
    with LLM() as llm:
        assert llm.load_line.endswith("memory over 2 NUMA nodes")


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"trunk_bit.*trunk_bits"):
        LLM(trunk_bit=8)
    with pytest.raises(ConfigError, match="trunk_bits"):
        LLM(trunk_bits=5)
    with pytest.raises(ConfigError, match="stored at 8 bits"):
        LLM(trunk_bits="source")
    with pytest.raises(CapacityError, match="least that works"):
        LLM(ram="20MB")


def test_cpu_path_that_the_processor_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.kernels.cpu.supported_paths", lambda: ["scalar"])
    with pytest.raises(ConfigError, match="cpu: avx2 is not in this processor; it has scalar"):
        LLM(cpu="avx2")


def test_cpu_path_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLI_CPU", "scalar")
    with LLM() as llm:
        assert "scalar on" in llm.load_line
    best = cpu.supported_paths()[-1]
    with LLM(cpu=best) as llm:
        assert f"{best} on" in llm.load_line
    monkeypatch.setenv("COLI_CPU", "sse9")
    with pytest.raises(ConfigError, match="COLI_CPU: 'sse9' is not one of auto, scalar"):
        LLM()


def test_a_trunk_stored_packed_is_named_as_it_is(
    demo: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    expected = demo.forward([1, 2, 3])
    with LLM(trunk_bits=4, embed_bits=4) as llm:
        assert "trunk at 8 bits, embedding at 8 bits" in llm.load_line
        assert llm.plan.trunk_bytes == demo.plan.trunk_bytes
        assert (llm.forward([1, 2, 3]) == expected).all()
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "--trunk-bits 4",
        "--embed-bits 4",
    ]
    with pytest.raises(ConfigError, match=r"--trunk-bits source: .* stored at 8 bits; use 8"):
        LLM(trunk_bits="source")
    with pytest.raises(ConfigError, match=r"--embed-bits 32: .* stored at 8 bits; use 8"):
        LLM(embed_bits=32)


def test_lossy_activations_warn_once(caplog: pytest.LogCaptureFixture) -> None:
    with LLM(activations="int8") as llm:
        llm.chat(QUESTION, GREEDY)
        llm.chat(QUESTION, GREEDY)
    assert sum("less exact" in record.getMessage() for record in caplog.records) == 1


def test_a_model_is_called_by_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden.tiny("olmoe"))
    with LLM(".") as llm:
        assert llm.load_line.startswith("olmoe (olmoe)")


@pytest.mark.parametrize(
    "messages", ["Hello", [], ["Hello"], [{"content": "Hello"}], {"role": "user", "content": "x"}]
)
def test_what_is_no_conversation_is_refused(demo: LLM, messages: Any) -> None:
    with pytest.raises(ConfigError, match="messages must be a list"):
        demo.chat(messages)


def test_a_prompt_far_too_long_is_refused_without_taking_memory() -> None:
    text = "The quick brown fox. " * 100_000
    with LLM(context=64) as llm:
        before = llm.stats().peak_rss_bytes
        with pytest.raises(CapacityError, match=r"2100000 characters.*63 tokens"):
            llm.generate(text, GREEDY)
        with pytest.raises(CapacityError, match=r"characters.*63 tokens"):
            llm.chat([{"role": "user", "content": text}], GREEDY)
        assert llm.stats().peak_rss_bytes - before < 100_000_000


def test_closed_model_says_so() -> None:
    llm = LLM()
    llm.close()
    llm.close()
    with pytest.raises(ColibriError, match="closed"):
        llm.forward([1, 2])


def test_close_gives_the_weights_back_at_once() -> None:
    llm = LLM()
    llm.generate("Once", GREEDY)
    model = weakref.ref(llm._engine.model)
    gc.disable()  # a cycle would keep gigabytes until the collector comes by
    try:
        llm.close()
        assert model() is None
    finally:
        gc.enable()


def test_a_forgotten_model_ends_its_threads() -> None:
    before = threading.active_count()
    llm = LLM()
    llm.generate("Once", GREEDY)
    del llm
    assert threading.active_count() == before


def test_close_breaks_off_a_step() -> None:
    llm = LLM()
    seen: list[Any] = []
    stream = llm.stream([7] * 2000, GREEDY, on_progress=seen.append)
    failed: list[BaseException] = []

    def consume() -> None:
        try:
            list(stream)
        except ColibriError as error:
            failed.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    wait_until(lambda: len(seen) >= 1)
    llm.close()
    thread.join(10)
    assert "closed" in str(failed[0])
    assert seen[-1].tokens_done < 2000


def test_python_may_end_in_the_middle_of_an_answer() -> None:
    script = """
from colibri import LLM, SamplingParams
stream = LLM(threads=2).stream([5, 6], SamplingParams(max_tokens=500, ignore_eos=True))
next(stream)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")


FORK = """
import os, sys
from colibri import LLM, SamplingParams
from colibri.errors import ColibriError
params = SamplingParams(temperature=0, max_tokens=5)
llm = LLM(threads=2)
expected = llm.generate([5, 6], params)
if os.fork() == 0:
    for use in (lambda: llm.generate([5, 6], params), lambda: llm.forward([1])):
        try:
            use()
        except ColibriError as error:
            assert "forked" in str(error)
        else:
            sys.exit(1)
    llm.close()
    with LLM(threads=2) as own:
        sys.exit(own.generate([5, 6], params).token_ids != expected.token_ids)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert llm.generate([5, 6], params).token_ids == expected.token_ids
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_to_load_its_own_model() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


class FaultyDisk:
    """os.preadv that fails while `broken`."""

    def __init__(self) -> None:
        self.broken = False
        self.failures = 0

    def __call__(self, fd: int, buffers: list[Any], offset: int) -> int:
        if self.broken:
            self.failures += 1
            raise OSError(5, "Input/output error")
        return os.preadv(fd, buffers, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    disk = FaultyDisk()
    monkeypatch.setattr(
        colibri.runtime.runtime, "StreamedExperts", functools.partial(StreamedExperts, read=disk)
    )
    return disk


def test_failed_expert_read_ends_one_answer_and_no_more(disk: FaultyDisk) -> None:
    with LLM(cache_experts=4) as llm:
        expected = llm.chat(QUESTION, GREEDY)
        disk.broken = True
        with pytest.raises(ReadError, match=r"experts-L0000\d.*"):
            llm.chat(QUESTION, GREEDY)
        assert disk.failures >= 3
        disk.broken = False
        assert llm.chat(QUESTION, GREEDY).token_ids == expected.token_ids


def test_read_fault_in_mid_answer(disk: FaultyDisk) -> None:
    params = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)
    with LLM(cache_experts=4) as llm:
        stream = llm.stream("Once upon a time", params)
        next(stream)
        disk.broken = True
        with pytest.raises(ReadError):
            list(stream)
        disk.broken = False
        assert llm.chat(QUESTION, GREEDY).finish_reason == "stop"


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_numbers_that_are_none_end_one_answer_and_no_more(family: str) -> None:
    with LLM(golden.tiny(family)) as llm:
        vocabulary = llm._engine.model.vocab_size
        last = range(vocabulary - 16, vocabulary)
        others = dataclasses.replace(GREEDY, logit_bias=dict.fromkeys(last, -100.0))
        expected = llm.generate([5, 6, 7], others)
        embedding = llm._engine.model.embedding
        assert isinstance(embedding.format, PackedFormat)
        last_block = embedding.data[-embedding.format.block_bytes(embedding.cols) :]
        last_block[:] = 0xFF  # scales that are NaN, of the last 16 tokens
        healthy = llm.stream([5, 6, 7], others)
        first = next(healthy)
        with pytest.raises(ColibriError, match=r"layer \d, row \d: a router logit is not finite"):
            llm.generate([5, last[-1], 6], others)
        chunks = [first, *healthy]
        assert tuple(i for c in chunks for i in c.token_ids) == expected.token_ids


def test_the_fingerprint_is_that_of_what_decides_the_logits(tmp_path: Path) -> None:
    """Neither of the machine nor of the directory's name: a laptop and a server have the same."""
    for path in embedded_model().iterdir():
        (tmp_path / path.name).symlink_to(path)

    def found(model: Path | None = None, **settings: Any) -> str:
        with LLM(model, ram="2GB", **settings) as llm:
            return llm.fingerprint

    assert found() == found(tmp_path, threads=1, cpu="scalar", context=64)
    others = [found(activations="int8"), found(experts_per_token=1), found(cache_bits=3)]
    assert len({found(), *others}) == 4


def test_earlier_calls_are_prepared_once(demo: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the prompt is rendered again up to its boundaries, as for recurrent families."""
    count = 0

    def counted(*call: Any) -> Any:
        nonlocal count
        count += 1
        return prepared(*call)

    monkeypatch.setattr("colibri.text.chat.prepared", counted)
    monkeypatch.setattr(demo._asker, "_marks", True)
    call = {"type": "function", "function": {"name": "f", "arguments": "{"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "user", "content": "y"},
    ]
    answer = demo.request(None, messages=messages)
    assert count == len(messages)
    assert len(answer.notes) == 1
