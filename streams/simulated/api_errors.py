"""Refusals of the simulated API server: a status code and a message, like Kubernetes' own."""

from http import HTTPStatus

from schemas.names import PodName
from schemas.units import Seconds
from streams.clients.kube.refusals import BUDGET_CAUSE


# not one of the clients' errors: the HTTP paths need its status code and its cause for programs
class ApiRefusal(Exception):
    """A call that the simulated cluster did not carry out."""

    def __init__(self, code: HTTPStatus, message: str, *, after: Seconds | None = None, cause: str = "") -> None:
        """`after`: when asking again makes sense, in seconds. `cause`: its name for programs."""
        super().__init__(message)
        self.code, self.message, self.after, self.cause = code, message, after, cause


def not_found(name: str) -> ApiRefusal:
    """No pod has this name."""
    return ApiRefusal(HTTPStatus.NOT_FOUND, f'pods "{name}" not found')


def other_uid(pod: PodName, uid: str) -> ApiRefusal:
    """A pod has this name, but it is another one."""
    # the words are the API server's own, as people search for them and clients show them
    message = f"the UID in the precondition ({pod.uid}) does not match the UID in record ({uid}); the object might be another one"
    return ApiRefusal(HTTPStatus.CONFLICT, f'operation cannot be fulfilled on pods "{pod.name}": {message}')


def changed_since(name: str) -> ApiRefusal:
    """The pod is no longer as the caller read it."""
    message = "the object has been modified; please apply your changes to the latest version and try again"
    return ApiRefusal(HTTPStatus.CONFLICT, f'operation cannot be fulfilled on pods "{name}": {message}')


def budget_used_up(name: str, keep: int) -> ApiRefusal:
    """An eviction that would leave too few ready pods."""
    message = f"cannot evict pod '{name}' as it would violate its disruption budget: {keep} pods must stay ready"
    # 10 s is what an API server says while its budget controller is behind; for a used-up budget a real one names no pause
    return ApiRefusal(HTTPStatus.TOO_MANY_REQUESTS, message, after=Seconds(10.0), cause=BUDGET_CAUSE)
