"""
Answers by path over time: coarse, since a batch gives its answers all at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from batchwright.report.model import PointReport
from batchwright.store import RunInfo, Shard

#: A report holds at most so many points.
POINTS: Final = 240


class _Step(NamedTuple):
    at: datetime
    batch: int
    sync: int


def over_time(info: RunInfo, shards: Sequence[Shard]) -> list[PointReport]:
    """
    Return the answers by path up to each moment, from none to all.

    The last point is the whole; it also holds the few that no finished group of items tells about.
    """
    steps = sorted(_steps(shards))
    total = {via: sum(s.answers for s in info.spent if s.via == via) for via in ("batch", "sync")}
    if not any(total.values()):
        return []
    start = min([info.created_at, *(step.at for step in steps)])
    points = [PointReport(at=start, batch=0, sync=0)]
    batch = sync = 0
    for step in steps:
        batch = min(batch + step.batch, total["batch"])
        sync = min(sync + step.sync, total["sync"])
        points.append(PointReport(at=step.at, batch=batch, sync=sync))
    whole = PointReport(at=points[-1].at, batch=total["batch"], sync=total["sync"])
    return [*_thinned(points[:-1]), whole]


def _thinned(points: list[PointReport]) -> list[PointReport]:
    every = math.ceil(len(points) / (POINTS - 1)) or 1
    return points[::every]


def _steps(shards: Sequence[Shard]) -> Iterator[_Step]:
    for shard in shards:
        at = shard.done_at or shard.ended_at
        if at is None:
            continue
        results = shard.facts.get("results")
        if isinstance(results, dict):
            answers = results.get("succeeded", 0) + results.get("rejected", 0)
            answers -= shard.facts.get("late", 0)
        else:
            answers = (shard.counts or {}).get("succeeded", 0)
        direct = shard.facts.get("path") == "sync"
        yield _Step(at, 0 if direct else answers, answers if direct else 0)
