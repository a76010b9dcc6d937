"""`--ram`: asked for, a share, or what is really available."""

import pytest

from colibri.errors import CapacityError
from colibri.hardware.neighbours import Neighbour
from colibri.planner.budget import Machine, resolve_budget

GB = 10**9
OTHER = Neighbour(77, 3 * GB, "coli chat")
MACHINE = Machine(total_bytes=16 * GB, available_bytes=8 * GB, rss_bytes=100_000_000)
SHARED = Machine(16 * GB, 8 * GB, 100_000_000, (OTHER,))


@pytest.mark.parametrize(
    ("ram", "nbytes", "reason"),
    [
        (
            "auto",
            7_300_000_000,
            "90% of the 8,000 MB that are free, plus what the process already uses",
        ),
        ("6GB", 6 * GB, "--ram 6GB"),
        ("25%", 4 * GB, "--ram 25% of 16,000 MB"),
        ("100%", 16 * GB, "--ram 100% of 16,000 MB"),
    ],
)
def test_what_is_asked_for(ram: str, nbytes: int, reason: str) -> None:
    budget = resolve_budget(ram, MACHINE)
    assert (budget.nbytes, budget.reason) == (nbytes, reason)


def test_more_than_there_is() -> None:
    with pytest.raises(CapacityError, match="17,000 MB, more than the 16,000 MB"):
        resolve_budget("17GB", MACHINE)


def test_more_than_is_free_is_said() -> None:
    assert resolve_budget("8GB", MACHINE).notes == ()
    (note,) = resolve_budget("9GB", MACHINE).notes
    assert "9,000 MB is more than the 8,100 MB that are free now:" in note
    (note,) = resolve_budget("9GB", SHARED).notes
    assert "another colibri process holds 3,000 MB (pid 77)" in note


def test_another_process_is_why_auto_is_small() -> None:
    """B100."""
    (note,) = resolve_budget("auto", SHARED).notes
    assert "another colibri process holds 3,000 MB (pid 77)" in note
    assert "--assume-free" in note
    assert resolve_budget("6GB", SHARED).notes == ()


def test_one_that_holds_little_is_not_worth_a_note() -> None:
    small = Machine(16 * GB, 8 * GB, 0, (Neighbour(7, 80_000_000, "coli chat"),))
    assert resolve_budget("auto", small).notes == ()


def test_many_processes_are_counted_together() -> None:
    many = tuple(Neighbour(pid, GB, "coli chat") for pid in range(1, 8))
    (note,) = resolve_budget("auto", Machine(16 * GB, 8 * GB, 0, many)).notes
    assert "other colibri processes hold 7,000 MB (pid 1, 2, 3, 4, 5 and 2 more)" in note


def test_assuming_that_they_have_ended() -> None:
    free = SHARED.assuming_free()
    assert (free.available_bytes, free.neighbours) == (11 * GB, ())
    large = Machine(16 * GB, 15 * GB, 0, (OTHER,))
    assert large.assuming_free().available_bytes == 16 * GB
