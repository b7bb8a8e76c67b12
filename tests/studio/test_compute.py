"""Calls made once, whoever makes them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from asyncs import apart

from railweave.errors import InputError
from railweave.studio.compute import MOST_KEPT, Calculator

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS: list[int] = []
GATE = threading.Event()


def square(value: int) -> int:
    CALLS.append(value)
    GATE.wait(10)
    return value * value


def double(value: int) -> int:
    return 2 * value


def refuse(value: int) -> int:
    CALLS.append(value)
    raise InputError(f"not {value}")


@pytest.fixture
def calculator() -> Iterator[Calculator]:
    CALLS.clear()
    GATE.set()
    calculator = Calculator()
    yield calculator
    calculator.close()


def test_equal_calls_are_made_once_even_at_once(calculator: Calculator) -> None:
    async def both() -> list[int]:
        GATE.clear()
        tasks = [asyncio.create_task(calculator(square, 7)) for _ in range(5)]
        await asyncio.sleep(0)
        GATE.set()
        return [*await asyncio.gather(*tasks), await calculator(square, 7)]

    assert apart(both()) == [49] * 6
    assert CALLS == [7]


def test_one_who_goes_away_takes_nobodys_value(calculator: Calculator) -> None:
    async def leave() -> int:
        GATE.clear()
        gone = asyncio.create_task(calculator(square, 3))
        stays = asyncio.create_task(calculator(square, 3))
        await asyncio.sleep(0)
        gone.cancel()
        GATE.set()
        return await stays

    assert apart(leave()) == 9


def test_a_refusal_is_not_kept(calculator: Calculator) -> None:
    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(InputError, match="not 5"):
                await calculator(refuse, 5)

    apart(twice())
    assert CALLS == [5, 5]


def test_the_oldest_values_are_forgotten(calculator: Calculator) -> None:
    async def many() -> None:
        for i in range(MOST_KEPT + 1):
            await calculator(square, i)
        await calculator(square, MOST_KEPT)
        await calculator(square, 0)

    apart(many())
    assert CALLS.count(MOST_KEPT) == 1
    assert CALLS.count(0) == 2


def test_what_is_known_is_told_without_working(calculator: Calculator) -> None:
    async def ask() -> list[int | None]:
        before = calculator.known(square, 6)
        GATE.clear()
        task = asyncio.create_task(calculator(square, 6))
        await asyncio.sleep(0)
        meanwhile = calculator.known(square, 6)
        GATE.set()
        await task
        with pytest.raises(InputError):
            await calculator(refuse, 5)
        return [before, meanwhile, calculator.known(square, 6), calculator.known(refuse, 5)]

    assert apart(ask()) == [None, None, 36, None]
    assert CALLS == [6, 5]


def test_what_can_wait_holds_nobody_up(calculator: Calculator) -> None:
    async def both() -> tuple[int, bool, list[int]]:
        GATE.clear()
        patient = [asyncio.create_task(calculator.later(square, value)) for value in range(8)]
        await asyncio.sleep(0)
        quick = await calculator(double, 4)
        waited = not any(task.done() for task in patient)
        GATE.set()
        return quick, waited, await asyncio.gather(*patient)

    assert apart(both()) == (8, True, [value**2 for value in range(8)])


def test_what_was_worked_out_later_is_known(calculator: Calculator) -> None:
    async def twice() -> list[int]:
        return [await calculator.later(square, 3), await calculator(square, 3)]

    assert apart(twice()) == [9, 9]
    assert CALLS == [3]
