"""
What a person should know about a plan: why a run would stop, and what else stands out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchwright._plan.facts import Facts
from batchwright._plan.inquiry import PATIENCE
from batchwright._plan.models import ModelPlan
from batchwright._plan.past import Known
from batchwright._plan.times import LEAST_QUEUE
from batchwright.errors import BatchwrightError, ChangedItem, DuplicateItem, MassRefusal, OtherRun
from batchwright.listeners._board import told_items
from batchwright.report.plan import Remark

_KINDS: dict[type[BatchwrightError], str] = {
    OtherRun: "other_run",
    ChangedItem: "changed",
    MassRefusal: "mass_refusal",
}


def _remark(kind: str, message: str) -> Remark:
    return Remark(kind=kind, message=message)


def stops_of(facts: Facts) -> list[Remark]:
    """Return why a run would stop before it sends anything, in the order in which it would see."""
    return list(_stops(facts))


def _stops(facts: Facts) -> Iterator[Remark]:
    reading, sums = facts.reading, facts.reading.sums
    if sums.unusable:
        yield _remark("unusable", _told(reading.unusable[0].message, sums.unusable))
    if sums.duplicates:
        first = reading.doubles[0]
        if first.in_lines:
            message = (
                f"item id {first.id!r} occurs twice, in lines {first.first_place} and "
                f"{first.place}; each question needs its own id"
            )
        else:
            message = str(DuplicateItem(first.id, (first.first_place, first.place)))
        yield _remark("duplicate", _told(message, sums.duplicates))
    for error in _whole(facts):
        yield _remark(_KINDS[type(error)], str(error))
    refused = _refused(facts)
    if len(refused) == len(facts.orgs):
        for told in refused:
            yield _remark("account", told)


def _refused(facts: Facts) -> list[str]:
    """Return what the API said to each org that it does not let in; no key is no refusal."""
    return [
        f"{org.gateway.base_url} refuses the account of org {org.label}: {failure}"
        for org in facts.orgs
        if (failure := facts.answers.accounts.get(org.label)) and not failure.refused_unsent
    ]


def _told(message: str, count: int) -> str:
    return message if count == 1 else f"{message} ({count - 1:,} more like it)"


def _whole(facts: Facts) -> Iterator[BatchwrightError]:
    """Yield what only the whole of the items shows."""
    sums, info = facts.reading.sums, facts.past.info
    none_known = not any(sums.known.values()) and not sums.changed
    if info is not None and info.items and sums.passed and none_known:
        yield OtherRun(facts.run_id, info.items, sums.passed)
    if sums.changed and sums.first_changed is not None and facts.options.on_changed == "error":
        item_id, position = sums.first_changed
        yield ChangedItem(item_id, position, facts.run_id, sums.changed - 1)
    if (mass := facts.reading.refusals.verdict(sums.passed)) is not None:
        yield mass


# -- remarks --------------------------------------------------------------------------------------


def remarks_of(facts: Facts, models: Sequence[ModelPlan]) -> list[Remark]:
    """Return what else a person should know, the gravest first."""
    return [
        *_of_models(models),
        *_of_accounts(facts),
        *_of_items(facts),
        *_of_sending(facts),
        *_of_estimate(facts, models),
    ]


def _of_models(models: Sequence[ModelPlan]) -> Iterator[Remark]:
    for model in models:
        name, n = model.name, told_items(model.items)
        if model.standing == "unknown":
            yield _remark("unknown_model", f"the API knows no model {name!r}: {n} would fail")
        elif model.standing == "retired":
            yield _remark("retired_model", f"model {name!r} is retired: {n} would fail")
        elif not model.batches:
            yield _remark("no_batches", f"model {name!r} cannot be used in batches: {n} would fail")
        elif model.standing == "deprecated":
            when = f" and ends on {model.retires}" if model.retires else ""
            says = f"model {name!r} is deprecated{when}, says {model.source}"
            yield _remark("deprecated_model", says)
        if model.failing and not model.is_dead:
            yield _remark(
                "max_tokens",
                f"{told_items(model.failing)} would fail: {name!r} gives {model.ceiling:,} tokens "
                "at most; lower max_tokens",
            )


def _of_accounts(facts: Facts) -> Iterator[Remark]:
    past = facts.past
    if past.owner is not None:
        yield _remark(
            "owned", f"run {facts.run_id!r} is at work now: {past.owner}; a second one must wait"
        )
    refused = _refused(facts)
    if refused and len(refused) < len(facts.orgs):
        for told in refused:
            yield _remark("account", f"{told}; the run would go on with the others")


def _of_items(facts: Facts) -> Iterator[Remark]:
    sums = facts.reading.sums
    if facts.reading.positions.suspicious:
        yield _remark(
            "ids_like_positions",
            "the ids count the items up; if they were made from positions, a line added or moved "
            "gives an answer to another question: take ids from your data",
        )
    if sums.known[Known.HELD]:
        yield _remark(
            "held",
            f"{told_items(sums.known[Known.HELD])} of the run would be sent again only on your "
            "word: batchwright status tells why, and what to type",
        )
    if facts.others:
        yield _remark(
            "others",
            f"{told_items(facts.others)} of run {facts.run_id!r}, not passed now, would go along; "
            "that is in the sub-batches, and not in tokens and cost",
        )
    if facts.options.cache and facts.past.runs:
        yield _remark(
            "cache_of_runs",
            "answers of earlier runs are taken where an item had the same id there; a run finds "
            "the same questions under other ids too, and sends still less",
        )


def _of_sending(facts: Facts) -> Iterator[Remark]:
    sums = facts.reading.sums
    if facts.canary:
        yield _remark(
            "canary",
            f"one item of each shape, {facts.canary} in all, would go ahead by direct call, so "
            "that a mistake in all of them shows at once (the canary)",
        )
    if sums.oversized:
        yield _remark(
            "too_large_for_direct_calls",
            f"{told_items(sums.oversized)} would only go in batches: direct calls take "
            f"{facts.options.sync.max_bytes:,} bytes",
        )
    if facts.to_send > LEAST_QUEUE * len(facts.orgs):
        yield _remark(
            "queue",
            "the queue of an account holds 200,000 to 500,000 requests, by its tier; what does not "
            "fit waits for batches to end",
        )


def _of_estimate(facts: Facts, models: Sequence[ModelPlan]) -> Iterator[Remark]:
    strata = facts.reading.sample.strata
    if strata and (rough := _why_rough(facts)):
        yield _remark("rough", rough)
    for model in models:
        if not model.is_priced:
            yield _remark(
                "unknown_price", f"no price of {model.name!r} is known, so its cost is unknown"
            )
    if hidden := sum(stratum.elsewhere for stratum in strata if not stratum.counted):
        yield _remark(
            "unseen_files",
            f"documents that are only named, by URL or file id: {hidden:,}; how many tokens they "
            "have nobody but the API knows, so nothing bounds the input",
        )
    if cached := sum(stratum.cached for stratum in strata):
        yield _remark(
            "prompt_cache",
            f"{told_items(cached)} with the prompt cache: the low end takes every prompt as read "
            "from it, the high end as written to it",
        )
    if served := sum(stratum.at_server for stratum in strata):
        yield _remark(
            "server_tools",
            f"{told_items(served)} with tools that run at the server: what they read, and their "
            "fees, are not in the estimate",
        )
    if facts.options.retry_rejected:
        yield _remark(
            "retry_rejected", "answers that your validator rejects are asked for and paid again"
        )


def _why_rough(facts: Facts) -> str | None:
    """Return why the tokens were not counted, `None` where they were."""
    answers = facts.answers
    if answers.counted:
        return None
    how = "the estimate of tokens and cost is rough, from the bytes of the requests"
    if facts.offline:
        return f"the API was not asked (offline): {how}"
    failure = next(iter(answers.accounts.values()), answers.failure)
    if failure is not None and failure.refused_unsent:
        return f"there is no key, so nothing could be counted: {how}"
    if failure is not None:
        return f"no tokens could be counted ({failure}): {how}"
    return f"no tokens were counted within {PATIENCE:.0f} s: {how}"
