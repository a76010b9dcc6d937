"""The indexer's scores take the memory that plans count for them, and no more."""

import subprocess
import sys

import pytest

from colibri.kernels.attention import INDEX_SCORES
from colibri.models.family import Sizes

pytestmark = pytest.mark.alone

GROWN = """
import sys
import numpy as np
from colibri.kernels.attention import index_scores_select
rows, keys, pool = map(int, sys.argv[1:])

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

q = np.ones((rows, 1, 16), np.float32)
w = np.ones((rows, 1), np.float32)
kept = np.ones((keys, 16), np.float32)
ends = np.arange(keys * pool - rows, keys * pool)
index_scores_select(q[:1], w[:1], kept[:64], np.array([64 * pool - 1]), 4 * pool, pool)
before = peak()
index_scores_select(q, w, kept, ends, 4 * pool, pool)
print(peak() - before)
"""
SLACK = 1_500_000  # the choice itself, the queries padded, pages


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("rows", "keys", "pool"), [(250, 16_384, 1), (64, 4_000, 4)])
def test_scores_take_what_the_plan_counts(rows: int, keys: int, pool: int) -> None:
    arguments = [str(number) for number in (rows, keys, pool)]
    done = subprocess.run(
        [sys.executable, "-c", GROWN, *arguments], capture_output=True, text=True, check=True
    )
    planned = Sizes(0, 0, 0, index_pool=pool).index_bytes(rows, keys * pool)
    assert planned - SLACK < int(done.stdout) < planned + SLACK


def test_one_row_may_have_more_scores_than_are_kept_of_several() -> None:
    sizes = Sizes(0, 0, 0, index_pool=2)
    assert sizes.index_bytes(1, 100) == 4 * 50
    assert sizes.index_bytes(8, 100) == 4 * 8 * 50
    assert sizes.index_bytes(1 << 20, 100) == 4 * INDEX_SCORES
    assert sizes.index_bytes(3, 4 * INDEX_SCORES) == 4 * 2 * INDEX_SCORES
    assert Sizes(0, 0, 0).index_bytes(512, 1 << 20) == 0
