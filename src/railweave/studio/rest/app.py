"""The application: its addresses, and what each of them asks the queues to do."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Path
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

import railweave
from railweave.runs import content_key
from railweave.runs.jobs import Job, JobLimits, JobQueue, JobState, Work
from railweave.studio.design_run import DesignRun, run_key, run_work
from railweave.studio.rest import _models as m
from railweave.studio.rest import _work as work
from railweave.studio.rest._errors import (
    ApiError,
    add_handlers,
    described,
    error_of_job,
    job_error_body,
    json_response,
)
from railweave.studio.rest._guard import Guard
from railweave.studio.rest._json import StrictRoute
from railweave.studio.rest._waiting import Streams, ended, events

if TYPE_CHECKING:
    from railweave.studio.rest.settings import ApiSettings

__all__ = ["OWNER", "create_api"]

#: whose jobs those of the API are
OWNER: Final = "rest-api"
#: modules that make a worker's first answer quick
PRELOAD: Final = (
    "railweave.studio.rest._work",
    "railweave.api",
    "railweave.assess",
    "railweave.fabric.build",
    "railweave.fabric.summary",
    "pint",
    "polars",
    "ruamel.yaml",
    "scipy.optimize",
    "scipy.sparse.csgraph",
)

JobId = Annotated[
    str,
    Path(pattern="^[0-9a-f]{32}$", description="As POST /jobs answered.", examples=["0" * 32]),
]
_POST: Final = (400, 408, 413, 415, 422, 503)
_ANY_JSON: Final[dict[str, Any]] = {"application/json": {"schema": {}}}
#: one server-sent event
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "event": {"const": "job"},
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/JobModel"},
        },
    },
    "required": ["event", "id", "data"],
}
#: where one goes on from a job's id
_LINKS: Final[dict[str, Any]] = {
    name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
    for name in ("getJob", "followJob", "getResult", "cancelJob", "forgetJob")
}


class _Api:
    """What the addresses share."""

    def __init__(self, queue: JobQueue, settings: ApiSettings) -> None:
        self.queue, self.settings = queue, settings
        self.sizes = work.Sizes(settings.gpus, settings.hosts, settings.links)
        self.streams = Streams(settings.streams)
        self._quick: JobQueue | None = None
        self._lock = threading.Lock()

    def quick(self) -> JobQueue:
        """Return the queue of short work, which is made when first needed."""
        with self._lock:
            if self._quick is None:
                limits = JobLimits(
                    time_s=self.settings.quick_time_s,
                    memory_bytes=self.settings.quick_memory_bytes,
                    queued=32,
                    per_owner=32,
                    kept=64,
                )
                self._quick = JobQueue(1, limits=limits, preload=PRELOAD)
            return self._quick

    def start(self) -> None:
        """Have the worker of short work ready."""
        self.quick().warm()

    def close(self) -> None:
        """End that worker."""
        with self._lock:
            quick, self._quick = self._quick, None
        if quick is not None:
            quick.close()

    async def answer(self, kind: str, function: Work, asked: work.Check) -> Any:  # noqa: ANN401
        """Have a short piece of work done in a process of its own, within its limits.

        Raises:
            ApiError: the work failed.
        """
        key = _key(kind, dataclasses.asdict(asked))
        quick = self.quick()
        job = await run_in_threadpool(quick.submit, kind, function, asked, key)
        job = await ended(quick, job)
        if job.state is not JobState.DONE:
            raise error_of_job(job, self.settings.most_problems)
        return job.result["document"]

    async def submit(self, asked: m.DesignJob | m.CongestJob) -> Job:
        """Refuse what cannot work, then queue it."""
        if isinstance(asked, m.CongestJob):
            options = work.Congest(**asked.model_dump(exclude={"kind"}))
            await run_in_threadpool(work.congest_cases, options)
            key = _key(asked.kind, dataclasses.asdict(options))
            return await self._queue(asked.kind, work.congest, options, key)
        self._check_engine(asked)
        await self.answer("validate", work.validate, work.Check(asked.design, self.sizes))
        run = DesignRun(
            text=asked.design,
            engine=asked.engine,
            routing=asked.routing.value if asked.routing else None,
            seed=asked.seed,
            tolerance=asked.tolerance,
            fail=tuple(asked.fail),
            fault=tuple(asked.fault),
            what_ifs=asked.kind == "run",
        )
        return await self._queue(asked.kind, run_work, run, run_key(run))

    async def _queue(self, kind: str, function: Work, asked: object, key: str) -> Job:
        return await run_in_threadpool(self.queue.submit, kind, function, asked, key, OWNER)

    @staticmethod
    def _check_engine(asked: m.DesignJob) -> None:
        """Refuse options that would do nothing. Raises ApiError."""
        wrong = ""
        if asked.tolerance and asked.engine != "flow":
            wrong = f"tolerance speaks of the flow engine, and engine {asked.engine} has none"
        if asked.fault and asked.engine != "packet":
            wrong = f"fault speaks of the packet engine, and engine {asked.engine} knows no time"
        if wrong:
            raise ApiError(422, m.ErrorKind.INPUT, f"{wrong}; leave one of the two out")

    def show(self, job: Job) -> m.JobModel:
        """Return a job as the API shows it."""
        return m.JobModel(
            id=job.id,
            kind=job.kind,
            state=job.state.value,
            progress=job.progress,
            step=job.step,
            queued_at_s=job.queued_at_s,
            started_at_s=job.started_at_s,
            ended_at_s=job.ended_at_s,
            reused=job.reused,
            error=job_error_body(job, self.settings.most_problems),
            partial=job.partial if job.state is JobState.RUNNING else None,
        )


def _key(kind: str, asked: dict[str, Any]) -> str:
    return content_key({}, {"rest": kind, **asked}, railweave.__version__)


def create_api(queue: JobQueue, settings: ApiSettings) -> FastAPI:
    """Return the API as an application of its own.

    Mounted under another one, its life is not this one's: then call ``api.state.start()`` when the
    server is up (optional: it makes the first answer quick) and ``api.state.close()`` at its end.

    Args:
        queue: where jobs run; it stays the caller's to close.
        settings: who may use it and how much.
    """
    api = _Api(queue, settings)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        api.start()
        try:
            yield
        finally:
            await run_in_threadpool(api.close)

    app = FastAPI(
        title="railweave",
        version="1",
        summary="Check, build and simulate the networks of GPU clusters.",
        description="Answers are those of the command line with --json. Every error has one shape: "
        "a kind, a sentence, and problems with path, line and column.",
        docs_url=None,  # its page would load from elsewhere
        redoc_url=None,
        lifespan=life,
        separate_input_output_schemas=False,
    )
    app.state.start, app.state.close = api.start, api.close
    add_handlers(app, settings.most_problems)
    app.add_middleware(Guard, settings=settings, bodies=frozenset({"/check", "/build", "/jobs"}))
    app.router.route_class = StrictRoute
    _add_facts(app.router)
    _add_designs(app.router, api)
    _add_jobs(app.router, api)
    if settings.token:
        _tell_of_the_token(app)
    return app


def _tell_of_the_token(app: FastAPI) -> None:
    """Say in the OpenAPI document that a token is needed."""
    plain: Callable[[], dict[str, Any]] = app.openapi

    def with_token() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        document["security"] = [{"token": []}]
        document["paths"]["/health"]["get"]["security"] = []
        return document

    app.openapi = with_token  # type: ignore[method-assign]


# ---------------------------------------------------------------- facts


def _add_facts(router: APIRouter) -> None:
    @router.get("/health", tags=["facts"], responses=described())
    async def health() -> m.Health:
        """Tell that the server answers; needs no token."""
        return m.Health(status="ok")

    @router.get("/version", tags=["facts"], responses=described())
    async def version() -> m.Version:
        """Tell the versions of railweave and of the API."""
        return m.Version(railweave=railweave.__version__, api="v1")

    @router.get("/examples", tags=["facts"], responses=described())
    def examples() -> list[m.Example]:
        """Return the example designs that stand alone; empty where they are not installed."""
        from railweave.studio.designs import examples as found

        return [m.Example(name=e.name, summary=e.summary, design=e.text) for e in found()]

    @router.get(
        "/schema",
        tags=["facts"],
        response_class=Response,
        responses={
            **described(),
            200: {"description": "JSON Schema (2020-12).", "content": _ANY_JSON},
        },
    )
    def schema() -> Response:
        """Return the JSON Schema of design files, as ``railweave schema`` prints it."""
        from railweave.design import design_schema

        return json_response(design_schema())


# ---------------------------------------------------------------- designs


def _add_designs(router: APIRouter, api: _Api) -> None:
    @router.post("/check", tags=["designs"], responses=described(*_POST))
    async def check(asked: m.CheckRequest) -> m.CheckAnswer:
        """Check a design: ``findings`` are those of ``railweave check --json``.

        A design that cannot be built has ``problems`` instead, each at its line and column.
        """
        try:
            found = await api.answer("check", work.check, _check(asked.design, asked.fail, api))
        except ApiError as error:
            if error.body.kind is not m.ErrorKind.DESIGN:
                raise
            return m.CheckAnswer(valid=False, findings=[], problems=error.body.problems)
        return m.CheckAnswer(valid=True, findings=found, problems=[])

    @router.post(
        "/build",
        tags=["designs"],
        response_class=Response,
        responses={
            **described(*_POST),
            200: {
                "description": "The document of ``railweave build --json``.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
        },
    )
    async def build(asked: m.BuildRequest) -> Response:
        """Build a design: counts, cables, capacity, bisection, paths, power."""
        wanted = dataclasses.replace(
            _check(asked.design, asked.fail, api), monte_carlo=asked.monte_carlo, draws=asked.draws
        )
        return json_response(await api.answer("build", work.build, wanted))


def _check(text: str, fail: list[str], api: _Api) -> work.Check:
    return work.Check(text, api.sizes, tuple(fail))


# ---------------------------------------------------------------- jobs


def _add_jobs(router: APIRouter, api: _Api) -> None:
    queue = api.queue

    @router.post(
        "/jobs",
        status_code=202,
        tags=["jobs"],
        operation_id="submitJob",
        responses={**described(*_POST), 202: {"description": "The job.", "links": _LINKS}},
    )
    async def submit(asked: m.JobRequest) -> m.JobModel:
        """Ask for a simulation; the job is done at once where the same was simulated before."""
        return api.show(await api.submit(asked))

    @router.get("/jobs", tags=["jobs"], responses=described())
    async def jobs() -> m.JobList:
        """List the jobs of the API, oldest first."""
        return m.JobList(jobs=[api.show(job) for job in queue.jobs(OWNER)])

    @router.get(
        "/jobs/{job_id}", tags=["jobs"], operation_id="getJob", responses=described(404, 422)
    )
    async def job(job_id: JobId) -> m.JobModel:
        """Tell how a job stands."""
        return api.show(queue.status(job_id, OWNER))

    @router.post(
        "/jobs/{job_id}/cancel",
        tags=["jobs"],
        operation_id="cancelJob",
        responses=described(404, 408, 413, 422),
    )
    async def cancel(job_id: JobId) -> m.JobModel:
        """Cancel a job; one that has ended stays as it is. A running one stops within a second."""
        return api.show(queue.cancel(job_id, OWNER))

    @router.delete(
        "/jobs/{job_id}", tags=["jobs"], operation_id="forgetJob", responses=described(404, 422)
    )
    async def forget(job_id: JobId) -> m.JobModel:
        """Cancel a job that goes on, and forget it: from then on there is no such job.

        Whoever follows its events still hears of its end.
        """
        return api.show(queue.forget(job_id, OWNER))

    @router.get(
        "/jobs/{job_id}/result",
        tags=["jobs"],
        operation_id="getResult",
        response_class=Response,
        responses={
            **described(404, 409, 422),
            200: {
                "description": "The document of ``railweave run``, ``simulate`` or ``congest`` "
                "with --json.",
                "content": _ANY_JSON,
            },
        },
    )
    async def result(job_id: JobId) -> Response:
        """Return the result of a job that is done."""
        found = await run_in_threadpool(queue.get, job_id, OWNER)
        if found.state is JobState.DONE:
            document = found.result
            return json_response(document["record" if "record" in document else "document"])
        error = job_error_body(found, api.settings.most_problems)
        if error is not None:
            raise ApiError(409, error.kind, error.message, error.problems)
        text = f"this job has no result: it is {found.state.value}"
        raise ApiError(409, m.ErrorKind.STATE, text)

    @router.get(
        "/jobs/{job_id}/events",
        tags=["jobs"],
        operation_id="followJob",
        response_class=StreamingResponse,
        responses={
            **described(404, 422, 503),
            200: {
                "description": "Server-sent events named ``job``, each with the job as GET "
                "/jobs/{job_id} shows it; the stream ends with the job.",
                "content": {"text/event-stream": {"schema": _EVENT}},
            },
        },
    )
    async def follow(job_id: JobId) -> StreamingResponse:
        """Follow a job to its end."""
        found = queue.status(job_id, OWNER)
        if api.streams.full:
            text = f"{api.streams.most} event streams are open, as many as may; try again later"
            raise ApiError(503, m.ErrorKind.BUSY, text, headers={"Retry-After": "5"})
        stream = events(queue, found, api.streams, lambda j: api.show(j).model_dump(mode="json"))
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )
