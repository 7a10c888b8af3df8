"""
What lies in a workspace: its batches page by page, and whose results a batch holds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from batchwright._batches import BatchObject, read_batch
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
    more = bool(reply.data.get("has_more")) and bool(batches)
    return batches, batches[-1].id if more else None


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
