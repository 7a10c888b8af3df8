"""
Reading the items of a plan: encoded and measured one by one as intake does, and none of them kept.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from anyio.lowlevel import checkpoint

from batchwright._ingest import CHUNK_ITEMS, SHAPES, SLICE_BYTES, SLICE_ITEMS, Items, each, shape_of
from batchwright._intake import IntakeRules, as_item, encode_item
from batchwright._plan.entry import Entry, PositionWatch
from batchwright._plan.measure import weigh
from batchwright._plan.past import Known, Past
from batchwright._plan.sample import Sample
from batchwright._refusals import Refusals
from batchwright._wire import entry_size
from batchwright.errors import IntakeError
from batchwright.events import Event, IntakeProgressed
from batchwright.store import NewItem, OnChanged
from batchwright.types import Item

#: Items of one kind of trouble that are kept one by one.
LISTED = 1_000
#: When so many entries came and none of them was an item, the rest is not read.
HOPELESS = 100
EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with one entry; `kind` is `unusable` or the kind of refusal."""

    id: str | None
    position: int
    line: int | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """An id that came before; places are lines where `in_lines`, else positions."""

    id: str
    place: int
    first_place: int
    in_lines: bool


@dataclass(slots=True)
class Sums:
    """
    What was read.

    Attributes:
        passed: Entries read.
        unusable: Entries that are no items.
        duplicates: Items whose id came before.
        refused: Items that would not be sent.
        new: Items that the store does not hold.
        cached: New items that an earlier run answers.
        changed: Known ids with another question.
        changed_waiting: Of those, the ones that wait in the store anyhow.
        known: Known items by what stands about them.
        first_changed: Id and position of the first changed one.
        oversized: Items that would be sent and are too large for a direct call.
    """

    passed: int = 0
    unusable: int = 0
    duplicates: int = 0
    refused: int = 0
    new: int = 0
    cached: int = 0
    changed: int = 0
    changed_waiting: int = 0
    known: dict[Known, int] = field(default_factory=lambda: dict.fromkeys(Known, 0))
    first_changed: tuple[str, int] | None = None
    oversized: int = 0


class Reading:
    """One reading of the caller's items for a plan."""

    def __init__(
        self,
        past: Past,
        rules: IntakeRules,
        *,
        on_changed: OnChanged,
        max_direct: int,
        emit: Callable[[Event], None],
    ) -> None:
        """
        Prepare a reading.

        Args:
            past: What the store knows.
            rules: How items are taken.
            on_changed: What a known id with another question means.
            max_direct: Largest request of a direct call, bytes.
            emit: Told of the progress.
        """
        self._past = past
        self._rules = rules
        self._on_changed = on_changed
        self._max_direct = max_direct
        self._emit = emit
        self._seen: dict[int, int] = {}
        self.sums = Sums()
        self.sample = Sample()
        self.refusals = Refusals()
        self.positions = PositionWatch()
        self.faults: list[Fault] = []
        self.unusable: list[Fault] = []
        self.doubles: list[Double] = []
        self.examples: list[tuple[int, str, str]] = []
        #: Shapes of requests, up to as many as a canary would try.
        self.shapes: set[object] = set()
        #: Bytes on the wire of what would be sent and is not in the store's own books, by headers.
        self.sizes: dict[str, array[int]] = {}

    async def run(self, items: Items) -> None:
        """
        Read *items* to their end.

        Raises:
            IntakeError: They are not iterable, or nothing in them is an item.
        """
        size = 0
        async for entry in entries_of(items):
            self.sums.passed += 1
            size += self._take(entry)
            if size >= SLICE_BYTES or self.sums.passed % SLICE_ITEMS == 0:
                size = 0
                await checkpoint()
            if self.sums.passed % CHUNK_ITEMS == 0:
                self._tell()
            if self.sums.unusable == self.sums.passed >= HOPELESS:
                break
        self._tell()
        if self.sums.passed and self.sums.unusable == self.sums.passed:
            raise IntakeError(self.unusable[0].message)

    def _tell(self) -> None:
        self._emit(IntakeProgressed(run_id=self._rules.run_id, read=self.sums.passed))

    def _take(self, entry: Entry) -> int:
        """Take in one entry; return how many bytes were worked on."""
        item = entry.item
        if item is None:
            self.sums.unusable += 1
            self._list(self.unusable, entry, "unusable", entry.fault)
            return 0
        self.positions.take(item.id)
        if self._is_double(entry, item):
            return 0
        row = encode_item(item, entry.position, self._rules)
        if len(self.examples) < EXAMPLES:
            self.examples.append((entry.position, item.id, row.custom_id))
        self._sort(entry, item, row)
        return len(row.body)

    def _is_double(self, entry: Entry, item: Item) -> bool:
        place = entry.position if entry.line is None else entry.line
        first = self._seen.setdefault(hash(item.id), place)
        if first == place:
            return False
        self.sums.duplicates += 1
        if len(self.doubles) < LISTED:
            in_lines = entry.line is not None
            self.doubles.append(
                Double(id=item.id, place=place, first_place=first, in_lines=in_lines)
            )
        return True

    def _sort(self, entry: Entry, item: Item, row: NewItem) -> None:
        """Decide what would become of one item."""
        sums = self.sums
        found = self._past.look(item.id, row.custom_id)
        known, same = found if found is not None else (None, True)
        if known is Known.REFUSED:
            # Whatever comes takes its place.
            known, same = None, True
        if not same and self._on_changed == "error":
            self._change(entry, item)
        elif known is not None and (same or self._on_changed == "keep"):
            sums.known[known] += 1
            if known is Known.TAKEN_UP:
                self._send(item, row)
            elif known is Known.WAITING:
                # The store tells its size.
                self._measure(item, row)
        elif row.refusal is not None:
            sums.refused += 1
            self.refusals.count(row)
            self._list(self.faults, entry, row.refusal.type, row.refusal.message)
        elif found is None and self._past.is_cached(item.id, row.digest):
            sums.cached += 1
        else:
            sums.new += same
            if not same:
                self._change(entry, item)
            if known is Known.WAITING:
                # It waits in the store already; its size there is near enough.
                sums.changed_waiting += 1
                self._measure(item, row)
            else:
                self._send(item, row)

    def _change(self, entry: Entry, item: Item) -> None:
        self.sums.changed += 1
        self.sums.first_changed = self.sums.first_changed or (item.id, entry.position)

    def _send(self, item: Item, row: NewItem) -> None:
        if row.headers not in self.sizes:
            self.sizes[row.headers] = array("Q")
        self.sizes[row.headers].append(entry_size(row.custom_id, len(row.body)))
        self._measure(item, row)

    def _measure(self, item: Item, row: NewItem) -> None:
        if row.refusal is not None:
            return
        weight = weigh(row.body)
        shape = shape_of(item.params, row.headers)
        if len(self.shapes) < SHAPES:
            self.shapes.add(shape)
        self.sums.oversized += weight.size > self._max_direct
        kinds = (weight.cache, weight.in_us, weight.images > 0, weight.documents > 0)
        self.sample.add(row, weight, (shape, kinds))

    def _list(self, listed: list[Fault], entry: Entry, kind: str, message: str) -> None:
        if len(listed) < LISTED:
            item_id = entry.item.id if entry.item is not None else None
            listed.append(
                Fault(
                    id=item_id,
                    position=entry.position,
                    line=entry.line,
                    kind=kind,
                    message=message,
                )
            )


async def entries_of(items: Items) -> AsyncIterator[Entry]:
    """
    Yield the entries of *items*, in whichever form they are passed.

    Raises:
        IntakeError: *items* cannot be iterated over, or is a mapping.
    """
    position = 0
    async for given in each(items):
        if isinstance(given, Entry):
            yield given
        else:
            yield _entry(given, position)
        position += 1


def _entry(given: object, position: int) -> Entry:
    try:
        return Entry(position=position, item=as_item(given, position))
    except IntakeError as error:
        return Entry(position=position, fault=str(error))
