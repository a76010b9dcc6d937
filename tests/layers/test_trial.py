"""Times and guesses made up: what is decided from them is the same each time."""

import pytest

from colibri.experts.base import Guesses
from colibri.layers import trial
from colibri.layers.trial import Trial

GOOD = Guesses(missing=10, guessed=8, right=5)


def watch(subject, guesses=GOOD):
    for _ in range(trial.WATCH_STEPS):
        assert subject.way == "watch"
        subject.add(1, 1.0, guesses)


def compare(subject, idle, read, rows=1):
    ways = []
    for _ in range(trial.WINDOWS * trial.WINDOW_STEPS):
        ways.append(subject.way)
        subject.add(rows, read if subject.way == "read" else idle, Guesses())
    return ways


def ready_to_compare(guesses=GOOD):
    subject = Trial()
    watch(subject, guesses)
    subject.add(1, 1.0, Guesses())  # the first tells the number of rows
    return subject


@pytest.mark.parametrize(
    "guesses",
    [
        Guesses(),  # all is resident
        Guesses(missing=0, guessed=9, right=0),
        Guesses(missing=40, guessed=8, right=8),  # hardly any guessed
        Guesses(missing=10, guessed=40, right=9),  # hardly any right
    ],
)
def test_guesses_that_promise_nothing_are_not_tried(guesses):
    subject = Trial()
    watch(subject, guesses)
    assert (subject.way, subject.pays) == ("idle", False)


def test_good_guesses_are_compared_in_windows_in_turn():
    subject = ready_to_compare()
    ways = compare(subject, 1.0, 0.9)
    windows = [set(ways[i : i + trial.WINDOW_STEPS]) for i in range(0, len(ways), 10)]
    assert windows == [{"idle"}, {"read"}] * (trial.WINDOWS // 2)
    assert (subject.way, subject.pays) == ("read", True)


@pytest.mark.parametrize("read", [0.99, 1.0, 1.5])
def test_what_is_not_clearly_faster_is_left(read):
    subject = ready_to_compare()
    compare(subject, 1.0, read)
    assert (subject.way, subject.pays) == ("idle", False)


def test_outliers_and_the_steps_after_a_change_do_not_decide():
    subject = ready_to_compare()
    for i in range(trial.WINDOWS * trial.WINDOW_STEPS):
        usual = 0.9 if subject.way == "read" else 1.0
        odd = i % trial.WINDOW_STEPS in (0, 1, 5)
        subject.add(1, 50.0 if odd and subject.way == "read" else usual, Guesses())
    assert subject.pays


def test_a_yes_is_compared_again_later():
    subject = ready_to_compare()
    compare(subject, 1.0, 0.9)
    for _ in range(trial.HOLD_STEPS):
        assert subject.way == "read"
        subject.add(1, 1.0, GOOD)
    assert compare(subject, 1.0, 1.1)[0] == "idle"
    assert not subject.pays


def test_each_no_holds_twice_as_long_and_then_is_watched_again():
    subject = Trial()
    for hold in (512, 1024, 2048, 4096, 8192, 8192):
        watch(subject, Guesses())
        for _ in range(hold):
            assert subject.way == "idle"
            subject.add(1, 1.0, Guesses())
        assert subject.way == "watch"


def test_another_number_of_rows_begins_the_comparison_anew():
    subject = ready_to_compare()
    for _ in range(trial.WINDOW_STEPS + 5):
        subject.add(1, 1.0, Guesses())
    assert subject.way == "read"
    subject.add(4, 9.0, Guesses())
    assert subject.way == "idle"
    compare(subject, 9.0, 8.0, rows=4)
    assert subject.pays
