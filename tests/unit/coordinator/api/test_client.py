"""A client of several coordinators: it asks the one that answers, and turns to the next when that one can't."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.coordinator.api.operation import STANDS_BY
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import (
    AnabranchError,
    NotFoundError,
    NotLeadingError,
    OutOfTimeError,
    StoreUnavailableError,
    UnreachableError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.protocol.errors import payload_of

A, B, C = "http://a:1", "http://b:2", "http://c:3"


def leads(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"jobs": []})


def stands_by(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(503, json=payload_of(NotLeadingError("this coordinator stands by", "ask another")))


def has_no_store(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(503, json=payload_of(StoreUnavailableError("the store is away", "try again")))


def knows_no_job(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(404, json=payload_of(NotFoundError("there is no job 'x'", "")))


def raises(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def raising(_request: httpx.Request) -> httpx.Response:
        raise error

    return raising


def is_a_proxy(status: int) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _request: httpx.Response(status, text="<html><h1>Bad Gateway</h1></html>")


away = raises(httpx.ConnectError("refused"))
off = raises(httpx.ConnectTimeout("timed out"))
mute = raises(httpx.ReadTimeout("too long"))
breaks_off = raises(httpx.RemoteProtocolError("Server disconnected without sending a response."))
cut = raises(httpx.ReadError("reset"))


class Asking(Client):
    """``asked``: the coordinators that were asked, in order; ``how`` each of them answers."""

    def __init__(self, **how: Callable[[httpx.Request], httpx.Response]) -> None:
        super().__init__(", ".join([A + "/", B, C][: len(how)]), token="secret")
        self.asked = ""
        self.how = how
        headers = dict(self._http.headers)
        self._http.close()
        self._http = httpx.Client(transport=httpx.MockTransport(self._answer), headers=headers, auth=self._http.auth)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret"
        self.asked += request.url.host
        return self.how[request.url.host](request)


@pytest.mark.parametrize(
    "other",
    [away, off, mute, breaks_off, cut, stands_by, is_a_proxy(200), is_a_proxy(302), is_a_proxy(404), is_a_proxy(502)],
)
def test_the_one_that_leads_is_found_and_asked_first_from_then_on(
    other: Callable[[httpx.Request], httpx.Response],
) -> None:
    client = Asking(a=other, b=other, c=leads)
    assert client.jobs() == []
    assert client.asked == "abc"
    assert client.url == C
    assert client.jobs() == []
    assert client.asked == "abcc"
    client.how = {"a": leads, "b": leads, "c": other}
    client.jobs()
    assert client.asked == "abccca"


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        *((is_a_proxy(status), UnreachableError) for status in (200, 302, 401, 403, 404, 429, 500)),
        (away, UnreachableError),
        (off, UnreachableError),
        (mute, OutOfTimeError),
        (breaks_off, UnreachableError),
        (cut, UnreachableError),
        (stands_by, NotLeadingError),
        (is_a_proxy(502), UnreachableError),
        (is_a_proxy(503), UnreachableError),
        (is_a_proxy(504), UnreachableError),
    ],
)
def test_each_is_asked_once_and_the_last_error_is_told_and_worth_another_try(
    last: Callable[[httpx.Request], httpx.Response], kind: type[AnabranchError]
) -> None:
    client = Asking(a=away, b=stands_by, c=last)
    with pytest.raises(kind) as caught:
        client.jobs()
    assert type(caught.value) is kind
    assert isinstance(caught.value, AWAY)
    assert client.asked == "abc"


@pytest.mark.parametrize(("said", "kind"), [(knows_no_job, NotFoundError), (has_no_store, StoreUnavailableError)])
def test_what_a_coordinator_says_is_no_reason_to_ask_another(
    said: Callable[[httpx.Request], httpx.Response], kind: type[AnabranchError]
) -> None:
    client = Asking(a=said, b=leads)
    with pytest.raises(kind) as caught:
        client.jobs()
    assert type(caught.value) is kind
    assert client.asked == "a"


def by_standby(how: Callable[[httpx.Request], httpx.Response]) -> Callable[[httpx.Request], httpx.Response]:
    def answered(request: httpx.Request) -> httpx.Response:
        answer = how(request)
        answer.headers[STANDS_BY] = "yes"
        return answer

    return answered


def test_what_a_standby_cannot_answer_is_asked_of_the_leader() -> None:
    client = Asking(a=by_standby(knows_no_job), b=leads)
    assert client.jobs() == []
    assert client.asked == "ab"
    for other in (away, is_a_proxy(200)):
        client = Asking(a=by_standby(knows_no_job), b=other)
        with pytest.raises(NotFoundError):
            client.jobs()
        assert client.asked == "ab"


@pytest.mark.parametrize("other", [away, has_no_store, stands_by])
def test_a_standbys_answer_is_used_if_the_leader_has_none(
    other: Callable[[httpx.Request], httpx.Response],
) -> None:
    client = Asking(a=by_standby(leads), b=other)
    assert client.jobs() == []
    assert client.asked == "ab"


@pytest.mark.parametrize(
    "answer", [{"text": "<html>we are back soon</html>"}, {"json": []}, {"json": {"jobs": 3}}, {"json": {"jobs": [{}]}}]
)
def test_what_answers_may_be_no_coordinator(answer: dict[str, Any]) -> None:
    client = Asking(a=lambda _: httpx.Response(200, **answer))
    with pytest.raises(UnreachableError, match=r"what answers at http://a:1 isn't a coordinator: ") as caught:
        client.jobs()
    assert "proxy" in caught.value.cure
    with pytest.raises(UnreachableError, match="the answer to status can't be read"):
        client.status("delays")


def test_a_strangers_error_may_be_deeply_nested() -> None:
    client = Asking(a=lambda _: httpx.Response(502, content=b"[" * 2000))
    with pytest.raises(UnreachableError, match=r"what answers at http://a:1 isn't a coordinator: status 502"):
        client.jobs()


def test_a_page_is_no_success_of_an_operation_without_a_result() -> None:
    alone = Asking(a=is_a_proxy(200))
    for act in (lambda: alone.cancel("delays"), lambda: alone.stop("delays"), lambda: alone.artifact("0" * 64)):
        with pytest.raises(UnreachableError, match="isn't a coordinator"):
            act()
    two = Asking(a=is_a_proxy(200), b=lambda _: httpx.Response(200, json={}))
    two.cancel("delays")
    assert two.asked == "ab"


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_coordinators_refusal_is_no_reason_to_ask_another(status: int) -> None:
    refusal = {"error": "not allowed", "cure": "", "kind": "AnabranchError"}
    client = Asking(a=lambda _: httpx.Response(status, json=refusal), b=leads)
    with pytest.raises(AnabranchError, match="not allowed") as caught:
        client.jobs()
    assert type(caught.value) is AnabranchError
    assert client.asked == "a"


@pytest.mark.parametrize("status", [401, 429])
def test_a_refusal_that_can_pass_is_waited_for_by_a_client_that_was_accepted(status: int) -> None:
    refusal = {"error": "not allowed", "cure": "wait", "kind": "AnabranchError"}
    answers = iter([httpx.Response(200, json={"jobs": []}), httpx.Response(status, json=refusal)])
    client = Asking(a=lambda _: next(answers, httpx.Response(status, json=refusal)))
    assert client.jobs() == []
    with pytest.raises(UnreachableError, match="not allowed") as caught:
        client.jobs()
    assert caught.value.cure == "wait"


@pytest.mark.parametrize("other", [away, mute, stands_by, by_standby(knows_no_job)])
@pytest.mark.parametrize("refuses_first", [True, False])
def test_a_refusal_is_told_whatever_the_other_coordinators_say(
    other: Callable[[httpx.Request], httpx.Response], refuses_first: bool
) -> None:
    refusal = {"error": "not allowed", "cure": "", "kind": "AnabranchError"}
    client = Asking(a=leads, b=leads)
    assert client.jobs() == []
    one, two = ("a", "b") if refuses_first else ("b", "a")
    client.how = {one: lambda _: httpx.Response(401, json=refusal), two: other}
    with pytest.raises(UnreachableError, match="not allowed"):
        client.jobs()
    client.how[two] = leads
    assert client.jobs() == []


def test_a_coordinator_of_a_newer_version_is_no_stranger() -> None:
    client = Asking(a=lambda _: httpx.Response(200, json={"version": 9}))
    with pytest.raises(UnsupportedFormatError, match="format version 9"):
        client.status("delays")


def test_why_a_coordinator_cannot_be_reached_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"nothing runs at http://127.0.0.1:{port}"):
        Client(f"http://127.0.0.1:{port}").jobs()
    with pytest.raises(UnreachableError, match=r"can't connect to http://nowhere\.invalid:1: .*(n|N)ame") as caught:
        Client("http://nowhere.invalid:1").jobs()
    assert "check the URL" in caught.value.cure
    with pytest.raises(UnreachableError, match="can't connect to http://a:1: timed out\n  check the URL"):
        Asking(a=off).jobs()
    server = listening.serve(Coordinator(Store("sqlite://")))
    try:
        with pytest.raises(UnreachableError, match=r"can't connect to https:.*SSL"):
            Client(server.url.replace("http://", "https://")).jobs()
    finally:
        server.close()


def test_a_url_that_makes_no_sense_is_told() -> None:
    for url in (
        "ftp://a",
        "nowhere",
        "http://[::1",
        "http://h:x",
        "http://h:0",
        "http://h:70000",
        "http://a,http://b:99999",
    ):
        with pytest.raises(UsageError) as caught:
            Client(url)
        assert url.rpartition(",")[2] in caught.value.what
        assert "http://HOST:PORT" in caught.value.cure
