"""
Checks of the store port: how items enter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.errors import StoreError
from batchwright.store import Clash, ItemState
from batchwright.testing._store_desk import MODEL, Desk, answer, desk_on, question, refused

if TYPE_CHECKING:
    from batchwright.testing.conformance import StoreMaker

#: Ids that stores have broken on.
ODD_IDS = (
    "",
    " ",
    "a\0b",
    "a\0c",
    "line\u2028end\u2029",
    "😀",
    "é",
    "e\u0301",
    "'\"--;\\",
    "x" * 100_000,
)


async def waits_for_commit(maker: StoreMaker) -> None:
    """Staged items do not exist before their intake commits."""
    desk = await desk_on(await maker.fresh())
    assert not (await desk.info()).intake_complete, "a new run has no complete intake"
    staged = await desk.stage(question(0), question(1), refused(2))
    assert (staged.new, staged.known, staged.clashes) == (3, 0, ()), "stage tells what was new"
    assert (await desk.info()).items == 0, "staged items are not counted"
    assert await desk.rows() == [], "staged items cannot be read"
    assert await desk.pending() == [], "staged items do not wait"
    assert list(await desk.store.start_wave(desk.lease, frozenset())) == [], "nor in groups"
    info = await desk.store.commit_intake(desk.lease, desk.intake)
    assert info == await desk.info(), "commit_intake returns what read_run returns"
    assert (info.items, info.intake_complete) == (3, True), "committed items are counted"
    assert await desk.states() == "PPQ", "committed items are pending, refused ones quarantined"
    row = await desk.row(2)
    assert row.outcome.reason == "refused_at_intake", "a refused item tells its reason"
    assert row.outcome.error is not None, "a refused item tells its error"
    assert row.outcome.error.message == "no model", "a refused item tells its error"
    await desk.audit()


async def stages_in_chunks(maker: StoreMaker) -> None:
    """An intake takes many chunks; `seq` counts first appearances from 0."""
    desk = await desk_on(await maker.fresh())
    await desk.stage(*(question(n) for n in range(4)))
    await desk.store.stage(desk.lease, desk.intake, [], "error")
    more = await desk.store.stage(desk.lease, desk.intake, [question(4), question(5)], "error")
    assert (more.new, more.known) == (2, 0), "each chunk is told apart"
    await desk.store.commit_intake(desk.lease, desk.intake)
    assert [row.seq for row in await desk.rows()] == [0, 1, 2, 3, 4, 5], "seq counts from 0"
    again = await desk.store.commit_intake(desk.lease, desk.intake)
    assert again.items == 6, "committing the same intake again is harmless"


async def names_duplicates(maker: StoreMaker) -> None:
    """An id seen earlier in the intake is a duplicate, in the same chunk or in another."""
    desk = await desk_on(await maker.fresh())
    staged = await desk.stage(question(0, "a"), question(1, "b"), question(2, "a", "other"))
    clash = Clash(kind="duplicate", id="a", position=2, first_position=0)
    assert staged.clashes == (clash,), "a duplicate in the chunk is named with both positions"
    assert staged.new == 2, "the others of the chunk are taken"
    later = await desk.store.stage(
        desk.lease, desk.intake, [question(3, "b"), question(4, "c")], "rerun"
    )
    clash = Clash(kind="duplicate", id="b", position=3, first_position=1)
    assert later.clashes == (clash,), "a duplicate of an earlier chunk is named"
    await desk.take(question(0, "a"), question(1, "b"))
    staged = await desk.stage(question(0, "b"), question(1, "a"), question(2, "b"))
    clash = Clash(kind="duplicate", id="b", position=2, first_position=0)
    assert staged.clashes == (clash,), "a known id twice in one intake is a duplicate"
    assert staged.known == 2, "the others of the chunk are taken"


async def _answered(maker: StoreMaker) -> Desk:
    desk = await desk_on(await maker.fresh())
    await desk.fill(3)
    shard = await desk.ship(0, 1, 2)
    await desk.settle(shard.number, answer(0), answer(1))
    return desk


async def names_changes(maker: StoreMaker) -> None:
    """Under "error" a changed item is a clash and stays as it is; the rest of the chunk enters."""
    desk = await _answered(maker)
    before = await desk.rows()
    staged = await desk.stage(question(5, "item-1", "new"), question(6, "item-0"), question(7))
    assert len(staged.clashes) == 1, "one item changed"
    clash = staged.clashes[0]
    assert (clash.kind, clash.id, clash.position) == ("changed", "item-1", 5), "it is named"
    assert (staged.new, staged.known) == (1, 1), "the others of the chunk are taken"
    assert await desk.rows() == before, "a changed item stays as it is"


async def keeps_changed(maker: StoreMaker) -> None:
    """Under "keep" the stored question and its outcome stay."""
    desk = await _answered(maker)
    before = await desk.rows()
    staged = await desk.take(
        question(0, "item-0", "new"),
        question(1, "item-1"),
        question(2, "item-2"),
        on_changed="keep",
    )
    assert (staged.known, staged.clashes) == (3, ()), "a kept item counts as known"
    assert await desk.rows() == before, "kept items stay as they are"
    assert len(await desk.rows(intake=desk.intake)) == 3, "kept items belong to the intake"


async def reruns_changed(maker: StoreMaker) -> None:
    """Under "rerun" the new question takes the place of the stored one when the intake commits."""
    desk = await _answered(maker)
    before = await desk.rows()
    news = question(0, "item-0", "new", headers='{"a":"b"}', metadata=b'{"m":1}')
    flight = question(2, "item-2", "new")
    staged = await desk.stage(news, question(1, "item-1"), flight, on_changed="rerun")
    assert (staged.new, staged.known, staged.clashes) == (0, 3, ()), "replaced items are known"
    assert await desk.rows() == before, "nothing changes before the commit"
    await desk.store.commit_intake(desk.lease, desk.intake)
    assert await desk.states() == "PSP", "replaced items wait, the others stay"
    row = await desk.row(0)
    told = (row.outcome.attempts, row.outcome.raw, row.outcome.via, row.outcome.batch_id)
    assert told == (0, None, None, None), "outcome and attempts go with the old question"
    assert row.outcome.custom_id == news.custom_id, "the custom_id is that of the new question"
    assert row.outcome.metadata == {"m": 1}, "the metadata is that of the new question"
    assert (await desk.pending('{"a":"b"}'), await desk.pending()) == ([0], [2]), "so are headers"
    await desk.audit()
    shard = await desk.plan(0, 2)
    bodies = await desk.store.read_bodies("run", shard.number, -1, 10_000)
    assert [b.body for b in bodies] == [news.body, flight.body], "the new bodies are sent"
    assert (await desk.info()).spent[0].answers == 2, "what was spent stays spent"


async def replaces_refused(maker: StoreMaker) -> None:
    """An item refused at intake before is always replaced, whatever is said of changed ones."""
    desk = await desk_on(await maker.fresh())
    await desk.take(*(refused(n, message="old") for n in range(4)))
    for number, mode in enumerate(("error", "keep", "rerun")):
        staged = await desk.take(question(number), on_changed=mode)  # type: ignore[arg-type]
        assert (staged.known, staged.clashes) == (1, ()), f'a refused item is known under "{mode}"'
        assert (await desk.row(number)).state is ItemState.PENDING, f'replaced under "{mode}"'
    await desk.take(refused(3, message="new"))
    error = (await desk.row(3)).outcome.error
    assert error is not None, "a refused item tells its error"
    assert error.message == "new", "the last refusal counts"
    assert await desk.pending() == [0, 1, 2], "replaced items wait to be sent"
    await desk.audit()


async def counts_models(maker: StoreMaker) -> None:
    """Items are counted by the model they ask for, as soon as their intake commits."""
    desk = await desk_on(await maker.fresh())
    await desk.stage(question(0), question(1, model="other"), question(2, model="other"))
    assert dict((await desk.info()).models) == {}, "an open intake is not counted"
    await desk.store.commit_intake(desk.lease, desk.intake)
    assert dict((await desk.info()).models) == {MODEL: 1, "other": 2}, "by model"
    anew = question(0, "item-1", "new", model="third")
    await desk.take(
        anew, question(1, "item-2", model="other"), refused(2, "item-0"), on_changed="rerun"
    )
    models = dict((await desk.info()).models)
    assert models == {"other": 1, "third": 1}, "the stored question counts, and only that"


async def forgets_uncommitted(maker: StoreMaker) -> None:
    """What an intake that never committed left behind is forgotten."""
    desk = await _answered(maker)
    committed = desk.intake
    before = (await desk.info(), await desk.rows(), await desk.rows(intake=committed))
    await desk.stage(
        question(0, "item-2"), question(1, "item-0", "new"), question(2, "x"), on_changed="rerun"
    )
    after = (await desk.info(), await desk.rows(), await desk.rows(intake=committed))
    assert after == before, "an open intake is not seen"
    await desk.stage(question(0, "y"), question(1, "item-1"))
    await desk.store.commit_intake(desk.lease, desk.intake)
    assert await desk.states() == "SSIP", "only the committed intake counts"
    assert [r.outcome.id for r in await desk.rows()][3] == "y", "forgotten rows leave no gap"
    assert (await desk.row(0)).outcome.raw is not None, "a forgotten rerun replaces nothing"
    await desk.audit()


async def adds_a_second_intake(maker: StoreMaker) -> None:
    """A later intake adds items; each intake is read back in its own order."""
    desk = await desk_on(await maker.fresh())
    await desk.take(question(0, "a"), question(1, "b"), question(2, "c"))
    first = desk.intake
    staged = await desk.take(question(0, "d"), question(1, "c"), question(2, "a"))
    assert (staged.new, staged.known) == (1, 2), "known and new are told apart"
    assert desk.intake > first, "intakes are numbered upwards"
    rows = await desk.rows()
    assert [r.outcome.id for r in rows] == ["a", "b", "c", "d"], "all: by first appearance"
    rows = await desk.rows(intake=desk.intake)
    told = [(r.position, r.outcome.id) for r in rows]
    assert told == [(0, "d"), (1, "c"), (2, "a")], "an intake: in its own order"
    rows = await desk.rows(intake=first)
    assert [r.outcome.id for r in rows] == ["a", "b", "c"], "an earlier intake can still be read"
    await desk.audit()


async def knows_what_is_open(maker: StoreMaker) -> None:
    """Only the open intake takes items; a number that is no complete intake is not read."""
    desk = await desk_on(await maker.fresh())
    await desk.take(question(0))
    old, opened = desk.intake, await desk.store.begin_intake(desk.lease)
    for promise, call in (
        ("a committed intake takes no items", desk.store.stage(desk.lease, old, [], "error")),
        ("an unknown intake cannot commit", desk.store.commit_intake(desk.lease, opened + 1)),
        ("an open intake is not read", desk.store.read_rows("run", -1, 9, intake=opened)),
    ):
        try:
            await call
        except StoreError:
            continue
        raise AssertionError(promise)


async def takes_any_text(maker: StoreMaker) -> None:
    """Ids, metadata and headers are any text: NUL, line separators, emoji, a hundred kilobytes."""
    desk = await desk_on(await maker.fresh())
    rows = [question(n, item_id, item_id[:9]) for n, item_id in enumerate(ODD_IDS)]
    rows[0] = question(0, "\0", metadata=b'{"\\u0000":"\xe2\x80\xa8"}', headers='"\u2028\0"')
    await desk.take(*rows)
    staged = await desk.take(*rows)
    assert staged.known == len(rows), "every odd id is found again"
    rows_back = await desk.rows(intake=desk.intake)
    assert [r.outcome.id for r in rows_back] == [r.id for r in rows], "ids come back unchanged"
    assert rows_back[0].outcome.metadata == {"\0": "\u2028"}, "metadata comes back unchanged"
    assert await desk.pending('"\u2028\0"') == [0], "headers are matched exactly"
    members = await desk.store.read_members("run", (await desk.plan(*range(len(rows)))).number)
    assert [m.id for m in members] == [r.id for r in rows], "ids come back unchanged"


CHECKS = (
    waits_for_commit,
    stages_in_chunks,
    names_duplicates,
    names_changes,
    keeps_changed,
    reruns_changed,
    replaces_refused,
    counts_models,
    forgets_uncommitted,
    adds_a_second_intake,
    knows_what_is_open,
    takes_any_text,
)
