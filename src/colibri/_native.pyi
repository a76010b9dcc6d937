"""The native module. Arrays are C-contiguous and never converted; wrong shapes raise ValueError."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]
_Bool = npt.NDArray[np.bool_]
_U8 = npt.NDArray[np.uint8]
_U64 = npt.NDArray[np.uint64]
_Weights = npt.NDArray[Any]  # float32 | float16 | uint16 (bf16)

# CPU paths and threads.

def active_path() -> str: ...
def num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def supported_paths() -> list[str]: ...
def use_path(name: str) -> None: ...

# Measuring.

def moment() -> tuple[int, int]: ...  # of a clock, and of this thread in kernels; nanoseconds
def stream_read(data: _U64) -> int: ...

# The readers of experts. A job: (tag, layer or -1 if demanded, memory, spans). A span: (descriptor,
# direct, offset, nbytes, needed, place in the memory). A result: (tag, bytes, seconds, error).

_Span = tuple[int, bool, int, int, int, int]
_Result = tuple[int, int, float, int]
INDEX_SCORES: int  # that index_scores_select keeps at a time; more only if one row has more
FILE_ENDS: int  # the error of a file that ended before all needed bytes; others are errnos

class Bell:
    def __init__(self) -> None: ...
    def ring(self) -> None: ...
    def wait(self, timeout: float) -> bool: ...

class Readers:
    def __init__(self, threads: int, piece_bytes: int, bell: Bell | None = None) -> None: ...
    def submit(
        self, jobs: Sequence[tuple[int, int, memoryview | _U8, Sequence[_Span]]]
    ) -> None: ...
    def promote(self, tag: int) -> bool: ...
    def withdraw(self, tags: Sequence[int]) -> list[int]: ...
    def collect(self, timeout: float) -> list[_Result]: ...
    def quiesce(self, timeout: float) -> list[_Result] | None: ...
    def close(self) -> None: ...

# Packing, products and the mixture of experts.

class Matrix: ...  # weights as the kernels take them; keeps their array alive

def combine(pairs: _F32, topk_ids: _I32, topk_weights: _F32, y: _F32) -> None: ...
def decode(w: Matrix, out: _F32 | None) -> int: ...
def experts_of(topk_ids: _I32, num_experts: int) -> list[int]: ...
def embed(ids: _I64, w: Matrix, out: _F32) -> None: ...
def matmul(x: _F32, w: Matrix, planes: int, out: _F32) -> None: ...
def matmul_heads(x: _F32, w: Matrix, planes: int, out: _F32) -> None: ...
def matrix(
    format: int, rows: int, cols: int, parts: Sequence[_Weights], multiplier: float, first: int
) -> Matrix: ...

class ExpertTable: ...  # keeps its arrays alive

def expert_table(
    format: int,
    hidden: int,
    inner: int,
    up_first: int,
    parts: _U64,
    multipliers: _F32,
    at_hand: _Bool,
    planes: int,
) -> ExpertTable: ...
def moe_all(
    table: ExpertTable, topk_ids: _I32, topk_weights: _F32, x: _F32, limit: float, y: _F32
) -> int: ...
def moe_some(
    table: ExpertTable,
    topk_ids: _I32,
    topk_weights: _F32,
    experts: Sequence[int],
    x: _F32,
    limit: float,
    y: _F32,
    by_pair: bool,
) -> None: ...
def narrow(w: Matrix, out: _U8) -> float: ...
def pack(
    w: Matrix, format: int, multiplier: float, out: _U8 | None
) -> tuple[float, float, int]: ...

# The halves of a layer: objects made once, and calls with them.

class Norm: ...
class Projections: ...
class GroupedAttention: ...

class KeyValues:  # keeps its buffers alive
    length: int
    touched: int

class StepRows: ...
class RouteRule: ...

def norm(weight: _F32, eps: float) -> Norm: ...
def projections(
    ws: Sequence[Matrix], biases: Sequence[_F32 | None], planes: int
) -> Projections: ...
def attention(
    layer: int,
    qkv: Projections,
    o_proj: Projections,
    heads: int,
    kv_heads: int,
    dim: int,
    q_norm: Norm | None,
    k_norm: Norm | None,
    per_head: bool,
    clip: float,
    window: int,
    scale: float,
    interleaved: bool,
    gated: bool,
) -> GroupedAttention: ...
def key_values(keys: _F32, values: _F32) -> KeyValues: ...
def step_rows(
    positions: _I64,
    stops: Sequence[int],
    cos: _F32,
    sin: _F32,
    caches: Sequence[Sequence[KeyValues | None]],
) -> StepRows: ...
def route_rule(
    experts: int,
    k: int,
    bias: _F32 | None,
    n_group: int,
    topk_group: int,
    renormalize: bool,
    scale: float,
) -> RouteRule: ...

class GivenChoices:
    position: int
    places: list[int]
    def __init__(self) -> None: ...
    def set(self, ids: _I32, weights: _F32 | None) -> None: ...
    def next(self, rows: int) -> list[int]: ...
    def take(self, ids: _I32, weights: _F32) -> None: ...

def given_rule(rule: RouteRule, given: GivenChoices) -> RouteRule: ...
def project(x: _F32, ws: Projections, outs: Sequence[_F32]) -> None: ...
def norm_project(
    x: _F32, y: _F32, add: bool, norm: Norm, ws: Projections, outs: Sequence[_F32]
) -> None: ...
def swiglu(x: _F32, gate_up: Projections, down: Projections, limit: float, out: _F32) -> None: ...
def grouped_attention(
    x: _F32, y: _F32, add: bool, norm: Norm, attention: GroupedAttention, rows: StepRows
) -> None: ...
def norm_route(
    x: _F32,
    y: _F32,
    add: bool,
    norm: Norm,
    gate: Projections,
    rule: RouteRule,
    ids: _I32,
    weights: _F32,
) -> None: ...

class RoutedExperts: ...

def routed_experts(
    gate: Projections, rule: RouteRule, table: ExpertTable, limit: float
) -> RoutedExperts: ...
def norm_moe(
    x: _F32,
    y: _F32,
    add: bool,
    norm: Norm,
    experts: RoutedExperts,
    ids: _I32,
    weights: _F32,
    out: _F32,
) -> tuple[int, tuple[int, int]]: ...  # experts run, moment of the choice

class Walk: ...

def make_walk(
    layers: Sequence[tuple[Norm, GroupedAttention, Norm, RoutedExperts]],
) -> Walk: ...
def walk(
    walk: Walk,
    first: int,
    x: _F32,
    y0: _F32,
    y1: _F32,
    add: bool,
    rows: StepRows,
    ids: _I32,
    weights: _F32,
    named: _I64,
    moments: _I64,
    patience_ns: int,
) -> tuple[int, int, int]: ...  # layers walked, begun, row that is not finite or -1

# The delta rule, wrapped by kernels/delta.py.

class Recurrent: ...  # keeps its buffers alive
class DeltaRule: ...

def recurrent(window: _F32, matrix: _F32) -> Recurrent: ...
def delta_rule(
    conv: _F32,
    heads: int,
    key_heads: int,
    key_dim: int,
    value_dim: int,
    a_log: _F32,
    bias: _F32,
    lower: float | None,
    norm: _F32,
    eps: float,
    silu: bool,
) -> DeltaRule: ...
def delta_mix(
    rule: DeltaRule,
    inputs: Sequence[_F32],
    gate: _F32,
    beta: _F32,
    z: _F32,
    stops: Sequence[int],
    before: Sequence[Recurrent | None],
    after: Sequence[Recurrent],
    out: _F32,
) -> None: ...

# Hyper-connections, wrapped by kernels/hyper.py.

class HyperMix: ...  # keeps its arrays alive

def hyper_mix(
    fn: Matrix,
    base: _F32,
    scale: _F32,
    streams: int,
    iterations: int,
    norm_eps: float,
    eps: float,
) -> HyperMix: ...
def hyper_enter(mix: HyperMix, x: _F32, h: _F32, out: _F32) -> None: ...
def hyper_leave(x: _F32, out: _F32, y: _F32) -> None: ...
def hyper_mean(x: _F32, y: _F32) -> None: ...

# Norms, rope, routing and attention.

# Wrapped by kernels/{ops,routing,attention}.py.

def rms_norm(x: _F32, w: _F32, eps: float, out: _F32) -> None: ...
def layer_norm(
    x: _F32,
    w: _F32,
    b: _F32,
    eps: float,
    out: _F32,
) -> None: ...
def softmax(x: _F32, out: _F32) -> None: ...
def log_sum_exp(x: _F32, out: _F64) -> None: ...
def silu_mul(gate: _F32, up: _F32, limit: float, out: _F32) -> None: ...
def sigmoid(x: _F32, out: _F32) -> None: ...
def rope_table(
    positions: _I64,
    inv_freq: _F32,
    scale: float,
    cos: _F32,
    sin: _F32,
) -> None: ...
def add_rms_norm(x: _F32, y: _F32, w: _F32, eps: float) -> None: ...
def apply_rope(
    x: _F32,
    cos: _F32,
    sin: _F32,
    offset: int,
    interleaved: bool,
) -> None: ...
def softmax_topk(
    logits: _F32,
    k: int,
    renormalize: bool,
    ids: _I32,
    weights: _F32,
) -> None: ...
def sigmoid_topk(
    logits: _F32,
    bias: _F32,
    k: int,
    n_group: int,
    topk_group: int,
    renormalize: bool,
    scale: float,
    ids: _I32,
    weights: _F32,
) -> None: ...
def attend(
    q: _F32,
    k: _F32,
    v: _F32,
    positions: _I64,
    scale: float,
    window: int,
    index: _I32 | None,
    out: _F32,
) -> None: ...
def index_scores_select(
    iq: _F32,
    w: _F32,
    ik: _F32,
    positions: _I64,
    pool: int,
    out: _I32,
) -> None: ...
def pool_keys(rows: _F32, bias: _F32, out: _F32) -> None: ...
