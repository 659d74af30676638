"""A server of texts, as clients of the OpenAI kind see it: whole and in pieces, alone and together; its refusals."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import pytest
from subjects.language_model import made_folder

import prograd
from compiler import from_lm
from runtime.language.texts import Texts
from runtime.serving.gate import Counts, Limits
from runtime.serving.server import Served, Stop, answer, listen
from runtime.serving.texts import TextEndpoints

LONG = 60
TALK = [{"role": "user", "content": "who are you ?"}]


class Server:
    """A server of texts that answers within the context; afterwards `done` says what it did."""

    def __init__(self, folder: Path, *, texts: int = 2, queue: int = 8, seconds: float = LONG) -> None:
        program = from_lm(made_folder(folder / "m"), length=64, positions=96, texts=texts, output=folder / "net.pb")
        program.compile(batch=1).save(folder / "net.pb")
        self.run = prograd.load(folder / "net.pb")
        self.texts = Texts(self.run.session, folder)
        self.faults: list[str] = []
        self.done = Served(Counts(), is_whole=False)
        self._stop, self._taken, self._ready = Stop(), listen(0), Event()
        self.port: int = self._taken.getsockname()[1]
        self._limits, self._queue = Limits(1 << 16, seconds), queue
        self._thread = Thread(target=self._serve)

    def _serve(self) -> None:
        told, report = {"program": "net"}, self.faults.append
        self.endpoints = TextEndpoints(self.texts, self._limits, told, report, self.run.memory, queue=self._queue)
        self.done = answer(self.endpoints, self._taken, stop=self._stop, ready=self._ready.set, seconds=LONG)

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._ready.wait(LONG)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        self._thread.join(LONG)
        self._taken.close()
        self.run.close()
        assert not self._thread.is_alive()
        assert self.faults == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("texts")) as server:
        yield server


def asked(server: Server, path: str, body: object, method: str = "POST") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=LONG)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, raw, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def chat(server: Server, **fields: Any) -> dict[str, Any]:
    status, text = asked(server, "/v1/chat/completions", {"model": "net", "messages": TALK, **fields})
    assert status == 200, text
    return json.loads(text)


def said(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def told(text: str) -> str:
    return json.loads(text)["error"]["message"]


def events(text: str) -> list[dict[str, Any]]:
    parts = text.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def test_an_answer_is_that_of_the_library(server: Server):
    answer = chat(server, max_tokens=12)
    assert said(answer) == "".join(server.run.chat("who are you ?", most=12))
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["completion_tokens"] == 12
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12
    assert said(chat(server, max_tokens=12, temperature=2.0, seed=3)) == "".join(
        server.run.chat("who are you ?", most=12, temperature=2.0, seed=3)
    )


def test_pieces_are_the_whole_answer(server: Server):
    whole = chat(server, max_tokens=12)
    options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 12}
    status, text = asked(server, "/v1/chat/completions", {"messages": TALK, **options})
    found = events(text)
    assert status == 200
    assert {each["object"] for each in found} == {"chat.completion.chunk"}
    deltas = [each["choices"][0]["delta"] for each in found if each["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == said(whole)
    assert len(deltas) >= 4
    assert [each["choices"][0]["finish_reason"] for each in found if each["choices"]][-1] == "length"
    assert found[-1]["usage"] == whole["usage"]


def test_a_plain_text_goes_on(server: Server):
    body = {"prompt": "the capital of", "max_tokens": 9}
    status, text = asked(server, "/v1/completions", body)
    assert status == 200
    whole = json.loads(text)["choices"][0]["text"]
    assert whole == "".join(server.run.chat("the capital of", plain=True, most=9))
    found = events(asked(server, "/v1/completions", {**body, "stream": True})[1])
    assert "".join(each["choices"][0]["text"] for each in found) == whole


def test_texts_of_many_clients_are_those_of_each_alone(server: Server):
    prompts = [[{"role": "user", "content": f"who is number {n} ?"}] for n in range(8)]
    alone = [said(chat(server, messages=prompt, max_tokens=16, temperature=1.5)) for prompt in prompts]
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda prompt: said(chat(server, messages=prompt, max_tokens=16, temperature=1.5)), prompts)
        assert list(found) == alone


def test_a_client_that_leaves_gives_its_row_back(server: Server):
    before = said(chat(server, max_tokens=4))
    for _ in range(6):  # more than there are rows
        body = json.dumps({"messages": TALK, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            assert client.recv(64).startswith(b"HTTP/1.1 200")
    end = monotonic() + LONG
    while json.loads(asked(server, "/health", b"", "GET")[1])["waiting"] and monotonic() < end:
        sleep(0.01)
    assert said(chat(server, max_tokens=4)) == before


def test_the_model_is_listed_and_described(server: Server):
    status, text = asked(server, "/v1/models", b"", "GET")
    assert status == 200
    assert [model["id"] for model in json.loads(text)["data"]] == ["net"]
    assert json.loads(asked(server, "/", b"", "GET")[1])["limits"]["positions"] == 96


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n": 2}, "n: this server knows 1 only"),
        ({"temprature": 1.0}, "there is no field 'temprature'; did you mean 'temperature'?"),
        ({"temperature": "hot"}, "temperature is no number"),
        ({"temperature": -1}, "temperature=-1 is not from 0 to 100"),
        ({"max_tokens": 0}, "max_completion_tokens or max_tokens is no whole number from 1 on"),
        ({"stop": [""]}, "stop is neither a text nor a list of at most 16 texts"),
        ({"stream": "yes"}, "stream is neither true nor false"),
        ({"messages": []}, "the request: messages is no list of turns, as in [{'role': 'user', 'content': 'Hello'}]"),
        ({"messages": [{"role": "robot", "content": ""}]},
         "the request: turn 1 has the role 'robot'; a role is one of system, user, assistant"),
        ({"tools": [{"type": "function"}]}, "tools: this server knows [] only"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused(server: Server, fields: dict[str, Any], words: str):
    status, text = asked(server, "/v1/chat/completions", {"messages": TALK, **fields})
    assert (status, told(text)) == (400, words)


def test_other_bodies_and_addresses_are_refused(server: Server):
    path = "/v1/chat/completions"
    assert asked(server, path, b"{")[0] == 400
    assert told(asked(server, path, [1])[1]) == "the body is no JSON object"
    assert told(asked(server, "/v1/completions", {"messages": TALK})[1]) == "the request has no prompt of text"
    long = [{"role": "user", "content": "who are you ? " * 40}]
    assert "and the program was compiled for texts of 96" in asked(server, path, {"messages": long})[1]
    assert asked(server, path, b"", "GET")[0] == 405
    assert told(asked(server, "/predict", {})[1]) == (
        "there is /, /health, /v1/models, /v1/chat/completions and /v1/completions"
    )
    assert asked(server, path, {"messages": [{"role": "user", "content": "x" * 70_000}]})[0] == 413


def test_requests_beyond_the_queue_are_told_at_once(tmp_path: Path):
    with Server(tmp_path, texts=1, queue=1) as server:
        server.endpoints._present = 2  # one is answered, one waits
        status, text = asked(server, "/v1/completions", {"prompt": "x"})
        server.endpoints._present = 0
        assert status == 503
        assert told(text) == "1 requests wait already, which is as many as may; ask again later"


def test_an_answer_that_takes_too_long_ends_with_what_there_is(tmp_path: Path):
    with Server(tmp_path, texts=1, seconds=0.5) as server:
        row = server.texts.row()
        row.__enter__()  # no row is free
        status, text = asked(server, "/v1/completions", {"prompt": "x"})
        row.__exit__(None, None, None)
        assert (status, told(text)) == (504, "there was no answer after 0.5 seconds")
        server.endpoints.limits = Limits(1 << 16, LONG)
        assert said(chat(server, max_tokens=1)) is not None
