"""
The caller's `validate`, applied to answers before they are stored.

Answers that do not validate are set apart and kept raw, never coerced. A validator that breaks is
not a rejection: the answer is stored, and the next resume judges it again without a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
import pydantic

from batchwright._context import Judge, RunContext, outcome_of
from batchwright.errors import ConfigurationError
from batchwright.events import ValidatorBroke
from batchwright.store import ItemState, Member, Settlement
from batchwright.types import ItemError, Outcome

#: What takes an answer, or is a model that parses its text.
Validate: TypeAlias = (
    Callable[[Outcome], Any] | type[pydantic.BaseModel] | pydantic.TypeAdapter[Any]
)

#: Most calls of an asynchronous validator at once, per batch that is being read.
CONCURRENCY = 32


def make_judge(validate: Validate | None) -> Judge | None:
    """
    Return `validate` in its uniform form.

    It refuses by returning `False` or raising `ValueError` (a pydantic validation error is one).
    It may be synchronous or asynchronous; a pydantic model class parses the text as JSON.

    Raises:
        ConfigurationError: It is neither callable nor a model.
    """
    if validate is None:
        return None
    if isinstance(validate, type) and issubclass(validate, pydantic.BaseModel):
        return _judge_by(lambda outcome: validate.model_validate_json(_written(outcome)))
    if isinstance(validate, pydantic.TypeAdapter):
        return _judge_by(lambda outcome: validate.validate_json(_written(outcome)))
    if callable(validate):
        return _judge_by(validate)
    raise ConfigurationError(
        f"validate must be a callable that takes an Outcome, or a pydantic model, not {validate!r}"
    )


def _written(outcome: Outcome) -> str:
    """Return the text that a model parses; an answer by tool is told apart from a bad one."""
    text = outcome.text
    if not text and outcome.stop_reason == "tool_use":
        raise ValueError(
            "the answer uses a tool and has no text, which is what a model parses; give validate "
            "a function that looks at outcome.message.content"
        )
    return text


def _judge_by(validate: Callable[[Outcome], Any]) -> Judge:
    async def judge(outcome: Outcome) -> str | None:
        try:
            verdict = validate(outcome)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except ValueError as error:
            return str(error) or type(error).__name__
        return "validate returned False" if verdict is False else None

    return judge


async def judge_settlements(
    ctx: RunContext, members: Mapping[int, Member], settlements: Sequence[Settlement]
) -> list[Settlement]:
    """Return *settlements* with every answer judged; the others pass unchanged."""
    if ctx.judge is None:
        return list(settlements)
    # Kept for another judgement until it is judged: a validator may be cancelled from within.
    judged = [
        _unjudged(said) if said.state is ItemState.SUCCEEDED else said for said in settlements
    ]
    limiter = anyio.CapacityLimiter(CONCURRENCY)

    async def one(place: int) -> None:
        async with limiter:
            answer = settlements[place]
            judged[place] = await judge_one(ctx, members[answer.seq], answer)

    async with anyio.create_task_group() as tasks:
        for place, settlement in enumerate(settlements):
            if settlement.state is ItemState.SUCCEEDED:
                tasks.start_soon(one, place)
    return judged


def _unjudged(answer: Settlement) -> Settlement:
    kept = ItemError(type="validator", message="validate was cancelled before it had judged")
    return replace(answer, state=ItemState.UNRESOLVED, reason="validator", error=kept)


async def judge_one(ctx: RunContext, member: Member, answer: Settlement) -> Settlement:
    """Return *answer* as it is, rejected, or kept for another judgement."""
    assert ctx.judge is not None
    outcome = outcome_of(member, answer)
    try:
        refusal = await ctx.judge(outcome)
    except Exception as error:
        ctx.emit(ValidatorBroke(run_id=ctx.run_id, item=member.id, error=repr(error)))
        kept = ItemError(type=type(error).__name__, message=str(error))
        return replace(answer, state=ItemState.UNRESOLVED, reason="validator", error=kept)
    if refusal is None:
        return answer
    why = ItemError(type="rejected", message=refusal)
    if ctx.retry_rejected and member.used + 1 < ctx.retry.max_attempts:
        return replace(answer, state=ItemState.PENDING, reason="rejected", error=why)
    return replace(answer, state=ItemState.REJECTED, reason="rejected", error=why)
