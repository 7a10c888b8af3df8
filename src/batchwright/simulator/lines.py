"""Result lines: one JSON object for each request of an ended batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from batchwright.simulator._seeded import api_id
from batchwright.simulator.answers import Answer, message
from batchwright.simulator.batches import Batch, StoredRequest
from batchwright.simulator.problems import envelope


def result_lines(batch: Batch) -> Iterator[bytes]:
    """Yield each line with its newline, made as it is asked for."""
    for request in batch.in_result_order():
        yield orjson.dumps(result_object(batch, request)) + b"\n"


def result_object(batch: Batch, request: StoredRequest) -> dict[str, Any]:
    """Return one line as an object."""
    outcome = batch.outcome(request)
    result: dict[str, Any] = {"type": outcome}
    if outcome == "succeeded":
        result["message"] = _message(batch, request)
    elif outcome == "errored":
        result["error"] = _error(batch, request)
    return {"custom_id": request.custom_id, "result": result}


def _message(batch: Batch, request: StoredRequest) -> dict[str, Any]:
    fate, prompt = request.fate, request.prompt
    assert prompt is not None, "only sound params are answered"
    said = prompt.text(batch.seed) if fate.text is None else fate.text
    return message(
        id=api_id("msg", batch.seed, batch.id, request.custom_id),
        model=request.model,
        said=said,
        stop_reason=fate.stop_reason,
        input_tokens=prompt.tokens,
        output_tokens=output_tokens(said, fate.stop_reason, fate.output_tokens, request.max_tokens),
        service_tier="batch",
    )


def output_tokens(said: Answer, stop_reason: str, scripted: int | None, max_tokens: int) -> int:
    """Return plausible output tokens: about one for four characters; all when truncated."""
    if scripted is not None:
        return scripted
    if stop_reason == "max_tokens":
        return max_tokens
    written = said if isinstance(said, str) else orjson.dumps(said)
    return 1 if stop_reason == "refusal" else (len(written) + 3) // 4


def _error(batch: Batch, request: StoredRequest) -> dict[str, Any]:
    fault, fate = request.fault, request.fate
    worker = f"workerreq_01{api_id('w', batch.id, request.custom_id)[4:]}"
    if fault is not None:
        # Seen on real lines of validation failures; the API does not document it.
        details = {"error_visibility": "user_facing"}
        return envelope(fault.type, fault.message, details, worker if fault.worker else None)
    return envelope(fate.error_type, fate.message, fate.details, worker)
