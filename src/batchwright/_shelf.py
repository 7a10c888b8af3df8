"""
What lies in a workspace: its batches page by page, and whose results a batch holds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from batchwright._api import CallFailed
from batchwright._batches import BatchObject, read_batch
from batchwright._faults import Failure
from batchwright._lines import LineSplitter, parse_line
from batchwright._org import OrgLink

#: Batches of one page: the API's most.
PAGE = 1_000


async def list_page(org: OrgLink, after: str | None) -> tuple[list[BatchObject], str | None]:
    """
    Return a page of batches, newest first, and the cursor of the next one (`None` at the end).

    Raises:
        CallFailed: It could not be read.
    """
    reply = await org.call("list", lambda: org.gateway.list(limit=PAGE, after_id=after))
    data = reply.data.get("data")
    rows = data if isinstance(data, list) else []
    batches = [b for row in rows if isinstance(row, dict) and (b := read_batch(row))]
    if not reply.data.get("has_more"):
        return batches, None
    last = reply.data.get("last_id") or (batches[-1].id if batches else None)
    if not isinstance(last, str):
        # Taken for the end, it would show as absent what stands on the pages behind it.
        text = "a page of batches says that more follow, and not behind which"
        raise CallFailed(Failure(call="list", status=200, message=text))
    return batches, last


async def custom_ids(org: OrgLink, batch_id: str) -> AsyncGenerator[str]:
    """
    Yield the `custom_id` of each result line of an ended batch, as the lines come.

    Raises:
        CallFailed: The results cannot be read, or not to their end.
    """
    await org.spend()
    splitter = LineSplitter()
    async with org.gateway.results(batch_id) as chunks:
        org.learn(chunks.reply)
        async for chunk in chunks:
            for data in splitter.feed(chunk):
                if (line := parse_line(data)) is not None:
                    yield line.custom_id
    if (line := parse_line(splitter.rest())) is not None:
        yield line.custom_id
