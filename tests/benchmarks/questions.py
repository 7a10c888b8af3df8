"""What the benchmarks ask."""

from __future__ import annotations

from collections.abc import Iterator


def items(count: int, size: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield *count* items of about *size* bytes, one at a time."""
    text = "Is this text good? " * (size // 19)
    for number in range(count):
        yield (
            f"doc-{number}",
            {
                "model": "claude-haiku-4-5",
                "max_tokens": 64,
                "messages": [{"role": "user", "content": f"{number}: {text}"}],
            },
        )
