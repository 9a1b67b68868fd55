"""The real vLLM under real systemd: a complete unit, a killed worker, a drained stop, and back again."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from llmops.engines.found import InForce
from tests.systemd.conftest import absent
from tests.systemd.machine import MODEL_DIRECTORY, Machine, new_name, wait_for
from tests.systemd.observe import configuration, files_of, times_of
from tests.systemd.root import CACHE
from tests.systemd.vllm_front import front_comes_and_goes
from tests.truth.tiny_models import full_attention, write_model
from tests.unit.engines.vllm_host import VLLM, installed, plan_of
from tools.get_vllm import installed_version, python_path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

UNIT, PORT = "vllm.service", 8000
OURS = (f"/etc/systemd/system/{UNIT}", "/etc/systemd/system/llmops-recover.service")
MODEL = f"{MODEL_DIRECTORY}/{full_attention().name}"
# Threads that wait must not spin, nor be bound to processors that other programs use too.
PATIENT = {
    f"/etc/systemd/system/{UNIT}.d/05-patient.conf": (
        "[Service]\nEnvironment=OMP_WAIT_POLICY=passive VLLM_CPU_OMP_THREADS_BIND=nobind\n"
    )
}
WANTED = (
    "--engine", "vllm", "--model", MODEL, "--context", "2048", "--slots", "2", "--kv-memory", "9MiB", "--prompt-tokens",
    "300", "--reply-tokens", "1500", "--enforce-eager",
)  # fmt: skip
# vLLM's kernels for processors need this library of the system.
LIBRARY = Path(f"/lib/{platform.machine()}-linux-gnu/libnuma.so.1")
READY_SECONDS = 600.0
# Transformers has this class, which vLLM cannot wrap: it is known when the server starts, not before.
UNSERVABLE, INCOMPATIBLE = "unservable", {"architectures": ["GPTNeoForCausalLM"]}
# What is refused, and with which exit code, before anything is changed.
REFUSED = {
    "/srv/models/absent": 2,
    "Nobody/Not-In-The-Cache": 2,
    f"{MODEL_DIRECTORY}/without-config": 9,
    f"{MODEL_DIRECTORY}/cut-off": 9,
    f"{MODEL_DIRECTORY}/of-another-make": 7,
}
CLOSED_MODEL = f"/home/me/models/{full_attention().name}"
CONFIG_FILE = "/etc/vllm/server.yaml"
OWN_CONFIG = "max-model-len: 1024\nmax-num-seqs: 64\nkv-cache-memory-bytes: 6M\nuvicorn-log-level: warning\n"
KEPT_WORDS = (
    "--served-model-name assistant small", "--enable-auto-tool-choice", "--tool-call-parser hermes",
    f"--config {CONFIG_FILE}", "--enforce-eager",
)  # fmt: skip
OWN_UNIT = f"""[Unit]
Description=Our assistant
After=network-online.target

[Service]
User=vllm
Environment=HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
Environment="VLLM_HOST_IP=127.0.0.1"
ExecStart=/opt/vllm/bin/vllm serve {MODEL} --host 127.0.0.1 \\
    {" ".join(KEPT_WORDS)}
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""
# Asks once to see how fast it is, then for a few seconds of tokens (a stop allows many times as long), and has the
# server stopped when the first ones came.
_STREAM = """
import json, subprocess, sys, time, urllib.request as u

def stream(tokens, after_five=lambda: None):
    body = {"model": sys.argv[1], "messages": [{"role": "user", "content": "w5 w6 w7"}], "max_tokens": tokens,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    request = u.Request("http://127.0.0.1:8000/v1/chat/completions", json.dumps(body).encode(),
                        {"Content-Type": "application/json"})
    events, counted = 0, None
    for line in u.urlopen(request, timeout=600):
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            assert "error" not in event, event
            counted = (event.get("usage") or {}).get("completion_tokens", counted)
            events += 1
            if events == 5:
                after_five()
    return counted

began = time.monotonic()
stream(40)
wanted = max(20, min(1900, int(40 / (time.monotonic() - began) * 5)))
print(wanted, stream(wanted, lambda: subprocess.run(["systemctl", "stop", "--no-block", "vllm"], check=True)))
"""


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with vLLM's program and a tiny model, and no unit; skipped where vLLM runs and no container does."""
    if os.geteuid() != 0 or shutil.which("systemd-nspawn") is None or shutil.which("debootstrap") is None:
        pytest.skip("booting systemd in a container needs root, systemd-nspawn and debootstrap")
    layers: Sequence[Path] = request.getfixturevalue("layers")
    python = python_path()
    if installed_version(python) is None:
        absent("vLLM is not installed")
    if not LIBRARY.exists():
        absent(f"{LIBRARY} is not here")
    directory = tmp_path_factory.mktemp("vllm")
    models = write_model(full_attention(), directory / "models").parent
    # llmops goes by the type of a model, vLLM by the name of its class as well: it cannot serve this one.
    write_model(replace(full_attention(), name=UNSERVABLE, config=full_attention().config | INCOMPATIBLE), models)
    write_damaged_models(models)
    layer = directory / "layer"
    library = layer / f"usr{LIBRARY}"
    library.parent.mkdir(parents=True)
    shutil.copyfile(LIBRARY, library)
    make_own_environment(layer / "opt/vllm", python)
    program = layer / "usr/local/bin/vllm"
    program.parent.mkdir(parents=True)
    program.symlink_to(python.parent / "vllm")
    environment, base = python.parent.parent, python.resolve().parent.parent
    name = new_name()
    made = Machine(
        name, CACHE / name, (layer, *layers), environment, models, MODEL, str(environment),
        () if str(base).startswith("/usr") else (base,),
    )  # fmt: skip
    made.make_disk()
    for path, text in PATIENT.items():
        made.write(path, text)
    made.boot()
    yield made
    made.close()


def write_damaged_models(models: Path) -> None:
    """What no server could serve, in ways that can be seen before one is started."""
    nobodys = {"architectures": ["NobodysForCausalLM"]}
    for name, config in (("without-config", {}), ("cut-off", {}), ("of-another-make", nobodys)):
        write_model(replace(full_attention(), name=name, config=full_attention().config | config), models)
    (models / "without-config/config.json").unlink()
    weights = models / "cut-off/model.safetensors"
    os.truncate(weights, weights.stat().st_size - 4096)


def make_own_environment(place: Path, python: Path) -> None:
    """An environment in which `vllm serve` works: this build's package has another name than its script asks for."""
    base, packages = python.resolve(), next((python.parent.parent / "lib").glob("python3*/site-packages"))
    own = place / "lib" / packages.parent.name / packages.name
    named = own / f"vllm-{installed_version(python)}+cpu.dist-info"
    named.mkdir(parents=True)
    (named / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {installed_version(python)}+cpu\n", encoding="utf-8"
    )
    for name in ("vllm", "transformers"):  # whose sources tell what they serve
        (own / name).symlink_to(packages / name)
    (own / "packages.pth").write_text(f"{packages}\n", encoding="utf-8")
    (place / "bin").mkdir()
    (place / "pyvenv.cfg").write_text(f"home = {base.parent}\n", encoding="utf-8")
    (place / "bin/python3").symlink_to(base)
    script = (python.parent / "vllm").read_text(encoding="utf-8").partition("\n")[2]
    program = place / "bin/vllm"
    program.write_text(f"#!/opt/vllm/bin/python3\n{script}", encoding="utf-8")
    program.chmod(0o755)


def serves(machine: Machine) -> bool:
    script = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PORT}/health',timeout=5)"
    return machine.run("python3", "-c", script).exit_code == 0


def listens(machine: Machine) -> bool:
    script = f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 5)"
    return machine.run("python3", "-c", script).exit_code == 0


def worker_of(machine: Machine) -> str:
    """The process that computes: vLLM renames it."""
    found = machine.run("pgrep", "-f", "^VLLM::Worker").stdout.split()
    assert len(found) == 1, found
    return found[0]


def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        absent("systemd-analyze is not installed")
    here = installed(command=("/usr/bin/true",))
    for name, plan in (("cpu", plan_of()), ("cards", replace(plan_of(), gpu_layers=37, tensor_parallel=2))):
        (file,) = VLLM.files(plan, here, InForce())
        unit = tmp_path / f"{name}.service"
        unit.write_text(file.content, encoding="utf-8")
        judged = analyze("security", "--offline=yes", "--no-pager", str(unit)).stdout
        (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", judged)
        print(f"systemd-analyze security, {name}: {score}")
        assert float(score) <= 2.5, judged
        complaints = analyze("verify", str(unit))
        assert (complaints.stdout + complaints.stderr).strip() == ""


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def test_a_unit_is_installed_verified_survives_a_killed_worker_and_goes_again(machine: Machine) -> None:
    before = configuration(machine)
    refused = machine.llmops("tune", "--apply", *WANTED)
    assert refused.exit_code == 7, refused
    assert configuration(machine) == before

    # A port that somebody else has is told before anything is changed.
    squatter = ("systemd-run", "--unit=squatter", "python3", "-m", "http.server", "--bind", "127.0.0.1", str(PORT))
    assert machine.run(*squatter).exit_code == 0
    wait_for(lambda: listens(machine), 60, "the other server", lambda: machine.log("squatter.service"))
    taken = machine.llmops("tune", "--apply", "--install-unit", *WANTED)
    assert taken.exit_code == 7, taken
    assert "of squatter.service) listens at 127.0.0.1:8000" in taken.envelope["errors"][0]["message"]
    assert configuration(machine) == before
    machine.run("systemctl", "stop", "squatter")

    applied = machine.llmops("tune", "--apply", "--install-unit", *WANTED)
    assert applied.exit_code == 0, f"{applied.envelope['errors']}\n{machine.log(UNIT)}"
    checks = {check["name"]: check for check in applied.envelope["data"]["checks"]}
    print(json.dumps({name: check["observed"] for name, check in checks.items()}, indent=1))
    for name in ("cache_tokens", "longest_request", "version", "preemptions", "two_requests", "running_command"):
        assert checks[name]["status"] == "pass", checks[name]
    assert machine.show(UNIT, "DynamicUser") == "yes"
    judged = machine.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    (score,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", judged)
    print(f"systemd-analyze security: {score}")
    assert float(score) <= 2.5, judged
    complaints = machine.run("systemd-analyze", "verify", *OURS)
    assert [line for line in complaints.stderr.splitlines() if any(path in line for path in (*OURS, UNIT))] == []

    pid = machine.show(UNIT, "MainPID")
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again.envelope["data"].get("files")
    assert machine.show(UNIT, "MainPID") == pid, "a second apply restarts nothing"
    front_comes_and_goes(machine, WANTED, MODEL)

    # A killed worker makes the server end with exit code 0; systemd starts it again all the same.
    machine.run("kill", "-KILL", worker_of(machine))
    wait_for(
        lambda: machine.show(UNIT, "MainPID") not in {pid, "0"},
        READY_SECONDS,
        "a new server",
        lambda: machine.log(UNIT),
    )
    wait_for(lambda: serves(machine), READY_SECONDS, "the new server to serve", lambda: machine.log(UNIT))
    assert machine.show(UNIT, "NRestarts") == "1"

    # A stop lets a running stream end.
    machine.write("/opt/inside/stream.py", _STREAM)
    streamed = machine.run("python3", "/opt/inside/stream.py", MODEL)
    assert streamed.exit_code == 0, (streamed, machine.log(UNIT))
    wanted, counted = streamed.stdout.split()
    print(f"streamed {counted} of {wanted} tokens after the stop was asked for")
    assert counted == wanted
    wait_for(
        lambda: machine.show(UNIT, "MainPID") == "0", READY_SECONDS, "the server to end", lambda: machine.log(UNIT)
    )
    assert machine.show(UNIT, "Result") == "success"

    back = machine.llmops("rollback")
    assert back.exit_code == 0, back
    assert configuration(machine) == before
    assert machine.run("pgrep", "-f", "VLLM::").stdout.strip() == ""


def test_a_persons_own_unit_keeps_its_words_and_comes_back(machine: Machine) -> None:
    """One unit with a user, variables and a --config file: what is refused, what fails, what is live, what comes back.

    Each start takes as long as everything else here, so all of it happens to the same unit.
    """
    own = write_own_unit(machine)
    assert machine.run("systemctl", "start", UNIT).exit_code == 0
    wait_for(lambda: serves(machine), READY_SECONDS, "the person's server", lambda: machine.log(UNIT))
    before, words, pid = everything(machine), machine.command_line(UNIT), machine.show(UNIT, "MainPID")

    # What cannot work is refused before anything is changed, so also a model that its user cannot reach.
    for model, code in REFUSED.items():
        refused = machine.llmops("tune", "--apply", *with_model(model))
        assert (refused.exit_code, len(refused.envelope["errors"])) == (code, 1), (model, refused)
    small = machine.llmops("tune", "--apply", *("1MiB" if word == "9MiB" else word for word in WANTED))
    assert small.exit_code == 4, small
    assert "of cache on host, and 1.00 MiB of it are given" in small.envelope["errors"][0]["message"]
    closed = machine.llmops("tune", "--apply", *with_model(CLOSED_MODEL))
    assert closed.exit_code == 7, closed
    assert "runs as the user vllm, which may not enter /home/me (mode 0700)" in closed.envelope["errors"][0]["message"]
    assert (everything(machine), machine.show(UNIT, "MainPID")) == (before, pid)
    assert serves(machine)

    # One that vLLM cannot load gives way to the person's own.
    failed = machine.llmops("tune", "--apply", *with_model(f"{MODEL_DIRECTORY}/{UNSERVABLE}"))
    assert failed.exit_code == 5, failed
    (error,) = failed.envelope["errors"]
    assert f"this vLLM cannot serve the architecture {INCOMPATIBLE['architectures'][0]!r}" in error["message"]
    assert "The old configuration is back" in error["message"]
    assert everything(machine) == before
    wait_for(lambda: serves(machine), READY_SECONDS, "the person's server again", lambda: machine.log(UNIT))
    assert machine.command_line(UNIT) == words

    applied = machine.llmops("tune", "--apply", *WANTED)
    assert applied.exit_code == 0, f"{applied.envelope['errors']}\n{machine.log(UNIT)}"
    checks = {check["name"]: check for check in applied.envelope["data"]["checks"]}
    print(json.dumps({name: (check["status"], check["observed"]) for name, check in checks.items()}, indent=1))
    for name in ("drop_in", "cache_tokens", "longest_request", "preemptions", "running_command", "model_readable"):
        assert checks[name]["status"] == "pass", checks[name]
    assert [check for check in checks.values() if check["status"] == "fail"] == []
    running = " ".join(machine.command_line(UNIT))
    for kept in (*KEPT_WORDS, "--max-num-seqs 2", "--max-model-len 2048"):
        assert kept in running, running
    assert served_names(machine) == ["assistant", "small"]
    assert machine.show(UNIT, "User") == "vllm"
    assert {path: what for path, what in everything(machine).items() if path in before} == before

    pid, times = machine.show(UNIT, "MainPID"), times_of(machine)
    again = machine.llmops("tune", "--apply", *WANTED)
    assert (again.exit_code, again.envelope["status"]) == (0, "ok"), again.envelope["data"].get("files")
    assert (machine.show(UNIT, "MainPID"), times_of(machine)) == (pid, times)

    # The person changes a word: verify says that it is not in force, tune what would become of the drop-in.
    machine.write(f"/etc/systemd/system/{UNIT}", own.replace("hermes", "pythonic"))
    seen = machine.llmops("verify")
    assert seen.exit_code == 3, seen
    assert "daemon_reload_needed" in [one["name"] for one in seen.envelope["data"]["checks"] if one["status"] == "fail"]
    machine.run("systemctl", "daemon-reload")
    (file,) = machine.llmops("tune", *WANTED).envelope["data"]["files"]
    assert "pythonic" in file["after"]
    assert "hermes" not in file["after"]
    machine.write(f"/etc/systemd/system/{UNIT}", own)

    back = machine.llmops("rollback")
    assert back.exit_code == 0, back
    assert everything(machine) == before
    wait_for(lambda: serves(machine), READY_SECONDS, "the person's server at the end", lambda: machine.log(UNIT))
    assert machine.command_line(UNIT) == words


def write_own_unit(machine: Machine) -> str:
    """The unit, its configuration file and its user; a copy of the model in a home that nobody else may enter."""
    assert machine.run("useradd", "--system", "--create-home", "vllm").exit_code == 0
    # This build's Python lies below /root, where a distribution's own does not.
    machine.path("/root").chmod(0o711)
    machine.write(CONFIG_FILE, OWN_CONFIG)
    machine.write(f"/etc/systemd/system/{UNIT}", OWN_UNIT)
    closed = machine.path(CLOSED_MODEL)
    shutil.copytree(machine.models / full_attention().name, closed)
    machine.path("/home/me").chmod(0o700)
    machine.run("systemctl", "daemon-reload")
    return OWN_UNIT


def everything(machine: Machine) -> dict[str, str]:
    """The configuration that a change may touch, and the person's own file beside it."""
    return configuration(machine) | files_of(machine, str(Path(CONFIG_FILE).parent))


def with_model(path: str) -> list[str]:
    return [path if word == MODEL else word for word in WANTED]


def served_names(machine: Machine) -> list[str]:
    script = (
        "import json,urllib.request as u;"
        f"print(*[one['id'] for one in json.load(u.urlopen('http://127.0.0.1:{PORT}/v1/models'))['data']])"
    )
    return machine.run("python3", "-c", script).stdout.split()
