"""
`validate`: is a report one? Offline, without store and key.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from batchwright.cli._exits import Exit, Stumble
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, taking_groups
from batchwright.cli._voice import say, say_json
from batchwright.report.findings import Finding
from batchwright.report.rules import policies, rules
from batchwright.report.selftest import self_test
from batchwright.report.validation import validate as validated

#: Findings of one document that are printed; --json prints all.
SHOWN = 50


def register(app: typer.Typer) -> None:
    """Add the command of this file to *app*."""
    app.command()(taking_groups(validate))


def validate(
    *,
    documents: Annotated[
        list[Path] | None,
        typer.Argument(help="Reports to look at; - reads one from stdin.", metavar="REPORT.json"),
    ] = None,
    try_itself: Annotated[
        bool,
        typer.Option(
            "--self-test", help="Try the validator on good reports and on each broken in one place."
        ),
    ] = False,
    list_rules: Annotated[bool, typer.Option("--rules", help="List the rules.")] = False,
    manner: Manner,
) -> None:
    """
    Check that a report keeps its contract: its shape, its sums, and what it says was done.

    Needs no store, no key and no network. Each finding names the place in the report and the rule
    that is broken. Exit status: 0 all is in order, 1 a rule is broken, 2 no such file or no JSON.

    \b
    Examples:
      batchwright validate report.json
      batchwright report | batchwright validate -
      batchwright validate --rules
      batchwright validate --self-test
    """

    async def work(_: Progressing) -> Exit:
        if list_rules:
            return _list_rules(manner)
        if try_itself:
            return _try_itself(manner)
        if not documents:
            raise Stumble("name a report to look at, or --self-test, or --rules")
        found = {str(path): _look_at(path) for path in documents}
        if manner.json:
            say_json(_json_of(found))
        else:
            for name, findings in found.items():
                _tell(name, findings, quiet=manner.quiet)
        return Exit.FAILED if any(found.values()) else Exit.DONE

    perform(work, manner)


def _look_at(path: Path) -> list[Finding]:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Stumble(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return validated(data)
    except ValueError as error:
        raise Stumble(f"{path} is not JSON: {error}") from None


def _tell(name: str, findings: Sequence[Finding], *, quiet: bool) -> None:
    if not findings:
        if not quiet:
            say(f"{name}: in order; all {len(rules())} rules hold")
        return
    say(f"{name}: {len(findings):,} {'finding' if len(findings) == 1 else 'findings'}")
    for finding in findings[:SHOWN]:
        say(f"  {finding.place}: {finding.problem}")
        say(f"      {finding.rule}: {rules()[finding.rule].text}")
    if len(findings) > SHOWN:
        say(f"  … and {len(findings) - SHOWN:,} more; --json tells all")


def _json_of(found: dict[str, list[Finding]]) -> dict[str, Any]:
    return {
        "exit": Exit.FAILED if any(found.values()) else Exit.DONE,
        "documents": [
            {"file": name, "valid": not findings, "findings": [_one(f) for f in findings]}
            for name, findings in found.items()
        ],
    }


def _one(finding: Finding) -> dict[str, str]:
    return {"rule": finding.rule, "place": finding.place, "problem": finding.problem}


def _list_rules(manner: Manner) -> Exit:
    if manner.json:
        say_json({"exit": Exit.DONE, "rules": {rule.id: rule.text for rule in rules().values()}})
        return Exit.DONE
    for policy in policies():
        say(f"{policy.name}: {policy.about}")
        for rule in policy.rules:
            say(f"  {rule.id.partition('/')[2]}: {rule.text}")
    return Exit.DONE


def _try_itself(manner: Manner) -> Exit:
    cases = list(self_test())
    failed = [case for case in cases if not case.passed]
    good = sum(case.rule is None for case in cases)
    code = Exit.FAILED if failed else Exit.DONE
    if manner.json:
        told = {"accepted": good, "refused": len(cases) - good, "failed": [str(c) for c in failed]}
        say_json({"exit": code, **told})
        return code
    for case in failed:
        say(str(case))
    if failed:
        say(f"{len(failed)} of {len(cases)} cases failed")
    elif not manner.quiet:
        changed = len(cases) - good
        say(f"{good} documents accepted; {changed} broken ones refused, each by the right rule")
    return code
