"""A create in the making: requests are taken in one by one, then the batch is registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.simulator._seeded import fraction
from batchwright.simulator.answers import Answer, last_user_text, read_prompt
from batchwright.simulator.batches import Outcome, StoredRequest
from batchwright.simulator.envelope import check_count, check_request
from batchwright.simulator.fates import (
    EXPIRE,
    REFUSE,
    SUCCEED,
    TRUNCATE,
    Fate,
    FateBook,
    errored,
    magic_fate,
    stem_of,
)
from batchwright.simulator.params import Rules, check_params, resolve
from batchwright.simulator.problems import ApiProblem, invalid
from batchwright.simulator.settings import WorldSettings


@dataclass(slots=True, kw_only=True)
class Draft:
    """The requests of one create, taken in small steps so that nobody has to wait long.

    Faults of the envelope are remembered and told at the end: a body that turns out not to be
    JSON is refused for that reason, whatever came before.
    """

    settings: WorldSettings
    seed: int
    rules: Rules
    book: FateBook
    requests: list[StoredRequest] = field(default_factory=list)
    tally: dict[Outcome, int] = field(default_factory=dict)
    stems: dict[str, int] = field(default_factory=dict)
    never_ends: bool = False
    _ids: set[str] = field(default_factory=set)
    _count: int = 0
    _problem: ApiProblem | None = None
    _duplicate: str | None = None

    def add(self, request: object) -> None:
        """Take in one value of `requests`."""
        place, self._count = self._count, self._count + 1
        if self._problem is not None:
            return
        try:
            custom_id, params = check_request(place, request)
        except ApiProblem as problem:
            self._problem = problem
            return
        if custom_id in self._ids and self._duplicate is None:
            self._duplicate = custom_id
        self._ids.add(custom_id)
        self._keep(self._store(custom_id, params))

    def _store(self, custom_id: str, params: Mapping[str, Any]) -> StoredRequest:
        stem = stem_of(custom_id)
        attempt = self.book.attempts.get(stem, 0) + 1
        self.stems[stem] = attempt
        fault = check_params(params, self.rules)
        return StoredRequest(
            custom_id=custom_id,
            attempt=attempt,
            model=resolve(str(params.get("model"))),
            max_tokens=params["max_tokens"] if fault is None else 0,
            prompt=None if fault else read_prompt(params),
            fate=SUCCEED if fault else self._fate(custom_id, params, attempt),
            fault=fault,
            params=params if self.settings.keep_bodies else None,
        )

    def _keep(self, request: StoredRequest) -> None:
        self.requests.append(request)
        natural = request.natural()
        self.tally[natural] = self.tally.get(natural, 0) + 1
        self.never_ends = self.never_ends or request.waits(self.settings)

    def _fate(self, custom_id: str, params: Mapping[str, Any], attempt: int) -> Fate:
        fate = self.settings.fate(custom_id, params) if self.settings.fate else None
        fate = fate or self.book.find(custom_id, attempt)
        fate = fate or magic_fate(last_user_text(params), attempt)
        fate = fate or drawn_fate(self.settings, self.seed, custom_id, attempt)
        return with_answer(fate, params, self.settings.answer)

    def finish(self) -> None:
        """Make sure the envelope as a whole is sound.

        Raises:
            ApiProblem: 400 with the API's text for the first fault.
        """
        if self._problem is not None:
            raise self._problem
        check_count(self._count, self.settings.max_requests)
        if self._duplicate is not None:
            raise invalid(
                "requests: custom_id's must be unique within a batch. "
                f"Duplicate custom_id found: {self._duplicate}"
            )
        assert len(self.requests) == self._count, "every request has been kept"


def drawn_fate(settings: WorldSettings, seed: int, custom_id: str, attempt: int) -> Fate:
    """Draw a fate by the world's rates; each attempt of a request draws anew."""
    draw = fraction(seed, custom_id, attempt, "fate")
    error = errored(settings.error_type, "Drawn by the simulator's error_rate")
    for rate, fate in (
        (settings.error_rate, error),
        (settings.expire_rate, EXPIRE),
        (settings.refusal_rate, REFUSE),
        (settings.truncate_rate, TRUNCATE),
    ):
        if draw < rate:
            return fate
        draw -= rate
    return SUCCEED


def with_answer(
    fate: Fate,
    params: Mapping[str, Any],
    answer: Callable[[Mapping[str, Any]], Answer | None] | None,
) -> Fate:
    """Put the test's own answer into a fate that has no text yet."""
    if answer is None or fate.kind != "succeeded" or fate.text is not None:
        return fate
    text = answer(params)
    if text is None:
        return fate
    return Fate(text=text, stop_reason=fate.stop_reason, output_tokens=fate.output_tokens)
