"""What the benchmarks ask."""

from __future__ import annotations

from collections.abc import Iterator

#: Most items in a sub-batch, of every contender.
SHARD = 8_000
#: Every so many items one asks the simulated API for an error at its first try.
FAILING = 1_000
_FAIL_ONCE = "[[sim:error api_error,succeed]] "


def items(
    count: int, size: int, *, prefix: str = "doc", failing: bool = False
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield *count* items of about *size* bytes, one at a time."""
    text = "Is this text good? " * (size // 19)
    for number in range(count):
        fate = _FAIL_ONCE if failing and number % FAILING == FAILING - 1 else ""
        yield (
            f"{prefix}-{number}",
            {
                "model": "claude-haiku-4-5",
                "max_tokens": 64,
                "messages": [{"role": "user", "content": f"{fate}{number}: {text}"}],
            },
        )
