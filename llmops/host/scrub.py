"""Takes out of a recording what identifies a machine or opens a door; equal values stay equal to each other."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable
from typing import Any

from llmops.host import Host
from llmops.host.recording import Question, Recording

REMOVED = "<removed>"
# Variables whose values say how an engine is configured. Every other value is removed, known to be secret or not.
KEPT_VARIABLES = re.compile(
    r"PATH|HOME|SHELL|TERM|LANG|LC_\w+|NO_COLOR|TMPDIR|XDG_\w+|LD_LIBRARY_PATH|VIRTUAL_ENV|PYTHON\w*"
    r"|(?:LLAMA|GGML|OLLAMA|VLLM|CUDA|NVIDIA|ROCR|HIP|HSA|OMP|GOMP|KMP|MKL|OPENBLAS|HF|TORCH|NCCL|PYTORCH)_\w+"
    r"|(?:SYSTEMD|INVOCATION|JOURNAL|NUMEXPR)_\w+"
)
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_HIDING = r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?"
_SECRET_FLAG = re.compile(r"--?(?:[\w-]*-)?(?:api-key|key|token|secret|password|passphrase|credentials?)")
_SECRETS = (
    # "HF_TOKEN=a b" as systemd quotes an assignment, then HF_TOKEN="a b" and HF_TOKEN=ab
    (re.compile(rf'"([A-Z0-9_]*(?:{_HIDING})[A-Z0-9_]*)=[^"]*"'), rf'"\1={REMOVED}"'),
    (re.compile(rf"\b([A-Z0-9_]*(?:{_HIDING})[A-Z0-9_]*)=(?:\"[^\"]*\"|'[^']*'|\S+)"), rf"\1={REMOVED}"),
    (re.compile(rf"({_SECRET_FLAG.pattern})([= ])\s*(?!-)\S+"), rf"\1\2{REMOVED}"),
    (
        re.compile(r'("(?:api_?key|access_token|auth_token|secret|password)"\s*:\s*)"[^"]*"', re.IGNORECASE),
        rf'\1"{REMOVED}"',
    ),
    (re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]+"), rf"\1{REMOVED}"),
    (re.compile(r"\b(?:hf_|sk-|ghp_|glpat-)[\w-]{16,}"), REMOVED),
    (re.compile(r"(?i)(\bserial(?:[ _-]?number|[ _-]?no)?\s*[:=]\s*)\S+"), rf"\1{REMOVED}"),
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_LONG_ID = re.compile(r"\b[0-9a-f]{32}\b")  # machine-id(5), boot and invocation numbers
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
_SECRET_PATH = re.compile(r"serial|machine-id|boot_id|product_uuid|/address$|asset_tag")
# Names that say nothing about whose machine it is, and that are words elsewhere in a recording.
_GENERIC_NAMES = frozenset({"localhost", "debian", "ubuntu", "linux", "server", "machine", "llama", "ollama", "vllm"})
_KEPT_NETWORKS = ("127.0.0.0/8", "0.0.0.0/32", "255.0.0.0/8", "::/127", "192.0.2.0/24", "2001:db8::/32")


def host_names(host: Host) -> tuple[str, ...]:
    """The names that this machine has for itself."""
    try:
        name = host.read_text("/proc/sys/kernel/hostname").strip()
    except OSError:
        return ()
    return tuple({name, name.partition(".")[0]})


class Scrubber:
    """Replaces each identifying value by a made-up one of the same form, always the same for the same value."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = tuple(name for name in names if len(name) > 2 and name.lower() not in _GENERIC_NAMES)
        self._numbers: dict[str, dict[str, int]] = {}
        self._networks = tuple(ipaddress.ip_network(network) for network in _KEPT_NETWORKS)

    def recording(self, recording: Recording) -> Recording:
        """A scrubbed copy; questions are scrubbed like answers, so that they still find each other."""
        scrubbed = Recording()
        for question, answers in recording.answers.items():
            arguments = json.loads(question.arguments)
            renamed = Question.of(question.ask, *(self.value(argument) for argument in arguments))
            hidden = question.ask == "read_text" and _SECRET_PATH.search(arguments[0]) is not None
            scrubbed.answers[renamed] = [self._answer(question.ask, answer, hidden=hidden) for answer in answers]
        return scrubbed

    def value(self, value: Any) -> Any:
        """Any JSON value with every text in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return self._words(value) if all(isinstance(word, str) for word in value) else [*map(self.value, value)]
        if isinstance(value, dict):
            return {name: self._field(name, entry) for name, entry in value.items()}
        return value

    def text(self, text: str) -> str:
        """One text scrubbed."""
        for pattern, replacement in _SECRETS:
            text = pattern.sub(replacement, text)
        text = _UUID.sub(lambda found: f"00000000-0000-4000-8000-{self._number('uuid', found):012x}", text)
        text = _LONG_ID.sub(lambda found: f"{self._number('id', found):032x}", text)
        text = _MAC.sub(lambda found: f"02:00:00:00:00:{self._number('mac', found) % 256:02x}", text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        for name in self._names:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "machine", text)
        return text

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        """Values of variables that are not on the list are removed; names stay, since doctor reads them."""
        return {name: self._variable(name, text) for name, text in variables.items()}

    def _answer(self, ask: str, answer: dict[str, Any], *, hidden: bool) -> dict[str, Any]:
        if "value" not in answer or ask == "read_bytes":
            return answer
        if hidden:
            return {"value": REMOVED}
        if ask == "environment":
            return {"value": self.environment(answer["value"])}
        return {"value": self.value(answer["value"])}

    def _field(self, name: str, entry: Any) -> Any:
        if name == "environment" and isinstance(entry, dict):
            return self.environment(entry)
        return self.value(entry)

    def _variable(self, name: str, text: str) -> str:
        kept = KEPT_VARIABLES.fullmatch(name) is not None and SECRET_NAME.search(name) is None
        return self.text(text) if kept else REMOVED

    def _words(self, words: list[str]) -> list[str]:
        """Words of a command line: the one after --api-key is a secret whatever it looks like."""
        hidden = [False, *(_SECRET_FLAG.fullmatch(word) is not None for word in words[:-1])]
        return [REMOVED if secret else self.text(word) for word, secret in zip(words, hidden, strict=False)]

    def _address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found.group())
        except ValueError:
            return found.group()
        if any(address in network for network in self._networks if network.version == address.version):
            return found.group()
        number = self._number("address", found)
        return f"192.0.2.{number % 255}" if address.version == 4 else f"2001:db8::{number:x}"

    def _number(self, kind: str, found: re.Match[str]) -> int:
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(found.group().lower(), len(numbers) + 1)
