"""The simulated API as a pure state machine on a clock: no network, no tasks, no real time.

State is not advanced by anything that ticks. Each question is answered for the moment at which
it is asked, so a world of any age costs nothing while nobody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchwright.simulator._seeded import api_id, between
from batchwright.simulator._time import ScaledClock, WorldClock
from batchwright.simulator.access import Access, admit, workspace_headers
from batchwright.simulator.answers import read_prompt
from batchwright.simulator.batches import Batch
from batchwright.simulator.books import Books, close_books
from batchwright.simulator.direct import direct_answer
from batchwright.simulator.draft import Draft
from batchwright.simulator.fates import Fate, FateBook, Selector
from batchwright.simulator.lines import result_lines
from batchwright.simulator.listing import list_page
from batchwright.simulator.params import Rules
from batchwright.simulator.problems import invalid, not_found
from batchwright.simulator.quotas import TokenBucket, check_queue, check_spend
from batchwright.simulator.settings import WorldSettings


class World:
    """Everything the server knows.

    Args:
        seed: Decides ids, durations, orders and draws. The same seed and the same requests
            give the same answers, in whatever order the requests arrive.
        clock: World time; default runs with real time.
        settings: The switches; may be replaced at any time and holds for what comes after.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        clock: WorldClock | None = None,
        settings: WorldSettings | None = None,
    ) -> None:
        self.seed = seed
        self.clock: WorldClock = clock or ScaledClock()
        self.settings: WorldSettings = settings or WorldSettings()
        self.batches: dict[str, Batch] = {}
        self.direct: dict[str, int] = {}
        self._book = FateBook()
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._repeats: dict[str, int] = {}

    def now(self) -> float:
        """Return the world's time in seconds since the Unix epoch."""
        return self.clock.now()

    # --- scripting -----------------------------------------------------------------------

    def fate_for(self, selector: Selector, fate: Fate | Sequence[Fate]) -> None:
        """Lay down what becomes of certain requests.

        Args:
            selector: A custom id or the stem of custom ids (`stem-code`), a prefix ending in
                `*`, or a callable on the custom id.
            fate: One fate for every attempt, or a list: one for each attempt in turn; after
                the last the world's rates decide again.
        """
        self._book.add(selector, fate)

    def finish(self, batch_id: str) -> None:
        """Let a batch end at this moment, even one that is stuck."""
        batch = self.batches[batch_id]
        batch.settings = replace(batch.settings, stuck=False, never_ends=False)
        batch.ends_at = min(batch.ended_at(), self.now())
        batch.busy_until = min(batch.busy_until, batch.ends_at)
        if batch.canceled_end is not None:
            batch.canceled_end = batch.ends_at

    def configure(self, **changes: Any) -> None:
        """Turn switches of `WorldSettings` by name, for what comes after."""
        self.settings = replace(self.settings, **changes)

    def books(self) -> Books:
        """Return what was sent, what lives and what was billed, as of now."""
        return close_books(self.batches.values(), self.direct, self.now())

    # --- the door ------------------------------------------------------------------------

    def admit(self, headers: Mapping[str, str]) -> Access:
        """Check the headers of a call; names in lower case."""
        return admit(headers, self.settings, self.seed)

    def meter(self, access: Access, family: str) -> None:
        """Count a call against its workspace's requests per minute (`batches`, `messages`)."""
        self._bucket(access, family).take(self.now())

    def answer_headers(self, access: Access, family: str) -> dict[str, str]:
        """Return the headers that every answer to this caller carries."""
        headers = workspace_headers(access.workspace, self.seed)
        headers |= self._bucket(access, family).headers(self.now())
        if family == "messages" and self.settings.message_tpm is not None:
            headers |= self._bucket(access, "input-tokens").headers(self.now())
        return headers

    def _bucket(self, access: Access, family: str) -> TokenBucket:
        settings = self.settings
        what = "input-tokens" if family == "input-tokens" else "requests"
        bucket = self._buckets.setdefault((access.workspace, family), TokenBucket(None, None, what))
        # Set anew each time, because a test may turn the switches as it goes.
        bucket.rpm = {
            "batches": settings.rpm,
            "messages": settings.message_rpm,
            "input-tokens": settings.message_tpm,
        }[family]
        bucket.burst = None if what == "input-tokens" else settings.burst
        return bucket

    # --- batches -------------------------------------------------------------------------

    def draft(self, access: Access) -> Draft:
        """Begin a create; add each request, then `register` the draft."""
        rules = Rules(version=access.version, betas=access.betas, models=self.settings.models)
        return Draft(settings=self.settings, seed=self.seed, rules=rules, book=self._book)

    def create(self, access: Access, requests: Iterable[object]) -> Batch:
        """Create a batch from the values of `requests` in one go."""
        draft = self.draft(access)
        for request in requests:
            draft.add(request)
        return self.register(access, draft)

    def register(self, access: Access, draft: Draft) -> Batch:
        """Turn a draft into a batch.

        Raises:
            ApiProblem: 400 for a faulty envelope, 429 for a full queue or a spending cap;
                nothing is created then.
        """
        draft.finish()
        now = self.now()
        check_spend(self.settings.spend)
        check_queue(self._queued(access, now), len(draft.requests), self.settings.max_queued)
        batch = self._new_batch(access, draft, now)
        self._book.attempts.update(draft.stems)
        assert batch.id not in self.batches, "ids are unique"
        self.batches[batch.id] = batch
        return batch

    def _queued(self, access: Access, now: float) -> int:
        if self.settings.max_queued is None:
            return 0
        mine = (b for b in self.batches.values() if b.workspace == access.workspace)
        return sum(len(batch.requests) for batch in mine if batch.status(now) != "ended")

    def _new_batch(self, access: Access, draft: Draft, now: float) -> Batch:
        # Named by its content, not by its turn: arrival order must not change any draw.
        name = f"{access.workspace} {draft.requests[0].custom_id} {len(draft.requests)}"
        repeat = self._repeats[name] = self._repeats.get(name, 0) + 1
        busy_until = now + self._duration(draft, f"{name} {repeat}")
        never = self.settings.never_ends or draft.never_ends
        return Batch(
            id=api_id("msgbatch", self.seed, name, repeat),
            workspace=access.workspace,
            created_at=now,
            expires_at=now + self.settings.lifetime,
            busy_until=busy_until,
            ends_at=float("inf") if never else busy_until,
            requests=draft.requests,
            settings=self.settings,
            seed=self.seed,
            tally=draft.tally,
        )

    def _duration(self, draft: Draft, name: str) -> float:
        duration = self.settings.duration
        if callable(duration):
            return duration(len(self.batches) + 1, len(draft.requests))
        return between(*duration, self.seed, name, "duration")

    def find(self, access: Access, batch_id: str) -> Batch:
        """Return a batch that this caller may see.

        Raises:
            ApiProblem: 404; deleted, not yet visible and other workspaces' batches are not
                told apart from those that never were.
        """
        batch = self.batches.get(batch_id)
        if batch is None or batch.workspace != access.workspace or not self._visible(batch):
            raise not_found(f"Message Batch {batch_id} not found.")
        return batch

    def _visible(self, batch: Batch) -> bool:
        visible_at = batch.created_at + self.settings.visible_after
        return not batch.deleted and self.now() >= visible_at

    def list(self, access: Access, query: Mapping[str, str], base_url: str) -> dict[str, Any]:
        """Return a page of the workspace's batches, newest first.

        Args:
            access: Who asks.
            query: `limit`, `after_id`, `before_id` as sent.
            base_url: Of the results URLs.
        """
        mine = [b for b in self.batches.values() if b.workspace == access.workspace]
        newest_first = [batch for batch in reversed(mine) if self._visible(batch)]
        return list_page(newest_first, query, self.now(), base_url)

    def cancel(self, access: Access, batch_id: str) -> Batch:
        """Begin to cancel; a repeated cancel changes nothing.

        Raises:
            ApiProblem: 400 when it has ended (switch `cancel_ended_ok`), 404.
        """
        batch, now = self.find(access, batch_id), self.now()
        status = batch.status(now)
        if status == "ended" and not self.settings.cancel_ended_ok:
            raise invalid(f"Message Batch {batch_id} has already ended and cannot be canceled.")
        if status == "in_progress":
            wait = between(*self.settings.cancel_seconds, self.seed, batch_id, "cancel")
            batch.begin_cancel(now, now + wait)
        return batch

    def delete(self, access: Access, batch_id: str) -> dict[str, str]:
        """Delete an ended batch.

        Raises:
            ApiProblem: 400 when it has not ended, 404.
        """
        batch = self.find(access, batch_id)
        if batch.status(self.now()) != "ended":
            raise invalid(
                "In progress batches cannot be deleted. Consider canceling the batch instead."
            )
        batch.deleted = True
        return {"id": batch_id, "type": "message_batch_deleted"}

    def results(self, access: Access, batch_id: str) -> Iterator[bytes]:
        """Return the result lines, each made as it is asked for.

        Raises:
            ApiProblem: 404 before the end, after the archiving, and for unknown ids.
        """
        batch, now = self.find(access, batch_id), self.now()
        if batch.status(now) != "ended" or batch.archived(now):
            raise not_found(
                f"Message Batch {batch_id} has no available results.",
                {"x-should-retry": "false"},
            )
        return result_lines(batch)

    # --- direct calls --------------------------------------------------------------------

    def answer(self, access: Access, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Message of a direct call."""
        check_spend(self.settings.spend)
        if self.settings.message_tpm is not None:
            tokens = read_prompt(params).tokens
            self._bucket(access, "input-tokens").take(self.now(), tokens)
        answer = direct_answer(params, access, self.settings, self.seed, self._book)
        text = "".join(block.get("text", "") for block in answer["content"])
        self.direct[text] = self.direct.get(text, 0) + 1
        return answer
