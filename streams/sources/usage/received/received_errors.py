"""Why a request of a sender is refused, as the sentence that it gets."""


class UnreadableRequest(ValueError):
    """The body is not what its headers say. A sender should not send it again."""


class RequestTooLarge(UnreadableRequest):
    """The body is, or says that it will be, beyond a bound."""


class UnreadableSeries(ValueError):
    """One series of a request has labels that no series has. The others of the request are taken."""
