"""Signing in and out, and the users of a cluster."""

import argparse
import os
import sys
from typing import Any

from determined.common.http import ForbiddenError, Session, UnauthenticatedError
from determined.common.passwords import salted
from determined.common.sign_in import DEFAULT_USER, SignedIn, open_session, refused
from determined.common.sign_in import login as exchange
from determined.common.token_store import TokenStore

from det_cli import new_password, prompts
from det_cli.actions import costs
from det_cli.connection import V1, address, anonymous, connect, pages
from det_cli.errors import CommandError, UsageError, require_change
from det_cli.pipeline_identity import token_for
from det_cli.render import say, show
from det_cli.times import local

_COLUMNS = (
    ("User Id", lambda u: u.get("id")),
    ("Username", lambda u: u["username"]),
    ("Display Name", lambda u: u.get("displayName") or ""),
    ("Admin", lambda u: u["admin"]),
    ("Active", lambda u: u["active"]),
    ("Remote", lambda u: u.get("remote", False)),
    ("Agent Uid", lambda u: _agent(u, "agentUid")),
    ("Agent Gid", lambda u: _agent(u, "agentGid")),
    ("Agent User", lambda u: _agent(u, "agentUser")),
    ("Agent Group", lambda u: _agent(u, "agentGroup")),
)


def _agent(user: dict[str, Any], key: str) -> Any:
    value = (user.get("agentUserGroup") or {}).get(key)
    return "N/A" if value is None else value


def login(args: argparse.Namespace) -> None:
    if args.pipeline:
        return _login_pipeline(args)
    store = TokenStore(address(args))
    username = args.username or args.user or os.environ.get("DET_USER") or store.active_user()
    username = username or DEFAULT_USER
    password = os.environ.get("DET_PASS")
    if password is None:
        if store.master.startswith("https:"):
            anonymous(args).get("/info")  # whether to trust it is asked before any password
        question = f"Password for user '{username}': "
        password = prompts.password(question, "set DET_PASS, or give it there as a line")
    store.keep(username, _token(args, username, password), activate=True)
    say(f"Signed in to {store.master} as {username}.")
    return None


def _login_pipeline(args: argparse.Namespace) -> None:
    """Exchange the token of the CI service, so that no secret has to be stored there."""
    if args.username:
        raise UsageError(
            "--pipeline takes no user name", "the cluster's configuration says who this pipeline is"
        )
    session = anonymous(args)
    audience = args.audience or f"determined:{session.get('/info')['cluster_id']}"
    told = session.post("/api/v1/auth/pipeline", {"token": token_for(audience)})
    store, username = TokenStore(address(args)), told["user"]["username"]
    store.keep(username, told["token"], activate=True)
    say(f"Signed in to {store.master} as {username}, until {told['expiresAt']}.")


def _token(args: argparse.Namespace, username: str, password: str) -> str:
    try:
        return exchange(anonymous(args), username, password)
    except UnauthenticatedError as e:
        raise refused(username, password, e) from e
    except ForbiddenError as e:
        e.message = f"the cluster refused user '{username}': {e.message}"
        raise


def logout(args: argparse.Namespace) -> None:
    store = TokenStore(address(args))
    active = args.user or store.active_user() or DEFAULT_USER
    names = store.users() if args.all else [active]
    for name in names:
        _end_session(store, name)
        say(f"Signed {name} out of {store.master}.")
    _say_who_goes_on(store)


def _say_who_goes_on(store: TokenStore) -> None:
    """Say as whom commands act from now on, where somebody is still signed in."""
    if os.environ.get("DET_USER_TOKEN"):
        say("Commands go on by the token in DET_USER_TOKEN.")
        return
    name = os.environ.get("DET_USER") or store.active_user() or DEFAULT_USER
    if store.token(name) is not None:
        say(
            f"Commands go on as {name}, who is signed in here, too: `det user logout --all` ends that."
        )


def _end_session(store: TokenStore, username: str) -> None:
    token = store.token(username)
    store.drop(username)
    store.deactivate(username)
    if token is None:
        return
    headers = {"Authorization": f"Bearer {token}"}
    try:
        open_session(store.master, headers).post(V1 + "/auth/logout")
    except UnauthenticatedError:
        say(f"The session of {username} had already ended.")


def whoami(args: argparse.Namespace) -> None:
    user = connect(args).get(V1 + "/me")["user"]
    print(f"You are logged in as user '{user['username']}'")


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    shown = [u for u in pages(session, "/users", "users") if args.all or u["active"]]
    show(args, (*_COLUMNS, *costs.of_users(session, shown)), shown)


def create(args: argparse.Namespace) -> None:
    if args.remote and args.password:
        raise UsageError("a remote user has no password here", "leave --password away")
    session = connect(args)
    password = args.password
    if password is None and not args.remote:
        password = _new_password(args.username)
    if password:
        new_password.check(password)
    new = {"username": args.username, "admin": args.admin, "active": True, "remote": args.remote}
    body = {"user": new, "password": salted(password or ""), "isHashed": True}
    session.post(V1 + "/users", body)
    print(f"Created user '{args.username}'")


def change_password(args: argparse.Namespace) -> None:
    session = connect(args)
    me = session.get(V1 + "/me")["user"]["username"]
    target = args.target_user or me
    id = id_of(session, target)
    current = _current_password(me) if target == me else {}
    password = _new_password(target)
    new_password.check(password)
    change = {"password": salted(password), "isHashed": True, "endTokens": args.end_tokens}
    change |= current
    session.patch(f"{V1}/users/{id}", change)
    if target == me:
        _renew(args, session, password)
    print(f"Changed the password of user '{target}'")


def _renew(args: argparse.Namespace, session: SignedIn, password: str) -> None:
    """Sign in again after a change of password, which ended the old sessions."""
    store = TokenStore(address(args))
    username = session.username
    store.keep(username, exchange(anonymous(args), username, password))


def _current_password(username: str) -> dict[str, str]:
    """Return the field of the current password, which DET_PASS or the terminal gives.

    Scripts for Determined write only the new password to standard input, so that it is not read from there.
    """
    password = os.environ.get("DET_PASS")
    if password is None and sys.stdin.isatty():
        question = f"Current password of user '{username}' (empty if there is none): "
        password = prompts.password(question, "set DET_PASS")
    return {} if password is None else {"currentPassword": salted(password)}


def _new_password(username: str) -> str:
    """Return the password in DET_NEW_PASS, or else the one that is given twice."""
    password = os.environ.get("DET_NEW_PASS")
    if password:
        return password
    elsewhere = "set DET_NEW_PASS, or give it there twice, as two lines"
    password = prompts.password(f"New password for user '{username}': ", elsewhere)
    if prompts.password("Again: ", elsewhere) != password:
        raise CommandError("the two passwords differ: nothing was changed")
    return password


def id_of(session: Session, username: str) -> int:
    return int(session.get(f"{V1}/users/{username}/by-username")["user"]["id"])


def _patch(args: argparse.Namespace, change: dict[str, Any]) -> dict[str, Any]:
    session = connect(args)
    told = dict(session.patch(f"{V1}/users/{id_of(session, args.target_user)}", change) or {})
    if "username" in change:
        TokenStore(address(args)).rename(args.target_user, told["user"]["username"])
    return told


def list_sessions(args: argparse.Namespace) -> None:
    session = connect(args)
    columns = (
        ("ID", lambda s: s["id"]),
        ("Signed in", lambda s: local(s["createdAt"])),
        ("Ends", lambda s: local(s["expiresAt"]) or "never"),
        ("From", lambda s: s["address"]),
        ("By", lambda s: s["program"]),
        ("", lambda s: "this one" if s["current"] else ""),
    )
    show(args, columns, session.get(_sessions_path(args, session))["sessions"])


def end_sessions(args: argparse.Namespace) -> None:
    if bool(args.session_id) is args.others:
        raise UsageError("say which sessions to end", "give their ids, or --others")
    session = connect(args)
    path = _sessions_path(args, session)
    if args.others:
        ended = session.delete(path)["ended"]
        print(f"Ended {ended} session{'' if ended == 1 else 's'}")
    for session_id in args.session_id:
        session.delete(f"{path}/{session_id}")
        print(f"Ended session {session_id}")


def _sessions_path(args: argparse.Namespace, session: Session) -> str:
    user_id = id_of(session, args.of) if args.of else session.get(f"{V1}/me")["user"]["id"]
    return f"{V1}/users/{user_id}/sessions"


def activate(args: argparse.Namespace) -> None:
    _patch(args, {"active": True})
    print(f"Activated user '{args.target_user}'")


def deactivate(args: argparse.Namespace) -> None:
    told = _patch(args, {"active": False, "pauseWork": args.pause_work})
    print(f"Deactivated user '{args.target_user}'")
    paused, running = (told.get(f"{kind}Experiments") or [] for kind in ("paused", "running"))
    if paused:
        print(f"Paused experiments of that user: {_listed(paused)}")
    for kind, done in (("paused", "Paused"), ("ended", "Ended")):
        for task in told.get(f"{kind}Tasks") or []:
            print(f"{done} {_called(task)}")
    if running:
        say(f"Experiments of that user go on: {_listed(running)}")
        say("--pause-work pauses them, and `det experiment pause ID` one of them.")
    tasks = told.get("runningTasks") or []
    for task in tasks:
        say(f"Goes on: {_called(task)}")
    if tasks:
        say("--pause-work pauses generic tasks and ends the others.")


def _called(task: dict[str, Any]) -> str:
    """Return a task's name after its kind, which is also the name of its commands."""
    kind = str(task["kind"])
    return f"{'task' if kind == 'generic' else kind} {task['taskId']} ({task['name']})"


def _listed(ids: list[int]) -> str:
    return ", ".join(str(id) for id in ids)


def rename(args: argparse.Namespace) -> None:
    _patch(args, {"username": args.new_username})
    print(f"Renamed user '{args.target_user}' to '{args.new_username}'")


def edit(args: argparse.Namespace) -> None:
    change: dict[str, Any] = {}
    if args.display_name is not None:
        change["displayName"] = args.display_name
    if args.username is not None:
        change["username"] = args.username
    for flag in ("remote", "active", "admin"):
        if getattr(args, flag) is not None:
            change[flag] = getattr(args, flag) == "true"
    require_change(change)
    _patch(args, change)
    print(f"Changed user '{args.target_user}'")


def link_with_agent_user(args: argparse.Namespace) -> None:
    keys = ("uid", "user", "gid", "group")
    link = {f"agent{key.capitalize()}": getattr(args, f"agent_{key}") for key in keys}
    _patch(args, {"agentUserGroup": link})
    print(f"Linked user '{args.target_user}' with {args.agent_user}:{args.agent_group}")
