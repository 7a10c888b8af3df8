"""
The clients of a runner: whose they are, and which of them are closed with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from batchwright._gateway import SdkGateway, default_client
from batchwright.config import Org, check_orgs
from batchwright.errors import ConfigurationError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

#: Label of the one org where the caller gives only a client, or nothing.
DEFAULT_ORG = "default"


class Clients:
    """The orgs of a runner, and the gateways that its calls use."""

    def __init__(self, orgs: Sequence[Org] | None, client: AsyncAnthropic | None) -> None:
        """
        Check and keep what the caller gave; without both the SDK's environment is read later.

        Raises:
            ConfigurationError: Both were given, or *orgs* is wrong.
        """
        if orgs is not None and client is not None:
            raise ConfigurationError("give either orgs or client, not both")
        if orgs is not None:
            check_orgs(orgs)
        self._orgs = tuple(orgs) if orgs is not None else None
        self._client = client
        self._own: AsyncAnthropic | None = None
        self._made: list[SdkGateway] = []

    def gateways(self) -> Mapping[str, tuple[Org, SdkGateway]]:
        """
        Return each org with a gateway through its client, by label.

        Raises:
            ConfigurationError: A client cannot be used.
        """
        orgs = self._orgs
        if orgs is None:
            client = self._client
            if client is None:
                # Made when first needed, and anew after a close: a client belongs to one loop.
                client = self._own = self._own or default_client()
            orgs = (Org(DEFAULT_ORG, client),)
        made = {org.label: (org, SdkGateway(org.client)) for org in orgs}
        self._made += [gateway for _, gateway in made.values()]
        return made

    async def aclose(self) -> None:
        """Close what was made here; the caller's own clients stay."""
        own, self._own = self._own, None
        made, self._made = self._made, []
        for gateway in made:
            await gateway.aclose()
        if own is not None:
            await own.close()
