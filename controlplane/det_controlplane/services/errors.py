"""What a use case may refuse, in the product's words. The API translates each into one status."""


class Refused(Exception):
    """Base of every refusal; the message names cause, id and the way out."""


class Missing(Refused):
    """The thing does not exist."""


class Invalid(Refused):
    """The request makes no sense as it is."""


class WrongState(Refused):
    """The thing is not in a state that allows this."""


class Taken(Refused):
    """Somebody else holds the name, identity or epoch."""


class Forbidden(Refused):
    """The caller may not do this."""


class NotSignedIn(Refused):
    """The credentials are missing, wrong or expired."""


class Unready(Refused):
    """It depends on something that has not happened yet: try again."""


class Oversized(Refused):
    """Too large for this way in."""
