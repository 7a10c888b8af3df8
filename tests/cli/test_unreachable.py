"""What stands in the way between the command line and the API is named, with what to look at."""

from __future__ import annotations

import socket

from .support import FAST, Inside, item, write_items


def test_an_address_that_is_none_is_refused_before_anything(here: Inside) -> None:
    """A word for a URL: said at once, and nothing is in doubt."""
    write_items(here.folder / "items.jsonl", item(0))
    done = here.at_url("not-a-url")("run", "items.jsonl", *FAST)
    assert done.returncode == 2
    assert "is no address" in done.stderr
    assert "--base-url" in done.stderr


def test_a_server_that_is_not_there(here: Inside) -> None:
    """The hint says where to look."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write_items(here.folder / "items.jsonl", item(0))
    done = here.at_url(f"http://127.0.0.1:{port}")("run", "items.jsonl", *FAST)
    assert done.returncode == 3
    assert "it cannot be reached: look at the network" in done.stdout
