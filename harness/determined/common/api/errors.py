"""The errors that the SDK raises when the cluster rejects a request, under Determined's names."""

from determined.common.failures import SignInFailed
from determined.common.http import APIError as APIException
from determined.common.http import ConflictError
from determined.common.http import ForbiddenError as ForbiddenException
from determined.common.http import MasterUnreachableError as MasterNotFoundException
from determined.common.http import NotFoundError as NotFoundException
from determined.common.http import UnauthenticatedError as UnauthenticatedException

BadRequestException = APIException

__all__ = [
    "APIException",
    "BadRequestException",
    "ConflictError",
    "ForbiddenException",
    "MasterNotFoundException",
    "NotFoundException",
    "SignInFailed",
    "UnauthenticatedException",
]
