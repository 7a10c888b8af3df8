"""
What the simulation has found in this library, each as small as it could be made.

Every line broke a promise once. It stays here, so that the same mistake is not made again.
"""

from __future__ import annotations

import pytest
from tests.simulation.__main__ import _parser, _scenario
from tests.simulation.checkers import violations
from tests.simulation.levels import play_at

#: What had gone wrong, and the arguments of `python -m tests.simulation` that showed it.
FOUND = {
    "one unknown id at the head of the results made our own batch a stranger's": (
        "--seed 506 --faults late_create,results_unknown_id,bad_item"
    ),
    "a jump of the wall clock put a lost create outside the window it is looked for in": (
        "--seed 582 --faults hang_create,error_500_after,wall_jumps"
    ),
    "a jump of the wall clock made a batch overdue before its time": (
        "--seed 656 --faults get_404,late_expiry,wall_jumps"
    ),
    "one empty body after four broken ones counted as proof that answers are missing": (
        "--seed 914 --faults results_empty,results_500,stuck_batch"
    ),
    "a lost create took the batch of one that was still uploading": (
        "--seed 321 --faults lost_before,hang_create,results_404"
    ),
    "an adopted batch that could not be proved was harvested all the same": (
        "--seed 956 --faults lost_create,slow_commit,results_500,foreign_batches"
    ),
    "a batch adopted for the wrong shard was hidden from the right one": (
        "--seed 1446 --crash 45,117 --faults lost_before,results_empty,stuck_batch"
    ),
    "the POST left hours after the time written into its intent": (
        "--seed 758 --crash 28 --act pause --faults lost_create,store_slow,laptop_sleep"
    ),
    "a listing from before a long sleep was judged by the time after it": (
        "--seed 1510 --faults lost_create,slow_commit,too_large,laptop_sleep"
    ),
    "what waited was taken by others while the lock was waited for": (
        "--seed 511 --faults store_slow,bad_item"
    ),
    "empty bodies were believed, and what they lacked was sent before they were read again": (
        "--seed 646 --crash 15,39,144 --faults lost_before,late_create,garbled_create,edge_429,"
        "refused_connect,cut_results,results_doubled,results_empty --store sqlite "
        "--successor elsewhere"
    ),
    "an owner woke up and asked directly what its successor had an answer to": (
        "--seed 0 --crash 36 --act pause --switch progressive"
    ),
    "a page of the list without a batch on it was taken for the end of the list": (
        "--seed 2381 --faults late_create,hang_create,error_500_after,edge_429,slow_commit,"
        "too_large,small_pages,late_expiry,canceled_elsewhere"
    ),
}


@pytest.mark.parametrize("arguments", FOUND.values(), ids=list(FOUND))
def test_is_not_found_again(arguments: str):
    scenario = _scenario(_parser().parse_args(arguments.split()))
    assert violations(play_at(scenario)) == [], scenario.line()
