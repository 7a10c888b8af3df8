"""
Asking the API what costs nothing: what stands about models, and how many tokens requests have.

Everything here may fail without harm: what could not be asked is told and estimated otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson

from batchwright._api import CallFailed, Reply
from batchwright._faults import Failure, Fault, classify
from batchwright._json import dump_json, load_json
from batchwright._org import OrgLink
from batchwright._plan.sample import Kept, Stratum

#: Seconds for all questions together.
PATIENCE = 60.0
#: Tries of one question; its answer is worth no long wait.
ATTEMPTS = 3
#: Questions under way at once.
ABREAST = 4
#: Requests that are counted: a few dozen tell the ratio, and the endpoint has limits of its own.
COUNTED = 40
#: Faults in a row after which nothing more is counted.
GIVE_UP = 5

#: What the endpoint takes of a request; it refuses the rest.
_COUNTABLE = (
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNews:
    """
    What the API says about a model.

    Attributes:
        standing: `active`, `deprecated`, `retired`, or `unknown` where it knows no such model.
        retires: When it is retired, where that is planned.
        ceiling: The most tokens that it gives.
        batches: Whether it can be used in batches.
    """

    standing: str
    retires: str | None = None
    ceiling: int | None = None
    batches: bool = True


@dataclass(slots=True)
class Answers:
    """
    What could be learned.

    Attributes:
        models: By the name that the items use.
        counted: How many requests were counted; what came of it stands with their shapes.
        accounts: Faults of accounts, by the label of the org.
        failure: The last other failure.
    """

    models: dict[str, ModelNews] = field(default_factory=dict)
    counted: int = 0
    accounts: dict[str, Failure] = field(default_factory=dict)
    failure: Failure | None = None
    _failed: int = 0

    @property
    def done(self) -> bool:
        """Whether asking on makes no sense."""
        return bool(self.accounts) or self._failed >= GIVE_UP

    def failed(self, org: str, failure: Failure) -> None:
        """Note a question to *org* without an answer."""
        if classify(failure) is Fault.ACCOUNT:
            self.accounts[org] = failure
        else:
            self.failure = failure
            # Where nobody answers at all, nobody will in a moment.
            self._failed += 1 if failure.status is not None else GIVE_UP

    def answered(self) -> None:
        """Note a question with an answer."""
        self._failed = 0


class Inquiry:
    """The free questions of one plan, to one org."""

    def __init__(self, org: OrgLink) -> None:
        self._org = org
        self.answers = Answers()

    async def ask(self, models: Iterable[str], chosen: Iterable[tuple[Stratum, Kept]]) -> Answers:
        """Ask about *models*, and for the tokens of the *chosen* requests."""
        with anyio.move_on_after(PATIENCE):
            for model in models:
                if not self.answers.done:
                    await self._ask_model(model)
            await self._count(list(chosen))
        return self.answers

    async def _ask_model(self, name: str) -> None:
        try:
            reply = await self._org.call(
                "model", lambda: self._org.gateway.model(name), attempts=ATTEMPTS
            )
        except CallFailed as failed:
            failure = failed.failure
            if classify(failure) is Fault.NOT_FOUND and failure.envelope:
                self.answers.models[name] = ModelNews(standing="unknown")
            else:
                self.answers.failed(self._org.label, failure)
            return
        self.answers.answered()
        self.answers.models[name] = _news(reply.data)

    async def _count(self, chosen: list[tuple[Stratum, Kept]]) -> None:
        chosen.reverse()

        async def worker() -> None:
            while chosen and not self.answers.done:
                await self._count_one(*chosen.pop())

        async with anyio.create_task_group() as tasks:
            for _ in range(ABREAST):
                tasks.start_soon(worker)

    async def _count_one(self, stratum: Stratum, kept: Kept) -> None:
        body = countable(kept.body)
        headers = orjson.loads(kept.headers) if kept.headers else {}

        async def count() -> Reply:
            return await self._org.gateway.count_tokens(body, headers)

        try:
            reply = await self._org.call("count_tokens", count, attempts=ATTEMPTS)
        except CallFailed as failed:
            # A request that the API does not take is told by the run; here it counts nothing.
            self.answers.failed(self._org.label, failed.failure)
            return
        tokens = reply.data.get("input_tokens")
        if isinstance(tokens, int):
            self.answers.answered()
            self.answers.counted += 1
            stratum.counted.append((len(kept.body), tokens))


def countable(body: bytes) -> bytes:
    """Return what the endpoint that counts tokens takes of a request."""
    params = load_json(body)
    return dump_json({key: params[key] for key in _COUNTABLE if key in params})


def _news(data: Mapping[str, Any]) -> ModelNews:
    lifecycle, ends = data.get("lifecycle"), data.get("retires_at")
    ceiling = data.get("max_tokens")
    capabilities = data.get("capabilities")
    batch = capabilities.get("batch") if isinstance(capabilities, dict) else None
    supported = batch.get("supported") if isinstance(batch, dict) else None
    return ModelNews(
        standing=lifecycle if isinstance(lifecycle, str) else "active",
        retires=ends[:10] if isinstance(ends, str) else None,
        ceiling=ceiling if isinstance(ceiling, int) else None,
        batches=supported is not False,
    )
