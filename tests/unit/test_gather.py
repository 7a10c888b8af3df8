"""Calls are numbered by their question, and leave in groups."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from batchwright import ConfigurationError, Gathering
from batchwright._clock import SystemClock, use_clock
from batchwright._gather import Call, Gatherer
from batchwright._samples import Samples
from batchwright.testing._store_desk import question


class ByHand(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self):
        super().__init__()
        self.time = 0.0
        self._sleepers = []

    def monotonic(self):
        return self.time

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time + seconds, woken))
        await woken

    async def move(self, seconds):
        """Let time pass, and let those run whose time has come."""
        await asyncio.sleep(0)
        self.time += seconds
        for due, woken in self._sleepers:
            if due <= self.time and not woken.done():
                woken.set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def clock():
    """A clock moved by the test, in force."""
    clock = ByHand()
    with use_clock(clock):
        yield clock


def call(number: int) -> Call:
    return Call(question(number), asyncio.get_running_loop().create_future())


def gatherer(**rules: float) -> tuple[Gatherer, list[list[int]]]:
    """Return a gatherer, and the positions that have left by group."""
    left: list[list[int]] = []
    rules = {"size": 100, "quiet": 5.0, "longest": 60.0, **rules}
    leave = lambda calls: left.append([call.row.position for call in calls])  # noqa: E731
    return Gatherer(Gathering(**rules), leave), left


async def test_a_group_leaves_when_it_is_quiet(clock):
    """Each call puts the departure off; the next one after it begins a group of its own."""
    gather, left = gatherer()
    for number in range(3):
        gather.add(call(number))
        await clock.move(4.0)
    assert left == []
    await clock.move(1.0)
    assert left == [[0, 1, 2]]
    gather.add(call(3))
    await clock.move(5.0)
    assert left == [[0, 1, 2], [3]]


async def test_a_group_leaves_at_the_latest_after_its_time(clock):
    """A trickle of calls does not hold the first one up for ever."""
    gather, left = gatherer(longest=10.0)
    for number in range(4):
        gather.add(call(number))
        await clock.move(3.0)
    assert left == [[0, 1, 2, 3]]


async def test_a_group_leaves_when_it_is_full(clock):
    """The size counts, and the time begins anew for what comes then."""
    gather, left = gatherer(size=2)
    for number in range(3):
        gather.add(call(number))
    assert left == [[0, 1]]
    await clock.move(5.0)
    assert left == [[0, 1], [2]]


async def test_what_nobody_waits_for_stays_behind(clock):
    """Calls that were cancelled before the departure are not among those that leave."""
    gather, left = gatherer()
    calls = [call(number) for number in range(3)]
    for one in calls:
        gather.add(one)
    calls[1].answer.cancel()
    gather.flush()
    gather.flush()
    assert left == [[0, 2]]
    gather.add(call(3))
    with contextlib.suppress(IndexError):
        gather._calls[0].answer.cancel()
    await clock.move(5.0)
    assert left == [[0, 2]]


@pytest.mark.parametrize("wrong", [{"size": 0}, {"quiet": -1}, {"longest": "long"}])
def test_gathering_checks_itself(wrong):
    """A wrong rule is named."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Gathering(**wrong)


def test_samples_are_numbered_by_question():
    """The same question counts on, another one from 1."""
    samples = Samples()
    assert [samples.take(b"a"), samples.take(b"a"), samples.take(b"b")] == [1, 2, 1]


def test_a_number_without_an_answer_is_given_again():
    """The lowest first; only then a new one."""
    samples = Samples()
    for _ in range(3):
        samples.take(b"a")
    samples.give_back(b"a", 3)
    samples.give_back(b"a", 1)
    assert [samples.take(b"a") for _ in range(3)] == [1, 3, 4]
