"""
Events as OpenTelemetry spans and metrics, through the API package alone.

Attributes are ids, orgs, counts and codes; never a prompt, an answer, a key, or the text of an
error, which can quote any of them.
"""

from __future__ import annotations

from opentelemetry import metrics, trace

from batchwright.events import Listener
from batchwright.listeners._meters import Meters
from batchwright.listeners._spans import Spans
from batchwright.listeners._together import fan_out

#: Name of the instrumentation scope.
SCOPE = "batchwright"


def otel_listener(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Listener:
    """
    Return a listener that records spans and metrics; it may serve any number of runners.

    Spans end on the event loop: export them from a thread, as `BatchSpanProcessor` does. An
    exporter that raises is logged, and stops nothing.

    Args:
        tracer_provider: Where spans go; the global one by default.
        meter_provider: Where metrics go; the global one by default.
    """
    spans = Spans(trace.get_tracer(SCOPE, tracer_provider=tracer_provider))
    meters = Meters(metrics.get_meter(SCOPE, meter_provider=meter_provider))
    return fan_out(spans.take, meters.take)
