"""
What a run hands back: answers by the caller's ids, in input order, and everything that is not one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsIndex, overload

from batchwright._export import Written, write_lines
from batchwright._threads import run_blocking
from batchwright.errors import ConfigurationError, IncompleteRun
from batchwright.store import CheckpointStore, Row
from batchwright.types import Outcome, Status

if TYPE_CHECKING:
    from anthropic.types import Message

    from batchwright.report import RunReport

#: Rows read from the store at once.
PAGE = 1_000
#: Without `collect`, so many outcomes of each kind that is not an answer are still kept.
KEPT_WITHOUT_COLLECT = 10_000


class Outcomes(tuple[Outcome, ...]):  # noqa: SLOT001 - it keeps an index beside its items
    """Outcomes in input order; also found by the caller's id: `outcomes["doc-17"]`."""

    _index: dict[str, Outcome]

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Outcome: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Outcome, ...]: ...
    @overload
    def __getitem__(self, key: str, /) -> Outcome: ...
    def __getitem__(self, key: SupportsIndex | slice | str, /) -> Outcome | tuple[Outcome, ...]:
        """Return an outcome by place or by id, or a slice."""
        if isinstance(key, str):
            return self.by_id[key]
        return super().__getitem__(key)

    @property
    def by_id(self) -> Mapping[str, Outcome]:
        """The outcomes by the caller's ids, in input order."""
        if not hasattr(self, "_index"):
            self._index = {outcome.id: outcome for outcome in self}
        return self._index


class Messages(Mapping[str, "Message"]):
    """The accepted answers by the caller's ids, in input order, each parsed when asked for."""

    def __init__(self, succeeded: Mapping[str, Outcome]) -> None:
        self._succeeded = succeeded

    def __getitem__(self, item_id: str) -> Message:
        """Return the answer to item *item_id*."""
        message = self._succeeded[item_id].message
        assert message is not None, "a succeeded outcome has a message"
        return message

    def __iter__(self) -> Iterator[str]:
        """Yield the ids in input order."""
        return iter(self._succeeded)

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self._succeeded)

    def __repr__(self) -> str:
        return f"<{len(self)} messages>"


class OutcomeReader:
    """Reads the outcomes of a run from its store, page by page, opening it where it is closed."""

    def __init__(
        self,
        store: Callable[[], CheckpointStore],
        run_id: str,
        *,
        intake: int | None,
        open_reason: str,
        closes: bool,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._intake = intake
        self._open_reason = open_reason
        self._closes = closes

    async def read(self) -> AsyncIterator[Outcome]:
        """Yield every outcome in input order."""
        store = self._store()
        await store.open()
        try:
            async for row in pages(store, self._run_id, intake=self._intake):
                yield told(row, self._open_reason)
        finally:
            if self._closes:
                await store.close()


async def pages(
    store: CheckpointStore,
    run_id: str,
    *,
    intake: int | None = None,
    reason: str | None = None,
    succeeded: bool = True,
    raw: bool = True,
) -> AsyncIterator[Row]:
    """Yield the rows of a run in input order; no cursor stays open between two pages."""
    after = -1
    while page := await store.read_rows(
        run_id, after, PAGE, intake=intake, reason=reason, succeeded=succeeded, raw=raw
    ):
        for row in page:
            yield row
        after = page[-1].position


def told(row: Row, open_reason: str) -> Outcome:
    """Return the row's outcome; what still waits or travels is told with *open_reason*."""
    if row.outcome.status == "unresolved" and row.outcome.reason is None:
        return replace(row.outcome, reason=open_reason)
    return row.outcome


class RunResult:
    """
    What became of every item that was passed.

    Attributes:
        report: The `RunReport` of the whole run; `.model_dump_json()` writes it.
        counts: Items passed, by outcome.
        stopped: Why the wave stopped early (an account fault, say); empty when it did not.
    """

    def __init__(
        self,
        *,
        report: RunReport,
        reader: OutcomeReader,
        outcomes: Sequence[Outcome] | None,
        counts: Mapping[Status, int],
        apart: Sequence[Outcome],
        stopped: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.report = report
        self.counts = counts
        self.stopped = stopped
        self._reader = reader
        self._outcomes = None if outcomes is None else Outcomes(outcomes)
        self._apart = apart

    @property
    def outcomes(self) -> Outcomes:
        """All outcomes in input order; `outcomes["doc-17"]` finds one by its id."""
        if self._outcomes is None:
            raise ConfigurationError(
                "this result was made with collect=False and keeps no answers in memory; read "
                "them with `async for outcome in result` or write them with to_jsonl(path)"
            )
        return self._outcomes

    @functools.cached_property
    def messages(self) -> Messages:
        """The accepted answers by the caller's ids, in input order."""
        return Messages({o.id: o for o in self.outcomes if o.status == "succeeded"})

    @property
    def quarantined(self) -> tuple[Outcome, ...]:
        """Items that are themselves at fault."""
        return self._of("quarantined")

    @property
    def rejected(self) -> tuple[Outcome, ...]:
        """Answers that `validate` refused, kept raw."""
        return self._of("rejected")

    @property
    def unresolved(self) -> tuple[Outcome, ...]:
        """Items without an answer, each with the reason why."""
        return self._of("unresolved")

    @property
    def complete(self) -> bool:
        """Whether every item succeeded."""
        return sum(self.counts.values()) == self.counts["succeeded"]

    def __getitem__(self, item_id: str) -> Outcome:
        """Return the outcome of one item by the caller's id."""
        return self.outcomes.by_id[item_id]

    def __len__(self) -> int:
        """Return the number of items passed."""
        return sum(self.counts.values())

    async def __aiter__(self) -> AsyncIterator[Outcome]:
        """Yield every outcome in input order; with `collect=False` from the store, by pages."""
        if self._outcomes is not None:
            for outcome in self._outcomes:
                yield outcome
            return
        async for outcome in self._reader.read():
            yield outcome

    def __repr__(self) -> str:
        told = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count)
        return f"<RunResult {self.report.run_id!r}: {told or 'no items'}>"

    def raise_if_incomplete(self) -> None:
        """
        Raise unless every item succeeded.

        Raises:
            IncompleteRun: It carries this result, and says what is missing.
        """
        if not self.complete:
            raise IncompleteRun(self, self.summary())

    def summary(self) -> str:
        """Return one sentence that says how many items succeeded and why the others did not."""
        reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.reasons().items()))
        text = f"{self.counts['succeeded']} of {len(self)} items succeeded"
        return f"{text} ({reasons})" if reasons else text

    def reasons(self) -> dict[str, int]:
        """Return how many items did not succeed, by reason."""
        found: dict[str, int] = {}
        for outcome in self._apart:
            reason = outcome.reason or outcome.status
            found[reason] = found.get(reason, 0) + 1
        return found

    def to_jsonl(self, path: str | os.PathLike[str]) -> Written:
        """
        Write one line per item, in input order; return how many.

        The file appears under its name when it is whole. The call blocks; the answer may be
        awaited too.

        Raises:
            ConfigurationError: The file cannot be written there.
        """
        return Written(run_blocking(lambda: write_lines(aiter(self), path)))

    def _of(self, status: Status) -> tuple[Outcome, ...]:
        held = tuple(outcome for outcome in self._apart if outcome.status == status)
        if len(held) < self.counts[status]:
            raise ConfigurationError(
                f"{self.counts[status]:,} items are {status}, more than are kept in memory with "
                "collect=False; read them with `async for outcome in result`"
            )
        return held


async def collect_result(
    store: CheckpointStore,
    reader: OutcomeReader,
    report: RunReport,
    *,
    intake: int | None,
    items: int,
    open_reason: str,
    collect: bool,
    stopped: tuple[tuple[str, str], ...],
) -> RunResult:
    """Return the result of a run of *items* that has just ended, read from its open store."""
    counts: dict[Status, int] = {
        "succeeded": items,
        "quarantined": 0,
        "rejected": 0,
        "unresolved": 0,
    }
    outcomes: list[Outcome] = []
    apart: list[Outcome] = []
    # Without `collect` only what did not succeed is read: it is little, and the rest is counted.
    async for row in pages(store, report.run_id, intake=intake, succeeded=collect, raw=collect):
        outcome = told(row, open_reason)
        if collect:
            outcomes.append(outcome)
        if outcome.status != "succeeded":
            counts[outcome.status] += 1
            counts["succeeded"] -= 1
            if collect or len(apart) < KEPT_WITHOUT_COLLECT:
                apart.append(outcome)
    return RunResult(
        report=report,
        reader=reader,
        outcomes=outcomes if collect else None,
        counts=counts,
        apart=apart,
        stopped=stopped,
    )
