"""The meaning of kernels/{ops,routing,attention}.py in plain NumPy, which tests hold them to.

Sums are taken in double where the native code fixes an fp32 order: floats agree closely, not in
every bit.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def _f32(x: Doubles) -> Floats:
    return x.astype(np.float32)


def rms_norm(x: Floats, w: Floats, eps: float) -> Floats:
    a = x.astype(np.float64)
    return _f32(a / np.sqrt((a * a).mean(-1, keepdims=True) + eps) * w)


def layer_norm(x: Floats, w: Floats, b: Floats, eps: float) -> Floats:
    a = x.astype(np.float64)
    d = a - a.mean(-1, keepdims=True)
    return _f32(d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * w + b)


def _sigmoid(x: Floats) -> Doubles:
    e: Doubles = np.exp(-np.abs(x.astype(np.float64)))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def sigmoid(x: Floats) -> Floats:
    return _f32(_sigmoid(x))


def silu_mul(gate: Floats, up: Floats, limit: float = np.inf) -> Floats:
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return _f32(gate * _sigmoid(gate) * up)


def _softmax(x: Doubles) -> Doubles:
    e: Doubles = np.exp(x - x.max(-1, keepdims=True))
    total: Doubles = e.sum(-1, keepdims=True)
    return e / total


def softmax(x: Floats) -> Floats:
    return _f32(_softmax(x.astype(np.float64)))


def log_sum_exp(x: Floats) -> Doubles:
    a = x.astype(np.float64)
    top: Doubles = a.max(-1)
    total: Doubles = np.exp(a - top[:, None]).sum(-1)
    return top + np.log(total)


def rope_table(
    positions: NDArray[np.int64], inv_freq: Floats, scale: float = 1.0
) -> tuple[Floats, Floats]:
    angle = (positions.astype(np.float32)[:, None] * inv_freq).astype(np.float64)
    factor = np.float32(scale)
    return _f32(np.cos(angle)) * factor, _f32(np.sin(angle)) * factor


def apply_rope(x: Floats, cos: Floats, sin: Floats, offset: int, interleaved: bool) -> None:
    half = cos.shape[1]
    span = x[:, :, offset : offset + 2 * half]  # a view: the result is written through it
    first, second = (
        (span[..., 0::2], span[..., 1::2]) if interleaved else (span[..., :half], span[..., half:])
    )
    a, b = first.astype(np.float64), second.astype(np.float64)
    c, s = cos[:, None].astype(np.float64), sin[:, None].astype(np.float64)
    first[...] = a * c - b * s
    second[...] = b * c + a * s


def _best(score: NDArray[np.floating], k: int) -> NDArray[np.int32]:
    return np.argsort(-score, axis=-1, kind="stable")[:, :k].astype(np.int32)


def softmax_topk(logits: Floats, k: int, renormalize: bool) -> tuple[NDArray[np.int32], Floats]:
    p = softmax(logits)
    ids = _best(p, k)
    w = np.take_along_axis(p, ids, -1)
    return ids, w / w.sum(-1, keepdims=True) if renormalize else w


def sigmoid_topk(
    logits: Floats,
    bias: Floats,
    k: int,
    n_group: int,
    topk_group: int,
    renormalize: bool,
    scale: float,
) -> tuple[NDArray[np.int32], Floats]:
    p = sigmoid(logits)
    choice = p + bias
    grouped = choice.reshape(len(logits), n_group, -1)
    kept = _best(np.sort(grouped, -1)[..., -2:].sum(-1), topk_group)
    allowed = np.zeros((len(logits), n_group), bool)
    np.put_along_axis(allowed, kept, True, -1)
    masked = np.where(allowed[..., None], grouped, -np.inf).reshape(choice.shape)
    ids = _best(masked, k)
    w = np.take_along_axis(p, ids, -1)
    if renormalize:
        w = w / (w.sum(-1, keepdims=True) + np.float32(1e-20))
    return ids, w * np.float32(scale)


def _seen(
    position: int, window: int | None, index: NDArray[np.int32] | None
) -> NDArray[np.integer]:
    if index is not None:
        return index[index >= 0]
    first = 0 if window is None else max(0, position + 1 - window)
    return np.arange(first, position + 1)


def attend(
    q: Floats,
    k: Floats,
    v: Floats,
    positions: NDArray[np.int64],
    scale: float,
    *,
    window: int | None = None,
    index: NDArray[np.int32] | None = None,
) -> Floats:
    group = q.shape[1] // k.shape[1]
    out = np.empty((*q.shape[:2], v.shape[-1]), np.float32)
    for t, position in enumerate(positions):
        keys = _seen(int(position), window, None if index is None else index[t])
        for h in range(q.shape[1]):
            kv = h // group
            score = k[keys, kv].astype(np.float64) @ q[t, h].astype(np.float64) * scale
            out[t, h] = _softmax(score) @ v[keys, kv].astype(np.float64)
    return out


def index_scores_select(
    iq: Floats, w: Floats, ik: Floats, positions: NDArray[np.int64], topk: int, pool: int = 1
) -> NDArray[np.int32]:
    out = np.full((len(iq), topk // pool * pool + pool - 1), -1, np.int32)
    for t, position in enumerate(positions):
        complete = (position + 1) // pool
        dots = iq[t].astype(np.float64) @ ik[:complete].astype(np.float64).T
        score = w[t].astype(np.float64) @ np.maximum(dots, 0)
        best = np.sort(_best(score[None], topk // pool)[0])
        tail = np.arange(complete * pool, position + 1)
        chosen = np.concatenate([(best[:, None] * pool + np.arange(pool)).ravel(), tail])
        out[t, : len(chosen)] = chosen
    return out


def pool_keys(rows: Floats, bias: Floats) -> Floats:
    pool, dim = bias.shape
    a = rows.astype(np.float64).reshape(-1, pool, 2, dim)
    gate = a[:, :, 1] + bias
    weight = np.exp(gate - gate.max(1, keepdims=True))
    return _f32((weight * a[:, :, 0]).sum(1) / weight.sum(1))
