"""Logins and the tokens they give."""

from __future__ import annotations

import hmac
import secrets

__all__ = ["Accounts"]


class Accounts:
    """One user and the tokens that are valid now.

    Args:
        username: Who may log in.
        password: With what.
    """

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self._tokens: set[str] = set()

    def log_in(self, username: str, password: str) -> str | None:
        """Return a token, or None if the login is wrong."""
        known = hmac.compare_digest(username.encode(), self._username.encode())
        if not (known & hmac.compare_digest(password.encode(), self._password.encode())):
            return None
        return self._issue()

    def renew(self, token: str) -> str | None:
        """Return a new token for a valid one."""
        return self._issue() if self.valid(token) else None

    def valid(self, token: str) -> bool:
        """Return whether a token is valid."""
        return token in self._tokens

    def expire(self) -> None:
        """Void every token."""
        self._tokens.clear()

    def _issue(self) -> str:
        token = secrets.token_urlsafe(32)
        self._tokens.add(token)
        return token
