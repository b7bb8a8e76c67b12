"""The REST API: check, build and simulate designs over HTTP; see :func:`create_api`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railweave.studio.rest.settings import ApiSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from railweave.runs.jobs import JobQueue

__all__ = ["ApiSettings", "create_api"]


def create_api(queue: JobQueue, settings: ApiSettings | None = None) -> FastAPI:
    """Return the API as an application, to be served or to be mounted under ``/api/v1``.

    See :func:`railweave.studio.rest.app.create_api`.
    """
    from railweave.studio.rest.app import create_api as create

    return create(queue, settings or ApiSettings())
