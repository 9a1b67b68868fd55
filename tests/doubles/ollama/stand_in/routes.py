"""The routes of the API."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from . import listings, log, openai
from .answers import Part, Service, Work, keep_alive_of, now
from .gate import ClientGone
from .http_handler import EVENTS, NDJSON, ApiError, Handler, is_local_name
from .runner import ChildError, LoadError
from .scheduler import Busy
from .store import Model, Store

_LOOPBACK = ("127.", "::1", "localhost")


class Routes(Handler):
    """Answers one connection; `service` and `store` are set by the server."""

    service: Service
    store: Store

    def answer(self) -> None:
        """Find the route and carry it out; every failure becomes Ollama's own answer."""
        host = self.service.settings.address.host
        if host.startswith(_LOOPBACK) and not is_local_name(self.headers.get("Host", "")):
            self.send_text(403, "", "text/plain")
            return
        path = self.path.partition("?")[0]
        try:
            route = _ROUTES.get(("GET" if self.command == "HEAD" else self.command, path))
            if route is None:
                self.send_text(404, "404 page not found", "text/plain")
            else:
                route(self)
        except ClientGone:
            self.left()
        except (ApiError, ChildError) as error:
            self._fail(error.status, str(error))
        except Busy as error:
            self._fail(503, str(error))
        except (LoadError, ConnectionError, ValueError) as error:
            if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                raise
            self._fail(400 if isinstance(error, ValueError) else 500, str(error))

    def _fail(self, status: int, message: str) -> None:
        form = openai.error(status, message) if self.path.startswith("/v1/") else {"error": message}
        self.send_document(status, form)

    def left(self) -> None:
        """The client closed the connection before the end."""
        log.say("INFO", "llama_server.go:1570", "aborting completion request due to client closing the connection")
        super().left()

    def model(self, body: Mapping[str, Any]) -> Model:
        """The model that the request names."""
        name = str(body.get("model") or body.get("name") or "")
        if not name:
            raise ApiError(400, "model is required")
        found = self.store.find(name)
        if found is None:
            raise ApiError(404, f"model '{name}' not found")
        return found

    def root(self) -> None:
        """GET /"""
        self.send_text(200, "Ollama is running", "text/plain; charset=utf-8")

    def version(self) -> None:
        """GET /api/version"""
        self.send_document(200, {"version": self.service.settings.traits.version})

    def tags(self) -> None:
        """GET /api/tags"""
        self.send_document(200, listings.tags(self.store))

    def loaded(self) -> None:
        """GET /api/ps"""
        self.send_document(200, listings.loaded(self.service.settings, self.service.scheduler))

    def show(self) -> None:
        """POST /api/show"""
        body = self.body()
        self.send_document(200, listings.show(self.model(body), verbose=bool(body.get("verbose"))))

    def models(self) -> None:
        """GET /v1/models"""
        rows = [
            {"id": model.name, "object": "model", "created": 0, "owned_by": "library"} for model in self.store.all()
        ]
        self.send_document(200, {"object": "list", "data": rows})

    def generate(self) -> None:
        """POST /api/generate"""
        body = self.body()
        prompt, system = str(body.get("prompt") or ""), str(body.get("system") or "")
        raw = prompt if body.get("raw") else None
        messages = [{"role": "system", "content": system}] if system else []
        messages = [*messages, {"role": "user", "content": prompt}] if prompt and raw is None else []
        self._native(body, Work(self.model(body), body, messages, raw, self.gone), lambda text: {"response": text})

    def chat(self) -> None:
        """POST /api/chat"""
        body = self.body()
        messages = list(body.get("messages") or [])
        work = Work(self.model(body), body, messages, None, self.gone)
        self._native(body, work, lambda text: {"message": {"role": "assistant", "content": text}})

    def openai_chat(self) -> None:
        """POST /v1/chat/completions"""
        body = self.body()
        chat = openai.to_chat(body)
        if not chat["messages"]:
            raise ApiError(400, "[] is too short - 'messages'")
        parts = self._parts(Work(self.model(chat), chat, chat["messages"], None, self.gone))
        name = str(body["model"])
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            self._send_all(openai.events(name, parts, usage=usage), EVENTS, parts)
            return
        text, final = _joined(parts)
        self.send_document(200, openai.whole(name, text, final))

    def _parts(self, work: Work) -> Generator[Part, None, None]:
        keep_alive_of(work.body)
        return self.service.carry_out(work)

    def _native(self, body: Mapping[str, Any], work: Work, form: Callable[[str], dict[str, Any]]) -> None:
        name = str(body.get("model") or body.get("name"))
        parts = self._parts(work)
        if body.get("stream") is not False:
            lines = (f"{_line(_chunk(name, form, part))}\n" for part in parts)
            self._send_all(lines, NDJSON, parts)
            return
        text, final = _joined(parts)
        self.send_document(200, _chunk(name, form, Part(text, final)))

    def _send_all(self, lines: Iterator[str], kind: str, parts: Generator[Part, None, None]) -> None:
        with contextlib.closing(parts):  # a client that leaves frees its slot at once
            for line in lines:
                self.send_part(line, kind)
        self.end_stream()


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _chunk(name: str, form: Callable[[str], dict[str, Any]], part: Part) -> dict[str, Any]:
    head = {"model": name, "created_at": now(), **form(part.text), "done": part.final is not None}
    return {**head, **(part.final or {})}


def _joined(parts: Iterator[Part]) -> tuple[str, Mapping[str, Any]]:
    text = ""
    final: Mapping[str, Any] = {}
    for part in parts:
        text, final = text + part.text, part.final or final
    return text, final


_ROUTES: dict[tuple[str, str], Callable[[Routes], None]] = {
    ("GET", "/"): Routes.root,
    ("GET", "/api/version"): Routes.version,
    ("GET", "/api/tags"): Routes.tags,
    ("GET", "/api/ps"): Routes.loaded,
    ("GET", "/v1/models"): Routes.models,
    ("POST", "/api/show"): Routes.show,
    ("POST", "/api/generate"): Routes.generate,
    ("POST", "/api/chat"): Routes.chat,
    ("POST", "/v1/chat/completions"): Routes.openai_chat,
}
