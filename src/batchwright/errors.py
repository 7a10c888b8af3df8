"""
Every exception of the library, arranged by who must act.

    BatchwrightError
    |- IntakeError(ValueError)        the caller's items, before anything is sent
    |  |- DuplicateItem               the same id twice in one call
    |  |- ChangedItem                 a known id with another question
    |  |- MassRefusal                 most items refused for one reason
    |  |- CanaryFailed                an item tried ahead of the others was refused by the API
    |  `- OtherRun                    none of the items belongs to this run
    |- ConfigurationError(ValueError) the caller's options
    |- SubmissionUnknown              a create that may exist on the server (internal)
    |- StoreError                     the checkpoint store
    |  |- StoreBusy                   locked by somebody else for too long
    |  |- StoreCorrupt                the file is damaged
    |  |- StoreFull                   no space left
    |  |- StoreAbsent                 to be read, and not made yet
    |  |- NotWaiting                  items to be sent do not wait any more (internal)
    |  |- ShardClaimed                a worker has claimed what its conductor wanted (internal)
    |  `- SchemaTooNew                written by a newer version
    |- RunLocked                      another live process owns the run
    `- IncompleteRun                  raise_if_incomplete(): carries the result

What becomes of one item is data (`Outcome`), never an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.result import RunResult


class BatchwrightError(Exception):
    """Root of all exceptions that this library raises by itself."""


class IntakeError(BatchwrightError, ValueError):
    """The items cannot be taken as they are; nothing was sent."""


class DuplicateItem(IntakeError):
    """An item id occurs twice in one call; there is no option to wave it through."""

    def __init__(self, item_id: str, positions: tuple[int, int], others: int = 0) -> None:
        self.item_id = item_id
        self.positions = positions
        self.others = others
        more = f"; so do {others} more" if others else ""
        super().__init__(
            f"item id {item_id!r} occurs twice, at positions {positions[0]} and {positions[1]} "
            f"(counted from 0){more}. Each question needs its own id: give the second one another "
            "id, or drop it. For several samples of one question add the sample to the id, "
            f"as in {item_id + '#2'!r}. Nothing was sent."
        )


class ChangedItem(IntakeError):
    """A known id came with another question than the one stored for it."""

    def __init__(self, item_id: str, position: int, run_id: str, others: int = 0) -> None:
        self.item_id = item_id
        self.position = position
        self.run_id = run_id
        self.others = others
        more = f" (and {others} more)" if others else ""
        super().__init__(
            f"item {item_id!r} at position {position}{more} has another question than the one "
            f"stored for it in run {run_id!r}. Use another run_id for a new job, or say what is "
            'meant: on_changed="rerun" asks the new question, on_changed="keep" keeps the stored '
            "one. Nothing was sent."
        )


class MassRefusal(IntakeError):
    """More than half of the items were refused for one reason: most likely one mistake."""

    def __init__(self, reason: str, refused: int, total: int, example: str) -> None:
        self.reason = reason
        self.refused = refused
        self.total = total
        self.example = example
        super().__init__(
            f"{refused} of {total} items were refused for the same reason: {reason} "
            f"(first: item {example!r}). Nothing was sent."
        )


class CanaryFailed(IntakeError):
    """An item that was tried ahead of the others was refused by the API for what is in it."""

    def __init__(self, item_id: str, model: str, refusal: str, items: int) -> None:
        self.item_id = item_id
        self.refusal = refusal
        super().__init__(
            f"item {item_id!r} ({model}) went ahead of the others and was refused: {refusal}. "
            f"Items of its kind would have waited in a batch for the same answer, so none of the "
            f"{items:,} was sent. Mend them and run again; canary=0 sends without a trial."
        )


class OtherRun(IntakeError):
    """None of the items is known to a run that already holds others: another job."""

    def __init__(self, run_id: str, held: int, passed: int) -> None:
        self.run_id = run_id
        self.held = held
        self.passed = passed
        super().__init__(
            f"run {run_id!r} already holds {held} items, and none of the {passed} passed now is "
            "among them: this looks like another job. Choose another run_id (or another store). "
            "Nothing was sent."
        )


class ConfigurationError(BatchwrightError, ValueError):
    """An option is wrong; the message names it and what it takes."""


class SubmissionUnknown(BatchwrightError):
    """A create was sent and its answer lost: the batch may exist on the server."""


class StoreError(BatchwrightError):
    """The checkpoint store could not do what was asked."""


class StoreBusy(StoreError):
    """Another program held the store longer than the library waits."""


class StoreCorrupt(StoreError):
    """The store is damaged or is not a batchwright store."""


class StoreFull(StoreError):
    """There is no space left where the store lives."""


class NotWaiting(StoreError):
    """Items that were to be sent do not wait any more: an answer came for them meanwhile."""


class StoreAbsent(StoreError):
    """A store was to be read that no run has made yet."""


class ShardClaimed(StoreError):
    """The owner of a run may not write to a shard that a worker has claimed."""


class SchemaTooNew(StoreError):
    """The store was written by a newer version of the library."""

    def __init__(self, where: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the store {where} has schema version {found}; this version of batchwright knows up "
            f"to {known}. Upgrade batchwright, or use another store."
        )


class RunLocked(BatchwrightError):
    """Another live process owns the run."""

    def __init__(self, run_id: str, holder: str) -> None:
        self.run_id = run_id
        self.holder = holder
        super().__init__(
            f"run {run_id!r} is owned by another live process ({holder}). Wait for it, stop it, "
            "or use another run_id; `batchwright status` shows how far it is. Nothing was sent."
        )


class IncompleteRun(BatchwrightError):
    """Some items have no accepted answer; `result` holds everything there is."""

    def __init__(self, result: RunResult, summary: str) -> None:
        self.result = result
        super().__init__(summary)
