"""
Several listeners as one.
"""

from __future__ import annotations

import logging

from batchwright.events import Event, Listener

_log = logging.getLogger("batchwright")


def fan_out(*listeners: Listener) -> Listener:
    """
    Return a listener that tells each event to all of *listeners*, in their order.

    One that raises does not keep the others from hearing. Its first error is logged with its
    traceback, later ones at level DEBUG.
    """
    broken: set[int] = set()

    def tell_all(event: Event) -> None:
        for place, listener in enumerate(listeners):
            try:
                listener(event)
            except Exception:
                level = logging.DEBUG if place in broken else logging.ERROR
                broken.add(place)
                name = type(event).__name__
                _log.log(level, "%r raised while it was told %s", listener, name, exc_info=True)

    return tell_all
