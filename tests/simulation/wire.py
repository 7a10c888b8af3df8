"""
From a simulated process to the server and back: latency, points, faults, history.

Each call passes a point before its effect and one after it, before the caller learns of it.
"""

from __future__ import annotations

from typing import Any

import orjson
from tests.simulation.answers import Answer, Request
from tests.simulation.history import Op
from tests.simulation.life import Killed, Life

#: A call that the plan lets fail once: before its effect, and after it.
_FAILED_BEFORE = Answer(status=None, sent=False)
_FAILED_AFTER = Answer(status=None, unknown=True)


class Wire:
    """One process's way to the server."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world
        self._chance = life.world.faults.stream("latency")

    async def exchange(self, request: Request) -> Answer:
        """Bring *request* to the server and its answer back."""
        life, world = self._life, self._world
        life.check()
        op = world.history.invoke(world.time(), life.number, f"api.{request.call}", **_key(request))
        try:
            answer = await self._carry(request, op)
        except BaseException:
            world.history.end(op, world.time(), "info", "nobody was there")
            raise
        world.history.end(op, world.time(), _how(answer), _told(answer))
        return answer

    async def _carry(self, request: Request, op: Op) -> Answer:
        life, world = self._life, self._world
        if await life.point(f"{op.name} before") == "error":
            return _FAILED_BEFORE
        left = world.time()
        trick = world.faults.draw(request.call)
        if trick is not None:
            world.history.note(left, life.number, f"FAULT {trick}")
        try:
            await life.sleep(self._latency())
        except Killed:
            self._orphan(request, left)
            raise
        op.facts["left"] = left
        answer = world.server.handle(request, trick, left)
        op.facts["done"] = world.time()
        if await life.point(f"{op.name} after") == "error":
            return _FAILED_AFTER
        await life.sleep(self._latency())
        return answer

    def _orphan(self, request: Request, left: float) -> None:
        """A request that had left when its process died may arrive all the same."""
        if request.call == "create" and self._chance.random() < 0.7:
            self._world.server.later(request, left, self._latency())

    def _latency(self) -> float:
        # A coarse grid, so that calls of different tasks fall on the same moment now and then.
        return self._chance.choice((0.05, 0.1, 0.1, 0.2, 0.5, 1.5))


def _key(request: Request) -> dict[str, Any]:
    usual = request.org == "sim"
    return _what(request) | ({} if usual else {"org": request.org})


def _what(request: Request) -> dict[str, Any]:
    if request.call == "create":
        ids = [one["custom_id"] for one in orjson.loads(request.body)["requests"]]
        return {"ids": ids, "size": len(request.body)}
    if request.call == "list":
        return {"after": request.after_id}
    if request.call == "message":
        return {"text": orjson.loads(request.body)["messages"][0]["content"]}
    return {"batch": request.batch_id}


def _how(answer: Answer) -> str:
    if answer.status == 200 and not answer.unknown:
        return "ok"
    return "info" if answer.unknown else "fail"


def _told(answer: Answer) -> Any:
    if answer.data is not None and "processing_status" in answer.data:
        return (answer.data["id"], answer.data["processing_status"])
    if answer.data is not None and "data" in answer.data:
        return tuple(one.get("id") for one in answer.data["data"])
    return (answer.status, answer.error and answer.error[0])
