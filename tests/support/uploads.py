"""Archives of code that a client has uploaded before it asks for work with them."""

import hashlib

from tests.support.api import Api, Caller


def uploaded(api: Api, owner: Caller, content: bytes) -> str:
    """Return the id of a context with this content."""
    body = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    context = str(owner.post("/api/v1/contexts", body)["contextId"])
    api.ctx.objects.put(f"contexts/{context}.tar.gz", content)
    return context
