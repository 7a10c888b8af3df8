"""Consumers of events: logs, progress, traces and metrics; each can be given as `on_event`."""

from batchwright.listeners._together import fan_out

__all__ = ["fan_out"]
