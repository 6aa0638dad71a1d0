"""Policies of functions as Lambda keeps them: each alias has its own, and a URL answers only with both rights."""

import json
from typing import Any

import pytest
from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import LambdaBackend, LambdaFunction
from moto.awslambda.responses import LambdaResponse

Statement = dict[str, Any]
FORBIDDEN = {
    "Message": "Forbidden. For troubleshooting Function URL authorization issues, see:"
    " https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
}


def _gone() -> Exception:
    error: Exception = LambdaClientError(
        "ResourceNotFoundException", "The resource you requested does not exist."
    )
    error.code = 404  # type: ignore[attr-defined]
    return error


def _conflict(sid: str) -> Exception:
    message = f"The statement id ({sid}) provided already exists. Please provide a new statement id, or remove the"
    error: Exception = LambdaClientError(
        "ResourceConflictException", f"{message} existing statement."
    )
    error.code = 409  # type: ignore[attr-defined]
    return error


def statements(backend: LambdaBackend, function: str, qualifier: str | None) -> list[Statement]:
    """Return the policy of a function's alias, or of the function itself."""
    store = backend.__dict__.setdefault("det_policies", {})
    policy: list[Statement] = store.setdefault((_name(function), qualifier or ""), [])
    return policy


def answers_url(backend: LambdaBackend, function: str, alias: str) -> bool:
    """Return whether all callers may use the URL of an alias."""
    grants = [s for s in statements(backend, function, alias) if s["Principal"] == "*"]
    actions = {s["Action"] for s in grants}
    return {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"} <= actions


def may_be_invoked_by_strangers(backend: LambdaBackend, function: str, alias: str) -> bool:
    """Return whether any account may invoke an alias directly."""
    return any(
        s["Action"] == "lambda:InvokeFunction" and s["Principal"] == "*" and "Condition" not in s
        for s in statements(backend, function, alias)
    )


def policies_of_aliases(patch: pytest.MonkeyPatch) -> None:
    """Make moto store policies as Lambda does."""
    delete = LambdaBackend.delete_function

    def add(self: Any, function_name: str, qualifier: str, raw: str) -> Statement:
        function: LambdaFunction = self.get_function(function_name, qualifier)
        own, added = statements(self, function_name, qualifier), _statement(json.loads(raw))
        if any(s["Sid"] == added["Sid"] for s in own):
            raise _conflict(added["Sid"])
        suffix = f":{qualifier}" if qualifier else ""
        added["Resource"] = (
            f"arn:aws:lambda:{function.region}:{function.account_id}:function:{function.function_name}{suffix}"
        )
        own.append(added)
        return added

    def get(self: Any, function_name: str, qualifier: str | None = None) -> str:
        self.get_function(function_name, qualifier)
        own = statements(self, function_name, qualifier)
        if not own:
            raise _gone()
        policy = {"Version": "2012-10-17", "Id": "default", "Statement": own}
        return json.dumps({"Policy": json.dumps(policy), "RevisionId": "1"})

    def deleted(self: Any, function_name: str, qualifier: str | None = None) -> None:
        delete(self, function_name, qualifier)
        if not qualifier:
            store = self.__dict__.get("det_policies", {})
            for key in [key for key in store if key[0] == _name(function_name)]:
                del store[key]

    patch.setattr(LambdaBackend, "add_permission", add)
    patch.setattr(LambdaBackend, "get_policy", get)
    patch.setattr(LambdaBackend, "delete_function", deleted)
    patch.setattr(LambdaResponse, "remove_permission", _removed)


def _removed(self: Any) -> Any:
    """Remove a statement; moto ignores the alias."""
    function, sid = self.path.split("/")[-3], self.path.split("/")[-1].split("?")[0]
    own = statements(self.backend, function, self.querystring.get("Qualifier", [None])[0])
    if not any(s["Sid"] == sid for s in own):
        raise _gone()
    own[:] = [s for s in own if s["Sid"] != sid]
    return 204, {"status": 204}, "{}"


def _statement(request: dict[str, Any]) -> Statement:
    principal = request["Principal"]
    conditions: dict[str, dict[str, str]] = {}
    if "FunctionUrlAuthType" in request:
        conditions["StringEquals"] = {"lambda:FunctionUrlAuthType": request["FunctionUrlAuthType"]}
    if request.get("InvokedViaFunctionUrl"):
        conditions["Bool"] = {"lambda:InvokedViaFunctionUrl": "true"}
    if "SourceArn" in request:
        conditions["ArnLike"] = {"AWS:SourceArn": request["SourceArn"]}
    return {
        "Sid": request["StatementId"], "Effect": "Allow", "Action": request["Action"],
        "Principal": {"Service": principal} if principal.endswith(".amazonaws.com") else principal,
        **({"Condition": conditions} if conditions else {}),
    }  # fmt: skip


def _name(function: str) -> str:
    return function.rpartition("function:")[2].split(":")[0]
