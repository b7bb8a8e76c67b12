"""Bodies read strictly: JSON as RFC 8259 has it, in UTF-8, with every field written once.

Python's reader takes more than that: NaN, UTF-16, and of a field that is written twice the last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from railweave.studio.rest._errors import ApiError
from railweave.studio.rest._models import ErrorKind

__all__ = ["StrictRoute", "read_json"]

#: fields of one object; no request has as many, and each unknown one costs an error message
_MOST_FIELDS: Final = 100


def read_json(body: bytes) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Read a body.

    Raises:
        ApiError: it is no JSON, no UTF-8, has a field twice, or a number that is none.
    """
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_constant,
            parse_float=_float,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        raise _refused("the body cannot be read as JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _refused(f"the body is not sound JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise _refused("the body is nested too deep") from None
    except ValueError:  # Python reads no more digits than it can without much work
        raise _refused("the body has a number of too many digits") from None


def _refused(message: str) -> ApiError:
    return ApiError(400, ErrorKind.REQUEST, message)


def _constant(name: str) -> None:
    raise _refused(f"the body is not sound JSON: {name} is no number there")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _refused("the body has a number that is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MOST_FIELDS:
        text = f"the body has an object of {len(pairs):,} fields, and {_MOST_FIELDS} are allowed"
        raise _refused(text)
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _refused(f"the body has the field {twice[:100]!a} twice; write it once")
    return found


class _StrictRequest(Request):
    """A request whose body was read by :func:`read_json`."""

    value: Any = None

    async def json(self) -> Any:  # noqa: ANN401 - as the method it replaces
        return self.value


class StrictRoute(APIRoute):
    """A route which reads bodies by :func:`read_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if body := await strict.body():
                strict.value = read_json(body)
            return await handle(strict)

        return strictly
