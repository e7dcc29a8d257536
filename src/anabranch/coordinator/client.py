"""A coordinator at a URL, with the methods that verbs and containers call of one in the same process."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from anabranch.coordinator.naming import check_container, check_name
from anabranch.coordinator.store import Event
from anabranch.coordinator.wire import error_of, payload
from anabranch.errors import AnabranchError, NotFoundError, OutOfTimeError
from anabranch.messages import Answer, Heartbeat, JobStatus, Registered, Registration
from anabranch.model.document import Document, decode
from anabranch.model.job_model import JobModel

__all__ = ["Client"]

T = TypeVar("T", bound=Document)


class Client:
    """Raises what the coordinator raised; NotFoundError when nothing listens, OutOfTimeError if it's mute.

    Args:
        timeout: seconds for an answer, beyond what a call asks the coordinator to wait.
    """

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self.url = url
        self._timeout = timeout
        self._http = httpx.Client(base_url=url, timeout=timeout, trust_env=False)

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

    def stop(self, job: str) -> None:
        self._ask("POST", f"{_job_path(job)}/stop")

    def register(self, registration: Registration) -> Registered:
        return decode(self._ask("POST", "/containers", json=payload(registration)), Registered)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> Answer:
        path = f"/containers/{quote(check_container(beat.container), safe='')}/heartbeat"
        timeout = self._timeout + wait
        answer = self._ask("POST", path, json=payload(beat), params={"wait": wait}, timeout=timeout)
        return decode(answer, Answer)

    def holds_seat(self, execution: str) -> bool:
        answer = self._ask("GET", "/containerHeartbeat", params={"executionContainerId": execution})
        return bool(msgspec.json.decode(answer)["alive"])

    def _ask(self, method: str, path: str, **request: Any) -> bytes:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.ConnectError as error:
            raise NotFoundError(f"nothing runs at {self.url}", "start a job: anabranch run JOB.py") from error
        except httpx.TimeoutException as error:
            raise OutOfTimeError(f"the coordinator at {self.url} doesn't answer", "see whether it hangs") from error
        except httpx.HTTPError as error:
            raise AnabranchError(f"the coordinator at {self.url} broke off: {error}", "try again") from error
        if answer.is_success:
            return answer.content
        try:
            body = msgspec.json.decode(answer.content)
        except msgspec.DecodeError:
            body = None
        raise error_of(answer.status_code, body)


def _job_path(job: str) -> str:
    return f"/jobs/{quote(check_name('job', job), safe='')}"


def _listed(answer: bytes, name: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(answer)[name]
    return found


def _document(found: Any, kind: type[T]) -> T:
    return decode(msgspec.json.encode(found), kind)
