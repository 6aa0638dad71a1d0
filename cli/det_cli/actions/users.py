"""`det user`: sign in, sign out and manage users."""

import argparse
import os
import sys
from typing import Any

from determined.common.http import ForbiddenError, Session, UnauthenticatedError
from determined.common.sign_in import DEFAULT_USER, SignedIn, open_session, refused, salt_password
from determined.common.sign_in import login as exchange
from determined.common.token_store import TokenStore

from det_cli import prompts
from det_cli.actions import costs
from det_cli.connection import V1, address, anonymous, connect, pages
from det_cli.errors import CommandError, UsageError, require_change
from det_cli.pipeline_identity import token_for
from det_cli.render import local_time, say, show

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
            anonymous(args).get("/info")  # asks for trust in the certificate before the password
        question = f"Password for user '{username}': "
        password = prompts.password(question, "set DET_PASS or pipe the password")
    store.keep(username, _token(args, username, password), activate=True)
    say(f"Signed in to {store.master} as {username}.")
    return None


def _login_pipeline(args: argparse.Namespace) -> None:
    """Sign in with the token of a CI service, so that the pipeline stores no secret."""
    if args.username:
        raise UsageError(
            "--pipeline takes no user name", "the cluster's configuration maps pipelines to users"
        )
    session = anonymous(args)
    audience = args.audience or f"determined:{session.get('/info')['cluster_id']}"
    response = session.post("/api/v1/auth/pipeline", {"token": token_for(audience)})
    store, username = TokenStore(address(args)), response["user"]["username"]
    store.keep(username, response["token"], activate=True)
    say(f"Signed in to {store.master} as {username}, until {response['expiresAt']}.")


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
    _print_remaining_user(store)


def _print_remaining_user(store: TokenStore) -> None:
    """Print the user of later commands if another user or a token is still signed in."""
    if os.environ.get("DET_USER_TOKEN"):
        say("Later commands use the token in DET_USER_TOKEN.")
        return
    name = os.environ.get("DET_USER") or store.active_user() or DEFAULT_USER
    if store.token(name) is not None:
        say(
            f"Later commands run as {name}, who is still signed in: `det user logout --all` signs out all users."
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
    users = [u for u in pages(session, "/users", "users") if args.all or u["active"]]
    show(args, (*_COLUMNS, *costs.of_users(session, users)), users)


def create(args: argparse.Namespace) -> None:
    if args.remote and args.password:
        raise UsageError("a remote user has no password", "leave --password out")
    session = connect(args)
    password = args.password
    if password is None and not args.remote:
        password = _new_password(args.username)
    if password:
        prompts.check_new_password(password)
    user = {"username": args.username, "admin": args.admin, "active": True, "remote": args.remote}
    body = {"user": user, "password": salt_password(password or ""), "isHashed": True}
    session.post(V1 + "/users", body)
    print(f"Created user '{args.username}'")


def change_password(args: argparse.Namespace) -> None:
    session = connect(args)
    me = session.get(V1 + "/me")["user"]["username"]
    target = args.target_user or me
    id = id_of(session, target)
    current = _current_password(me) if target == me else {}
    password = _new_password(target)
    prompts.check_new_password(password)
    change = {"password": salt_password(password), "isHashed": True, "endTokens": args.end_tokens}
    change |= current
    session.patch(f"{V1}/users/{id}", change)
    if target == me:
        _renew(args, session, password)
    print(f"Changed the password of user '{target}'")


def _renew(args: argparse.Namespace, session: SignedIn, password: str) -> None:
    """Sign in again, because the password change ended the previous sessions."""
    store = TokenStore(address(args))
    username = session.username
    store.keep(username, exchange(anonymous(args), username, password))


def _current_password(username: str) -> dict[str, str]:
    """Return the currentPassword field of the request. The password comes from DET_PASS or the terminal.

    It does not come from standard input, because scripts for Determined write only the new password there.
    """
    password = os.environ.get("DET_PASS")
    if password is None and sys.stdin.isatty():
        question = f"Current password of user '{username}' (empty if there is none): "
        password = prompts.password(question, "set DET_PASS")
    return {} if password is None else {"currentPassword": salt_password(password)}


def _new_password(username: str) -> str:
    """Return the password from DET_NEW_PASS, or ask for it twice."""
    password = os.environ.get("DET_NEW_PASS")
    if password:
        return password
    elsewhere = "set DET_NEW_PASS, or write the password to standard input twice, as two lines"
    password = prompts.password(f"New password for user '{username}': ", elsewhere)
    if prompts.password("Again: ", elsewhere) != password:
        raise CommandError("the two passwords differ: the password was not changed")
    return password


def id_of(session: Session, username: str) -> int:
    return int(session.get(f"{V1}/users/{username}/by-username")["user"]["id"])


def _patch(args: argparse.Namespace, change: dict[str, Any]) -> dict[str, Any]:
    session = connect(args)
    response = dict(session.patch(f"{V1}/users/{id_of(session, args.target_user)}", change) or {})
    if "username" in change:
        TokenStore(address(args)).rename(args.target_user, response["user"]["username"])
    return response


def list_sessions(args: argparse.Namespace) -> None:
    session = connect(args)
    columns = (
        ("ID", lambda s: s["id"]),
        ("Signed in", lambda s: local_time(s["createdAt"])),
        ("Ends", lambda s: local_time(s["expiresAt"]) or "never"),
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
    response = _patch(args, {"active": False, "pauseWork": args.pause_work})
    print(f"Deactivated user '{args.target_user}'")
    paused, running = (response.get(f"{kind}Experiments") or [] for kind in ("paused", "running"))
    if paused:
        print(f"Paused experiments of that user: {_join(paused)}")
    for kind, verb in (("paused", "Paused"), ("ended", "Ended")):
        for task in response.get(f"{kind}Tasks") or []:
            print(f"{verb} {_task_label(task)}")
    if running:
        say(f"Experiments of that user continue: {_join(running)}")
        say("--pause-work pauses all of them; `det experiment pause ID` pauses one.")
    tasks = response.get("runningTasks") or []
    for task in tasks:
        say(f"Still running: {_task_label(task)}")
    if tasks:
        say("--pause-work pauses generic tasks and ends other tasks.")


def _task_label(task: dict[str, Any]) -> str:
    """Return the kind, id and name of a task. The kind is also the name of its command group."""
    kind = str(task["kind"])
    return f"{'task' if kind == 'generic' else kind} {task['taskId']} ({task['name']})"


def _join(ids: list[int]) -> str:
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
