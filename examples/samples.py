"""
Ask every question several times and see how often the answers agree.

This is written against the SDK, but for one line, the import. With

    from anthropic import AsyncAnthropic

in its place the same program asks directly, at twice the price and within the rate limits. As it
stands the calls gather, travel in batches, and are kept in batchwright.db: kill it and run it
again, and only what was never sent is sent.

    export ANTHROPIC_API_KEY=…
    python examples/samples.py
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter

from batchwright import AsyncAnthropic

QUESTION = "What is {a} times {b}? Answer with the number and nothing else."


async def sample(client: AsyncAnthropic, model: str, a: int, b: int) -> bool:
    """Ask once; return whether the answer is right."""
    message = await client.messages.create(
        model=model,
        max_tokens=20,
        messages=[{"role": "user", "content": QUESTION.format(a=a, b=b)}],
    )
    text = "".join(block.text for block in message.content if block.type == "text")
    return text.strip() == str(a * b)


async def question(client: AsyncAnthropic, model: str, number: int, samples: int) -> int:
    """Ask one question *samples* times at once; return how many answers are right."""
    a, b = 11 + number % 89, 101 + number * 7 % 899
    told = await asyncio.gather(*(sample(client, model, a, b) for _ in range(samples)))
    return sum(told)


async def main() -> None:
    """Ask, and print how many questions got how many right answers."""
    parser = argparse.ArgumentParser(description="Sample every question several times.")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--model", default="claude-haiku-5-5")
    options = parser.parse_args()

    async with AsyncAnthropic() as client:
        right = await asyncio.gather(
            *(
                question(client, options.model, number, options.samples)
                for number in range(options.questions)
            )
        )
    print("right  questions")
    for count, questions in sorted(Counter(right).items()):
        print(f"{count:>5}  {questions:>9}")


if __name__ == "__main__":
    asyncio.run(main())
