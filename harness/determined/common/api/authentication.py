"""Signing in, under the names of Determined's package."""

import os
import pathlib
from typing import List, Optional

from determined.common import sign_in, token_store
from determined.common.api._session import Session, TaskSession, UnauthSession
from determined.common.api.certs import Cert
from determined.common.http import SignInFailed, UnauthenticatedError
from determined.common.master_address import canonical
from determined.common.sign_in import password_weakness, salt_password


class TokenStore(token_store.TokenStore):
    """The saved sessions of one cluster, in the file that both packages use."""

    def __init__(self, master_address: str, path: Optional[pathlib.Path] = None) -> None:
        super().__init__(canonical(master_address), None if path is None else str(path))

    def get_active_user(self) -> Optional[str]:
        return self.active_user()

    def get_all_users(self) -> List[str]:
        return self.users()

    def get_token(self, user: str) -> Optional[str]:
        return self.token(user)

    def set_token(self, username: str, token: str) -> None:
        self.keep(username, token)

    def drop_user(self, username: str) -> None:
        self.drop(username)

    def set_active(self, username: str) -> None:
        token = self.token(username)
        if token is None:
            raise SignInFailed(f"user '{username}' is not signed in to {self.master}")
        self.keep(username, token, activate=True)

    def clear_active(self) -> None:
        active = self.active_user()
        if active is not None:
            self.deactivate(active)


def login(
    master_address: str, username: str, password: str, cert: Optional[Cert] = None
) -> Session:
    """Sign in with a password. The session is not saved."""
    anonymous = UnauthSession(master_address, cert)
    token = sign_in.login(anonymous._connection, username, password)
    return Session(anonymous.master, username, token, cert)


def login_with_cache(
    master_address: str,
    requested_user: Optional[str] = None,
    password: Optional[str] = None,
    cert: Optional[Cert] = None,
) -> Session:
    """Return a session of a saved sign-in, of the environment, or of the password, and save a new one."""
    anonymous = UnauthSession(master_address, cert)
    store = TokenStore(anonymous.master)
    connection = anonymous._connection
    account = sign_in.sign_in(connection, store, username=requested_user, password=password)
    if account.token is None:  # in a task
        return login_from_task(anonymous.master, cert)
    return Session(anonymous.master, account.username, account.token, cert)


def login_from_task(master_address: str, cert: Optional[Cert]) -> TaskSession:
    """Return a session with the token of the task in which the program runs."""
    token = get_det_session_token_from_env()
    if not token:
        raise SignInFailed(
            "DET_SESSION_TOKEN is not set: this program does not run in a task",
            "use determined.common.api.authentication.login_with_cache outside of tasks",
        )
    return TaskSession(master_address, get_det_username_from_env() or "", token, cert)


def logout(
    master_address: str, requested_user: Optional[str], cert: Optional[Cert]
) -> Optional[str]:
    """End the saved session of a user, or of the active one; return the name, or None if there was no session."""
    store = TokenStore(master_address)
    username = requested_user or store.active_user()
    token = store.token(username) if username else None
    if username is None or token is None:
        return None
    store.drop(username)
    store.deactivate(username)
    try:
        Session(master_address, username, token, cert).post("/api/v1/auth/logout")
    except UnauthenticatedError:
        pass  # The session had ended already.
    return username


def logout_all(master_address: str, cert: Optional[Cert]) -> None:
    for username in TokenStore(master_address).users():
        logout(master_address, username, cert)


def salt_and_hash(password: str) -> str:
    return salt_password(password)


def check_password_complexity(password: Optional[str]) -> None:
    """Raise ValueError for a password that is too weak for a new account."""
    reason = password_weakness(password or "")
    if reason is not None:
        raise ValueError(reason)


def get_det_username_from_env() -> Optional[str]:
    return os.environ.get("DET_USER")


def get_det_password_from_env() -> Optional[str]:
    return os.environ.get("DET_PASS")


def get_det_user_token_from_env() -> Optional[str]:
    return os.environ.get("DET_USER_TOKEN")


def get_det_session_token_from_env() -> Optional[str]:
    return os.environ.get("DET_SESSION_TOKEN")
