"""A coordinator at a URL, with the methods that verbs and containers call of one in the same process."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from anabranch.coordinator.naming import check_container, check_name
from anabranch.coordinator.store import Event
from anabranch.coordinator.wire import error_of
from anabranch.errors import (
    AnabranchError,
    NotLeadingError,
    OutOfTimeError,
    StoreUnavailableError,
    UnreachableError,
    UsageError,
)
from anabranch.httpx_alone import httpx
from anabranch.messages import (
    Answer,
    Assigning,
    Assignment,
    Deployed,
    Deploying,
    Drained,
    DrainNotification,
    Expanding,
    Heartbeat,
    JobStatus,
    Registered,
    Registration,
    Rewinding,
    Rewound,
    RollingBack,
    Running,
    Scaled,
    Scaling,
    Sizing,
    Start,
)
from anabranch.model.document import Document, compact, decode
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

__all__ = ["AWAY", "Client"]

AWAY = (UnreachableError, OutOfTimeError, NotLeadingError, StoreUnavailableError)
"""What is raised when the coordinator can't be asked now: it is worth trying again."""

T = TypeVar("T", bound=Document)
_LOOKING = 60.0
"""Seconds more that the coordinator may take where it asks systems first."""
_JSON = {"Content-Type": "application/json"}


class Client:
    """Raises what the coordinator raised; NotFoundError when nothing listens, OutOfTimeError if it's mute.

    Args:
        url: several, separated by commas, are of coordinators on one store: the one that leads is found.
        timeout: seconds for an answer, beyond what a call asks the coordinator to wait.
        token: what the coordinator wants to see.
    """

    def __init__(self, url: str, timeout: float = 10.0, token: str | None = None) -> None:
        self._urls = [each.strip().rstrip("/") for each in url.split(",")]
        self._timeout = timeout
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # Certificates take 0.05 s to load.
        secured = any(not url.startswith("http://") for url in self._urls)
        self._http = httpx.Client(timeout=timeout, trust_env=False, headers=headers, verify=secured)

    @property
    def url(self) -> str:
        """The coordinator that is asked first."""
        return self._urls[0]

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def jobs(self) -> list[JobStatus]:
        return [_document(job, JobStatus) for job in _listed(self._ask("GET", "/jobs"), "jobs")]

    def status(self, job: str) -> JobStatus:
        return decode(self._ask("GET", _job_path(job)), JobStatus)

    def model(self, job: str) -> JobModel:
        return decode(self._ask("GET", f"{_job_path(job)}/model"), JobModel)

    def events(self, job: str, limit: int = 100) -> list[Event]:
        answer = self._ask("GET", f"{_job_path(job)}/events", params={"limit": limit})
        return [_document(event, Event) for event in _listed(answer, "events")]

    def running(self, job: str) -> Running:
        return decode(self._ask("GET", f"{_job_path(job)}/running"), Running)

    def known_lanes(self, job: str) -> dict[str, Lane]:
        found = [_document(lane, Lane) for lane in _listed(self._ask("GET", f"{_job_path(job)}/lanes"), "lanes")]
        return {lane.id: lane for lane in found}

    def put_artifact(self, sha256: str, content: bytes) -> None:
        self._ask("PUT", f"/artifacts/{sha256}", content=content)

    def artifact(self, sha256: str) -> bytes:
        return self._ask("GET", f"/artifacts/{sha256}")

    def start(self, start: Start) -> int:
        return int(msgspec.json.decode(self._say("/jobs", start))["deployment"])

    def resume(self, job: str) -> int:
        return int(msgspec.json.decode(self._ask("POST", f"{_job_path(job)}/start"))["deployment"])

    def stop(self, job: str, at_once: bool = False) -> None:
        self._ask("POST", f"{_job_path(job)}/stop", params={"now": int(at_once)})

    def scale(self, job: str, wish: Scaling) -> Scaled:
        path, patience = f"{_job_path(job)}/scale", self._timeout + _LOOKING
        return decode(self._say(path, wish, timeout=patience), Scaled)

    def rewind(self, job: str, wish: Rewinding) -> Rewound:
        return decode(self._say(f"{_job_path(job)}/rewind", wish, timeout=self._timeout + _LOOKING), Rewound)

    def expand(self, job: str, wish: Expanding) -> Scaled:
        path, patience = f"{_job_path(job)}/expand", self._timeout + _LOOKING
        return decode(self._say(path, wish, timeout=patience), Scaled)

    def assign(self, job: str, wish: Assigning) -> Scaled:
        path, patience = f"{_job_path(job)}/assign", self._timeout + _LOOKING
        return decode(self._say(path, wish, timeout=patience), Scaled)

    def assignment(self, job: str) -> Assignment:
        path, patience = f"{_job_path(job)}/assignment", self._timeout + _LOOKING
        return decode(self._ask("GET", path, timeout=patience), Assignment)

    def deploy(self, job: str, wish: Deploying) -> Deployed:
        return decode(self._say(f"{_job_path(job)}/deploy", wish), Deployed)

    def rollback(self, job: str, wish: RollingBack) -> Deployed:
        return decode(self._say(f"{_job_path(job)}/rollback", wish), Deployed)

    def drain(self, job: str, said: DrainNotification) -> Drained:
        return decode(self._say(f"{_job_path(job)}/drain", said, timeout=self._timeout + _LOOKING), Drained)

    def sizing(self, job: str) -> Sizing:
        return decode(self._ask("GET", f"{_job_path(job)}/sizing"), Sizing)

    def cancel(self, job: str) -> None:
        self._ask("POST", f"{_job_path(job)}/cancel")

    def register(self, registration: Registration) -> Registered:
        return decode(self._say("/containers", registration), Registered)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> Answer:
        path = f"/containers/{quote(check_container(beat.container), safe='')}/heartbeat"
        timeout = self._timeout + wait
        return decode(self._say(path, beat, params={"wait": wait}, timeout=timeout), Answer)

    def fence(self, container: str, why: str = "") -> None:
        path = f"/containers/{quote(check_container(container), safe='')}/fence"
        self._ask("POST", path, params={"why": why})

    def holds_seat(self, execution: str) -> bool:
        answer = self._ask("GET", "/containerHeartbeat", params={"executionContainerId": execution})
        return bool(msgspec.json.decode(answer)["alive"])

    def _say(self, path: str, document: Document, **request: Any) -> bytes:
        return self._ask("POST", path, content=compact(document), headers=_JSON, **request)

    def _ask(self, method: str, path: str, **request: Any) -> bytes:
        """Ask the coordinator that answered last; if it is away or stands by, the others, each once."""
        for left in range(len(self._urls) - 1, -1, -1):
            url = self._urls[0]
            try:
                return self._ask_one(url, method, path, **request)
            except (NotLeadingError, _AwayError) as error:
                if not left:
                    raise error.told if isinstance(error, _AwayError) else error from error
                if self._urls[0] == url:  # no other thread has turned to the next one
                    self._urls = [*self._urls[1:], url]
        raise AssertionError("there is at least one URL")

    def _ask_one(self, url: str, method: str, path: str, **request: Any) -> bytes:
        try:
            answer = self._http.request(method, url + path, **request)
        except httpx.ConnectError as error:
            told = UnreachableError(f"nothing runs at {url}", "start a job there: anabranch run, or a coordinator")
            raise _AwayError(told) from error
        except httpx.TimeoutException as error:
            mute = OutOfTimeError(f"the coordinator at {url} doesn't answer", "see whether it hangs")
            raise _AwayError(mute) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise UsageError(f"{url!r} can't be asked: {error}", "give http://HOST:PORT") from error
        except httpx.HTTPError as error:
            cut = UnreachableError(f"the coordinator at {url} broke off: {error}", "try again")
            raise _AwayError(cut) from error
        if answer.is_success:
            return answer.content
        try:
            body = msgspec.json.decode(answer.content)
        except msgspec.DecodeError:
            body = None
        raise error_of(answer.status_code, body)


class _AwayError(Exception):
    """A coordinator that couldn't be asked; ``told`` is what the caller is told if no other one can."""

    def __init__(self, told: AnabranchError) -> None:
        super().__init__(str(told))
        self.told = told


def _job_path(job: str) -> str:
    return f"/jobs/{quote(check_name('job', job), safe='')}"


def _listed(answer: bytes, name: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(answer)[name]
    return found


def _document(found: Any, kind: type[T]) -> T:
    return decode(msgspec.json.encode(found), kind)
