"""Who is asking: the checks on headers that come before anything else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from batchwright.simulator._seeded import token
from batchwright.simulator.problems import ApiProblem, invalid
from batchwright.simulator.settings import WorldSettings

#: API versions that exist.
VERSIONS = ("2023-06-01", "2026-10-21")
_BETA = re.compile(r"[a-z0-9.-]+-\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A caller that has been let in.

    Attributes:
        key: The API key; never printed.
        workspace: Name of its workspace; what is before a `/` names the organization.
        version: `anthropic-version` of this call.
        betas: Names in `anthropic-beta`.
    """

    key: str = field(repr=False)
    workspace: str
    version: str = VERSIONS[-1]
    betas: tuple[str, ...] = ()


def api_key_of(headers: Mapping[str, str]) -> str | None:
    """Return the key of either header form, `authorization: Bearer …` or `x-api-key`."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and bearer.strip():
        return bearer.strip()
    return headers.get("x-api-key") or None


def workspace_of(key: str, settings: WorldSettings, seed: int) -> str | None:
    """Return the workspace a key belongs to, or None when the key is not known."""
    if key in settings.workspaces:
        return settings.workspaces[key]
    if settings.keys is None:
        return token(12, seed, "workspace", key)
    return settings.keys.get(key)


def workspace_headers(workspace: str, seed: int) -> dict[str, str]:
    """Return the ids of organization and workspace that every answer carries."""
    digits = f"{int.from_bytes(token(16, seed, workspace.partition('/')[0]).encode(), 'big'):032x}"
    organization = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
    return {
        "anthropic-organization-id": organization,
        "anthropic-workspace-id": f"wrkspc_01{token(22, seed, workspace)}",
    }


def admit(headers: Mapping[str, str], settings: WorldSettings, seed: int) -> Access:
    """Check credentials, version and betas of a call.

    Args:
        headers: Names in lower case; a header sent twice is joined by commas.
        settings: Where the known keys stand.
        seed: Of the world.

    Raises:
        ApiProblem: 401 without a known key, 400 for a missing version or an odd beta.
    """
    key = api_key_of(headers)
    if key is None:
        raise ApiProblem(401, "authentication_error", "x-api-key header is required")
    workspace = workspace_of(key, settings, seed)
    if workspace is None:
        raise ApiProblem(401, "authentication_error", "API key is invalid.")
    _check_workspace(headers, workspace, seed)
    return Access(key=key, workspace=workspace, version=_version(headers), betas=_betas(headers))


def _check_workspace(headers: Mapping[str, str], workspace: str, seed: int) -> None:
    asked = headers.get("anthropic-workspace-id")
    if asked and asked != workspace_headers(workspace, seed)["anthropic-workspace-id"]:
        message = "This credential has no access to the workspace of `anthropic-workspace-id`."
        raise ApiProblem(403, "permission_error", message)


def _version(headers: Mapping[str, str]) -> str:
    version = headers.get("anthropic-version")
    if not version:
        raise invalid("anthropic-version: header is required")
    if version not in VERSIONS:
        raise invalid(f"anthropic-version: {version!r} is not a valid version")
    return version


def _betas(headers: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in headers.get("anthropic-beta", "").split(",")]
    betas = tuple(name for name in names if name)
    for name in betas:
        # The list of real betas changes each week; their form does not.
        if not _BETA.fullmatch(name):
            raise invalid(f"Unexpected value(s) `{name}` for the `anthropic-beta` header.")
    return betas
