"""What an error or a missing answer of AWS means: whether asking again makes sense, and what has to be done about it.

A missing right is named by the action that an IAM policy must allow and by what it was asked about. No error quotes a key, a
token or an encoded message.
"""

import re

from botocore import exceptions as sdk

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds
from streams.errors import EdgeError, GiveUp, TryAgain, Unreachable

RETRY_AFTER = Seconds(5.0)
"""How long to wait before a call is made again that AWS throttled or could not carry out; the SDK has tried three times."""
_THROTTLED = frozenset(
    (
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "TooManyRequestsException",
    )
)
_BUSY = frozenset(("ScalingActivityInProgress", "ResourceContention", "ResourceInUse"))
_FORBIDDEN = frozenset(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"))
_CREDENTIALS = frozenset(
    (
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "AuthFailure",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "MissingAuthenticationToken",
        "OptInRequired",
    )
)
_CAPACITY = frozenset(
    (
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientFreeAddressesInSubnet",
        "SpotMaxPriceTooLow",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "InstanceLimitExceeded",
        "LimitExceeded",
    )
)
_AT_LIMIT = re.compile(
    r"\b(?:min|max)(?:imum)?[ -]?size|greater than MaxSize|less than MinSize|below min|above max", re.IGNORECASE
)
_ENCODED = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
_SHOWN = 600
_FIRST_SERVER_ERROR = 500
_NO_CREDENTIALS = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.TokenRetrievalError,
    sdk.SSOError,
    sdk.ProfileNotFound,
)
SAYS_NO_CREDENTIALS = (
    "no usable AWS credentials were found: give the process a role (IRSA, pod identity, instance profile), or set AWS_PROFILE"
)


OF_SDK = (sdk.ClientError, sdk.BotoCoreError, OSError)
"""What the SDK raises because of an answer, a missing one, or its settings."""


def error_for_sdk(error: Exception, *, doing: str, to: str, action: str) -> EdgeError:
    """The error for an exception of the SDK. `action` is the right that the call takes, as IAM spells it."""
    if isinstance(error, sdk.ClientError):
        return _refusal(error, doing=doing, to=to, action=action)
    if isinstance(error, _NO_CREDENTIALS):
        # Not final: a role or a file of tokens may be given to the process while it runs.
        return _again(doing, to, SAYS_NO_CREDENTIALS, OutcomeDetail.FORBIDDEN)
    if isinstance(error, sdk.HTTPClientError | sdk.ConnectionError | sdk.ReadTimeoutError | OSError):
        answer = f"AWS gave no answer: {type(error).__name__}: {error}"[:_SHOWN]
        return Unreachable(doing=doing, to=to, answer=answer, after=RETRY_AFTER, detail=OutcomeDetail.NO_ANSWER)
    if isinstance(error, sdk.NoRegionError):
        return GiveUp(doing=doing, to=to, answer="no region is set: set aws.region or AWS_REGION", detail=OutcomeDetail.INVALID)
    if isinstance(error, sdk.ParamValidationError):
        return GiveUp(doing=doing, to=to, answer=str(error)[:_SHOWN], detail=OutcomeDetail.INVALID)
    answer = f"the SDK could not make sense of it: {type(error).__name__}: {error}"[:_SHOWN]
    return _again(doing, to, answer, OutcomeDetail.SERVER_ERROR)


def _refusal(error: sdk.ClientError, *, doing: str, to: str, action: str) -> EdgeError:
    details, meta = error.response.get("Error") or {}, error.response.get("ResponseMetadata") or {}
    # An encoded message says nothing to people, and may not be for everybody who reads a log.
    code, message = str(details.get("Code") or ""), _ENCODED.sub("", str(details.get("Message") or ""))[:_SHOWN]
    answer = f"{code}: {message}".strip(": ")
    plain = code.removeprefix("Client.").removeprefix("Server.").removesuffix("Fault")
    if plain in _FORBIDDEN:
        missing = f"the IAM right '{action}' on '{to}' is missing: {answer}"
        return GiveUp(doing=doing, to=to, answer=missing, detail=OutcomeDetail.FORBIDDEN)
    # Not final: credentials expire, and whoever renews them does not tell us.
    if plain in _CREDENTIALS:
        return _again(doing, to, f"AWS does not take our credentials: {answer}", OutcomeDetail.FORBIDDEN)
    passing = _passing(plain, int(meta.get("HTTPStatusCode") or 0))
    if passing is not None:
        return _again(doing, to, answer, passing)
    return GiveUp(doing=doing, to=to, answer=answer, detail=_final(plain, message))


def _passing(code: str, status: int) -> OutcomeDetail | None:
    """The error for a temporary obstacle; None for one that will not pass."""
    if code in _THROTTLED:
        return OutcomeDetail.THROTTLED
    if code in _BUSY:
        return OutcomeDetail.MOVED
    # A lack of capacity comes with a status of 500, too, but does not pass within a few tries.
    return OutcomeDetail.SERVER_ERROR if status >= _FIRST_SERVER_ERROR and code not in _CAPACITY else None


def _final(code: str, message: str) -> OutcomeDetail:
    """The detail of a final refusal."""
    if code in _CAPACITY:
        return OutcomeDetail.NO_CAPACITY
    if "NotFound" in code or "not found" in message.lower():
        return OutcomeDetail.NOT_FOUND
    return OutcomeDetail.AT_LIMIT if _AT_LIMIT.search(message) else OutcomeDetail.INVALID


def _again(doing: str, to: str, answer: str, detail: OutcomeDetail) -> TryAgain:
    return TryAgain(doing=doing, to=to, answer=answer, after=RETRY_AFTER, detail=detail)
