"""Prices are GPU-hours times the price of one; idle parts add up to what was idle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.predict.cost import price_run, run_length


def test_a_step_and_a_run():
    length = run_length(4e6, steps=1000)
    cost = price_run(1024, 9.0, 2.5, length=length, idle_s={"bubble": 0.9})
    assert cost.step_price == pytest.approx(1024 * 9 / 3600 * 2.5)  # 6.4 money
    assert cost.run_price == pytest.approx(6400.0)
    assert cost.run_s == 9000.0
    assert cost.run_gpu_hours == pytest.approx(2560.0)
    assert cost.lost["bubble"] == pytest.approx(0.64)
    assert cost.run_lost["bubble"] == pytest.approx(640.0)


def test_tokens_are_whole_steps():
    length = run_length(4e6, tokens=15e12)
    assert length.steps == 3_750_000
    assert run_length(4e6, tokens=4e6 + 1).steps == 2
    assert run_length(4e6, tokens=4e6 + 1).tokens == 8e6


def test_without_a_length_only_the_step_is_priced():
    cost = price_run(8, 1.0, 2.0, length=run_length(1.0), idle_s={"input": 1.0})
    assert (cost.run_price, cost.run_s, cost.run_gpu_hours, dict(cost.run_lost)) == (
        None,
        None,
        None,
        {},
    )


@given(
    st.integers(1, 10**5),
    st.floats(1e-3, 1e3),
    st.floats(0, 100),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_idle_parts_are_their_share_of_the_step(gpus, step_s, price, shares):
    total = sum(shares) or 1.0
    idle = {str(i): step_s * share / total for i, share in enumerate(shares)}
    cost = price_run(gpus, step_s, price, idle_s=idle)
    assert sum(cost.lost.values()) <= cost.step_price * (1 + 1e-9) + 1e-12
    assert cost.step_price == pytest.approx(gpus * step_s * price / 3600)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: run_length(1.0, steps=1, tokens=1.0), "leave the other out"),
        (lambda: run_length(1.0, steps=0), "1 or more"),
        (lambda: run_length(1.0, tokens=0.0), "more than 0"),
        (lambda: run_length(1.0, tokens=float("nan")), "more than 0"),
        (lambda: price_run(8, 1.0, -1.0), "0 or more"),
        (lambda: price_run(8, 1.0, float("inf")), "0 or more"),
    ],
)
def test_what_means_nothing_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
