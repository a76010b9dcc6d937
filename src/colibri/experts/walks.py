"""The two orders in which a call's experts are multiplied while their reads land; the same bits."""

from colibri.experts.arithmetic import Multiplier
from colibri.experts.base import Floats
from colibri.experts.staging import Staging


def is_walked_in_order(pairs: int, hidden: int, pair_buffer_bytes: int) -> bool:
    """Whether a call's outputs are too large to be kept pair by pair."""
    return pairs * hidden * 4 > pair_buffer_bytes


def in_any_order(staging: Staging, multiplier: Multiplier, outputs: Floats) -> Floats:
    ready = staging.hits
    while ready or staging.unfinished:
        staging.start_reads()
        ready = ready or staging.wait()
        group = staging.next_of(ready)
        if group:
            multiplier.some_pairs(group, outputs)
            staging.release(group)
            ready = ready[len(group) :]
    return multiplier.combine(outputs)


def in_ascending_order(staging: Staging, multiplier: Multiplier, experts: list[int]) -> Floats:
    y = multiplier.zeros()
    done = 0
    while done < len(experts):
        staging.check_cancelled()
        staging.start_reads()
        group = staging.ready_from(experts, done)
        if group:
            multiplier.accumulate(group, y)
            staging.release(group)
            done += len(group)
        elif staging.in_flight:
            staging.wait()
        else:
            staging.give_up_last()
    return y
