import numpy as np
from numpy.typing import NDArray

# Wrapped by kernels/{ops,routing,attention}.py.

def rms_norm(
    x: NDArray[np.float32], w: NDArray[np.float32], eps: float, out: NDArray[np.float32]
) -> None: ...
def layer_norm(
    x: NDArray[np.float32],
    w: NDArray[np.float32],
    b: NDArray[np.float32],
    eps: float,
    out: NDArray[np.float32],
) -> None: ...
def softmax(x: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...
def log_sum_exp(x: NDArray[np.float32], out: NDArray[np.float64]) -> None: ...
def silu_mul(
    gate: NDArray[np.float32], up: NDArray[np.float32], out: NDArray[np.float32]
) -> None: ...
def sigmoid(x: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...
def rope_table(
    positions: NDArray[np.int64],
    inv_freq: NDArray[np.float32],
    scale: float,
    cos: NDArray[np.float32],
    sin: NDArray[np.float32],
) -> None: ...
def apply_rope(
    x: NDArray[np.float32],
    cos: NDArray[np.float32],
    sin: NDArray[np.float32],
    offset: int,
    interleaved: bool,
) -> None: ...
def softmax_topk(
    logits: NDArray[np.float32],
    k: int,
    renormalize: bool,
    ids: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None: ...
def sigmoid_topk(
    logits: NDArray[np.float32],
    bias: NDArray[np.float32],
    k: int,
    n_group: int,
    topk_group: int,
    renormalize: bool,
    scale: float,
    ids: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None: ...
def attend(
    q: NDArray[np.float32],
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    positions: NDArray[np.int64],
    scale: float,
    window: int,
    index: NDArray[np.int32] | None,
    out: NDArray[np.float32],
) -> None: ...
def index_scores_select(
    iq: NDArray[np.float32],
    w: NDArray[np.float32],
    ik: NDArray[np.float32],
    positions: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None: ...
