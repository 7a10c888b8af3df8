"""Answers that are more than text: tools used, schemas followed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.support import params, runner_on

from batchwright import Outcome
from batchwright.simulator import WorldSettings
from batchwright.testing import simulate

#: Above this a direct answer is streamed, and put together by the SDK.
STREAMED = 40_000


class Verdict(BaseModel):
    """What a judge has to say."""

    score: int


BLOCKS = [
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "toolu_1", "name": "record", "input": {"score": 4, "why": ["a", 1]}},
]


def recorded(outcome: Outcome) -> dict[str, Any]:
    """Return what the tool was given."""
    assert outcome.message is not None
    return next(b.input for b in outcome.message.content if b.type == "tool_use")


@pytest.mark.parametrize(
    ("policy", "max_tokens"),
    [("batch", 64), ("sync", 64), ("sync", STREAMED)],
    ids=["batch", "direct", "streamed"],
)
async def test_the_use_of_a_tool_is_read_the_same_way_on_every_path(policy, max_tokens):
    """`message` is the SDK's; `text` is the text blocks alone, and a function can validate it."""
    seen: list[str] = []

    def check(outcome: Outcome) -> bool:
        seen.append(outcome.id)
        return recorded(outcome)["score"] == 4

    settings = WorldSettings(answer=lambda asked: BLOCKS)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=policy, validate=check) as runner,
    ):
        result = await runner.run([("a", params("judge", max_tokens=max_tokens))])
    outcome = result["a"]
    assert (outcome.status, outcome.text, outcome.stop_reason) == (
        "succeeded",
        "Let me see.",
        "tool_use",
    )
    assert recorded(outcome) == {"score": 4, "why": ["a", 1]}
    assert seen == ["a"]


async def test_a_model_says_why_it_cannot_judge_the_use_of_a_tool():
    """R26: nothing is coerced: where there is no text to parse, the remedy is told instead."""
    settings = WorldSettings(answer=lambda asked: BLOCKS[1:])
    async with simulate(settings=settings) as sim, runner_on(sim, validate=Verdict) as runner:
        result = await runner.run([("a", params("judge"))])
    (outcome,) = result.rejected
    assert outcome.text == ""
    assert "outcome.message.content" in outcome.error.message
    assert recorded(outcome)["score"] == 4
