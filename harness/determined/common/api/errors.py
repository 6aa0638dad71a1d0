"""The errors that the SDK raises when the cluster rejects a request, under Determined's names."""

from determined.common.http import APIError as APIException
from determined.common.http import ConflictError, SignInFailed
from determined.common.http import ForbiddenError as ForbiddenException
from determined.common.http import MasterUnreachableError as MasterNotFoundException
from determined.common.http import NotFoundError as NotFoundException
from determined.common.http import RequestFailed as BadRequestException
from determined.common.http import UnauthenticatedError as UnauthenticatedException

InvalidCredentialsException = SignInFailed


class BadResponseException(Exception):
    """Not raised. Programs for Determined name this class and its neighbours in `except` clauses."""


class EmptyResultException(BadResponseException):
    pass


class CorruptTokenCacheException(Exception):
    pass


class CorruptCertificateCacheException(Exception):
    pass


class DeleteFailedException(APIException):
    pass


__all__ = [
    "APIException",
    "BadRequestException",
    "BadResponseException",
    "ConflictError",
    "CorruptCertificateCacheException",
    "CorruptTokenCacheException",
    "DeleteFailedException",
    "EmptyResultException",
    "ForbiddenException",
    "InvalidCredentialsException",
    "MasterNotFoundException",
    "NotFoundException",
    "SignInFailed",
    "UnauthenticatedException",
]
