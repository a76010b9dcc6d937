"""Two families' routers on the same logits."""

import numpy as np

from colibri.routing.sigmoid import SigmoidRouter
from colibri.routing.softmax import SoftmaxRouter

EXPERTS, K = 12, 4


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


BIAS = values(1, EXPERTS) / 10
OWN = {
    "softmax": SoftmaxRouter(K, False),
    "softmax renormalised": SoftmaxRouter(K, True),
    "sigmoid in groups": SigmoidRouter(K, BIAS, 4, 2, True, 2.5),
    "sigmoid": SigmoidRouter(K, BIAS, 1, 1, False, 1.5),
}
LOGITS = values(2, 50, EXPERTS)
