"""The contact of the operator, for partners and for reports of vulnerabilities."""

import re

from cluster.settings import SettingError

CONTACT_SETTING = "BROKERAGE_CONTACT"

_MAIL = re.compile(r"[^\s@<>\"']+@[^\s@<>\"']+\.[^\s@<>\"']+")
_PAGE = re.compile(r"https://[^\s<>\"'/]+[^\s<>\"']*")


def require_contact(contact: str) -> None:
    """Raise SettingError unless it is empty, a mail address or an https URL."""
    if contact and not (_MAIL.fullmatch(contact) or _PAGE.fullmatch(contact)):
        raise SettingError(
            f"{CONTACT_SETTING} is {contact!r}: use a mail address such as api@broker.example, or an https URL."
        )


def contact_uri(contact: str) -> str:
    """Return the URI of a contact, `mailto:` for a mail address; empty without one."""
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) else contact
