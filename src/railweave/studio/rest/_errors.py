"""Every error of the API in one shape: a kind, a sentence, and problems with their places."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from railweave.errors import DesignError, InputError, RailweaveError, SizingError
from railweave.runs.jobs import Job, JobState, QueueFull, UnknownJob
from railweave.studio.rest._models import ErrorAnswer, ErrorBody, ErrorKind, ProblemModel

if TYPE_CHECKING:
    from railweave.errors import Problem

__all__ = [
    "ApiError",
    "add_handlers",
    "described",
    "error_bytes",
    "error_of_job",
    "job_error_body",
    "json_response",
]

_LOG: Final = logging.getLogger("railweave.rest")
_LONGEST: Final = 2000

#: status → when it is answered; the descriptions in the OpenAPI document
_STATUSES: Final = {
    400: "The body is no JSON (or no UTF-8), or the request cannot be read.",
    401: "A token is needed, and none or a wrong one was given.",
    403: "The request comes from another site, or names another host.",
    404: "There is no such job; ended jobs are forgotten after a while.",
    408: "The body did not arrive in time.",
    409: "The job has no result (yet): it waits, runs, failed or was cancelled.",
    413: "The body is too large.",
    415: "The body is not application/json, or it is compressed.",
    422: "A field or the design cannot be used; every problem is named, with line and column.",
    429: "Too many requests, or too many jobs of yours.",
    500: "A fault of railweave; the server's log has more.",
    503: "The server has all the work it can take; try again later.",
}


class ApiError(Exception):
    """An error that the client is told."""

    def __init__(
        self,
        status: int,
        kind: ErrorKind,
        message: str,
        problems: Sequence[ProblemModel] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.body = ErrorBody(kind=kind, message=_short(message), problems=list(problems))


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of an operation that may answer with these errors."""
    return {
        status: {"model": ErrorAnswer, "description": _STATUSES[status]}
        for status in sorted({401, 403, 429, 500, *statuses})
    }


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return JSON in ASCII, so that no text can fail to be encoded."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, dict(headers or {}), "application/json")


def error_bytes(error: ApiError) -> bytes:
    """Return the body of an error."""
    return json.dumps({"error": error.body.model_dump(mode="json")}, allow_nan=False).encode()


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _problems(problems: Iterable[Problem], most: int) -> list[ProblemModel]:
    return [
        ProblemModel(
            path=_short(p.path),
            line=p.line,
            column=p.column,
            message=_short(p.message),
            allowed=_short(p.allowed),
            nearest=_short(p.nearest),
        )
        for p in list(problems)[:most]
    ]


def _with_count(message: str, problems: Sequence[Problem], most: int) -> str:
    """Say the first problem and how many there are."""
    if not problems:
        return message
    if len(problems) == 1:
        return str(problems[0])
    shown = f"; the first {most} are listed" if len(problems) > most else ""
    return f"{problems[0]} (and {len(problems) - 1:,} more{shown})"


_KINDS: Final = {
    "engine": ErrorKind.FAILED,
    "time": ErrorKind.LIMIT,
    "memory": ErrorKind.LIMIT,
    "crash": ErrorKind.INTERNAL,
    "internal": ErrorKind.INTERNAL,
}


def job_error_body(job: Job, most: int) -> ErrorBody | None:
    """Return why a job failed; None where it did not."""
    if job.state is not JobState.FAILED:
        return None
    kind = ErrorKind.DESIGN if job.problems else _KINDS.get(job.error_kind, ErrorKind.INPUT)
    message = _short(_with_count(job.error, job.problems, most))
    return ErrorBody(kind=kind, message=message, problems=_problems(job.problems, most))


def error_of_job(job: Job, most: int) -> ApiError:
    """Return the error that answers a request whose (quick) job failed."""
    body = job_error_body(job, most)
    if body is None:
        return ApiError(503, ErrorKind.BUSY, "the server is closing; try again later")
    status = 500 if body.kind is ErrorKind.INTERNAL else 422
    return ApiError(status, body.kind, body.message, body.problems)


def _of_railweave(error: RailweaveError, most: int) -> ApiError:
    if isinstance(error, UnknownJob):
        return ApiError(404, ErrorKind.UNKNOWN, str(error))
    if isinstance(error, QueueFull):
        status, kind = (429, ErrorKind.LIMIT) if error.own else (503, ErrorKind.BUSY)
        return ApiError(status, kind, str(error), headers={"Retry-After": "5"})
    problems: Sequence[Problem] = ()
    if isinstance(error, DesignError):
        problems = error.problems
    elif isinstance(error, SizingError):
        problems = (error.problem,)
    if problems:
        message = _with_count(str(error), problems, most)
        return ApiError(422, ErrorKind.DESIGN, message, _problems(problems, most))
    if isinstance(error, InputError):
        return ApiError(422, ErrorKind.INPUT, str(error))
    return ApiError(422, ErrorKind.FAILED, str(error))


def _of_validation(error: RequestValidationError, most: int) -> ApiError:
    """Turn what pydantic says into problems; what was sent is not repeated."""
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        return ApiError(400, ErrorKind.REQUEST, "the body is not sound JSON")
    problems = []
    for item in found[:most]:
        path = ".".join(str(step)[:100] for step in item["loc"] if step != "body")
        context = item.get("ctx", {})
        allowed = str(context.get("expected", context.get("pattern", "")))
        problems.append(
            ProblemModel(
                path=_short(path),
                line=0,
                column=0,
                message=_short(str(item["msg"])),
                allowed=_short(allowed),
            )
        )
    first = problems[0]
    more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
    where = f"{first.path}: " if first.path else ""
    return ApiError(422, ErrorKind.REQUEST, f"{where}{first.message}{more}", problems)


def _of_http(error: HTTPException, request: Request) -> ApiError:
    if error.status_code == 404:
        return ApiError(404, ErrorKind.UNKNOWN, "there is nothing at this address")
    if error.status_code == 405:
        allow = ", ".join(_methods(request))
        text = f"this address does not take that method; allowed: {allow}"
        return ApiError(405, ErrorKind.METHOD, text, headers={"Allow": allow})
    return ApiError(400, ErrorKind.REQUEST, "the body cannot be read as JSON in UTF-8")


def _methods(request: Request) -> list[str]:
    """Return every method that the address takes; each may have a route of its own."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


def add_handlers(app: FastAPI, most_problems: int) -> None:
    """Have every error answered in the one shape."""

    def answer(error: ApiError) -> Response:
        return Response(error_bytes(error), error.status, error.headers, "application/json")

    async def handle(request: Request, error: Exception) -> Response:
        if isinstance(error, ApiError):
            return answer(error)
        if isinstance(error, RailweaveError):
            return answer(_of_railweave(error, most_problems))
        if isinstance(error, RequestValidationError):
            return answer(_of_validation(error, most_problems))
        if isinstance(error, HTTPException):
            return answer(_of_http(error, request))
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        text = f"a fault of railweave ({type(error).__name__}); the server's log has more"
        return answer(ApiError(500, ErrorKind.INTERNAL, text))

    for kind in (ApiError, RailweaveError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)
