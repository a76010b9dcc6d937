import dataclasses

from colibri.lab.floors import weight_bytes


def test_experts_count_with_the_bytes_that_the_cache_keeps(measured):
    """--cache-bits 3: what is multiplied is narrower than what is stored."""
    k = measured.experts_per_token
    trunk = weight_bytes(measured.container, measured.plan, {})
    stored = weight_bytes(measured.container, measured.plan, k) - trunk
    narrow = dataclasses.replace(measured.plan, cache_bits=3)
    kept = weight_bytes(measured.container, narrow, k) - trunk
    # Of 64 weights: 32 bytes and a scale of 2, or 24 and the same.
    assert kept / stored == 26 / 34
