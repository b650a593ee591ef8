"""What `brokerage doctor` says of the keys of tokens, for each capability that issues tokens."""

from functools import partial

from cluster.control_index import TOKEN_KEYS_ID
from service.capability import Check
from service.health.checks import Finding, get_within_timeout, run_check, warning
from service.services import Services
from service.token import read_token_sealer

_SUBJECT = "tokens"


def token_check(refused: str) -> Check:
    """Return the check; `refused` is what is refused without such keys. Requires `read` on `control`."""
    return Check(_SUBJECT, partial(_check, refused=refused))


async def _check(services: Services, refused: str) -> Finding | None:
    """Return the finding, None without the index that has them: that is a finding of its own."""
    control = services.connection.control_index

    async def check() -> Finding:
        sealer = await read_token_sealer(services.engine, control)
        return Finding(subject=_SUBJECT, detail="can be issued") if sealer else _no_keys(control, refused)

    status, _ = await get_within_timeout(services.engine, f"/{control}?flat_settings=true")
    return None if status == 404 else await run_check(_SUBJECT, check)


def _no_keys(control: str, refused: str) -> Finding:
    return warning(
        _SUBJECT,
        f"{refused} are refused: the keys of tokens are missing",
        f"{control} has no document {TOKEN_KEYS_ID}.",
        "The next `brokerage index update` or `brokerage index reindex SOURCE` creates it.",
    )
