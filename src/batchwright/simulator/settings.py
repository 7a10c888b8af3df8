"""Every switch of the simulated world; the defaults follow the API's documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.simulator.answers import Answer
from batchwright.simulator.fates import FateFor

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """How the simulated API behaves. All durations are world seconds.

    Attributes:
        keys: API key -> workspace name. None allows every key and gives each its own
            workspace; a mapping refuses all others with 401.
        workspaces: API key -> workspace name without refusing others: lets keys share one.
        duration: How long a batch takes: a `(low, high)` range drawn from the seed, or a
            callable `(number of the batch from 1, number of requests) -> seconds`.
        never_ends: Batches stay in progress until `expires_at`, then all is expired.
        stuck: Batches stay in progress even past `expires_at`.
        expiry_waits: A request fated to expire keeps its batch open until `expires_at`, as
            it does for real. Off, it expires at the batch's normal end and tests stay fast.
        live_counts: `request_counts` move while in progress (the documentation says no).
        lifetime: `expires_at - created_at`: 24 hours.
        archive_after: Results are gone this long after `created_at`: 29 days.
        archived_url: `results_url` stays set on an archived batch.
        cancel_seconds: Range of the time from cancel to ended.
        cancel_in_flight: Share of the unfinished requests that a cancel does not interrupt:
            they are finished and billed.
        cancel_ended_ok: Cancel on an ended batch answers 200 instead of 400.
        visible_after: Reads of a new batch give 404, and lists leave it out, for so long.
        fate: `(custom_id, params) -> Fate | None`, asked once for each request.
        answer: `params -> text, content blocks, or None`: what the model says; None is the echo.
        error_rate: Share of requests that end as `errored` with `error_type`.
        error_type: See `error_rate`.
        expire_rate: Share of requests that end as `expired`.
        refusal_rate: Share of answers with `stop_reason: refusal`.
        truncate_rate: Share of answers with `stop_reason: max_tokens`.
        max_requests: Requests in one batch.
        max_bytes: Bytes of one create body; more is a 413.
        max_message_bytes: Bytes of one Messages body; more is a 413.
        html_413: The 413 carries the edge's HTML page instead of the API's JSON.
        rpm: Requests per minute over all batch endpoints of a workspace, as a token bucket;
            None is no limit (headers then show 4000).
        burst: Size of that bucket; None is one minute's worth.
        max_queued: Requests of a workspace in batches that have not ended; None: no limit.
        message_rpm: As `rpm`, for the Messages API.
        message_tpm: Input tokens per minute of the Messages API; None: no limit, no headers.
        message_seconds: Range of the time one direct answer takes.
        spend: Spending fault of each create and message: `"cap"` is the tier's monthly cap
            (429 without retry-after), `"limit"` the self-set one (400), None neither.
        poll_hint: `retry-after` on the 200 of an unfinished batch; None sends none.
        offset_suffix: End of a timestamp: `Z`, or `+00:00` as in older recordings.
        gzip_creates: Creates may be gzipped (off: refused).
        keep_bodies: Keep the params of each request for the test to read.
        models: Extra model ids that exist.
    """

    keys: Mapping[str, str] | None = None
    workspaces: Mapping[str, str] = field(default_factory=dict)
    duration: tuple[float, float] | Callable[[int, int], float] = (60.0, 600.0)
    never_ends: bool = False
    stuck: bool = False
    expiry_waits: bool = False
    live_counts: bool = False
    lifetime: float = DAY
    archive_after: float = 29 * DAY
    archived_url: bool = False
    cancel_seconds: tuple[float, float] = (1.0, 25.0)
    cancel_in_flight: float = 0.1
    cancel_ended_ok: bool = False
    visible_after: float = 0.0
    fate: FateFor | None = None
    answer: Callable[[Mapping[str, Any]], Answer | None] | None = None
    error_rate: float = 0.0
    error_type: str = "api_error"
    expire_rate: float = 0.0
    refusal_rate: float = 0.0
    truncate_rate: float = 0.0
    max_requests: int = 100_000
    max_bytes: int = 256_000_000
    max_message_bytes: int = 32_000_000
    html_413: bool = False
    rpm: float | None = None
    burst: float | None = None
    max_queued: int | None = None
    message_rpm: float | None = None
    message_tpm: float | None = None
    message_seconds: tuple[float, float] = (0.0, 0.0)
    spend: str | None = None
    poll_hint: float | None = 10
    offset_suffix: str = "Z"
    gzip_creates: bool = False
    keep_bodies: bool = False
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        rates = (self.error_rate, self.expire_rate, self.refusal_rate, self.truncate_rate)
        if any(not 0 <= rate <= 1 for rate in (*rates, self.cancel_in_flight)):
            raise ValueError("rates and shares lie between 0 and 1")
        if self.spend not in (None, "cap", "limit"):
            raise ValueError(f"spend is None, 'cap' or 'limit', not {self.spend!r}")
