"""A front before several equal servers: one queue for all, no request sent twice, and how they are started."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from llmops.core.errors import UsageError
from llmops.front import (
    Address,
    FrontServer,
    FrontSpec,
    Replicas,
    configuration_file,
    front_of_replicas,
    front_spec,
    start_order,
)
from llmops.front.haproxy import unit_file
from tests.unit.actions.serving_machine import a_plan

PLACES = tuple(Address(f"10.0.0.{number}", 8000) for number in (1, 2, 3))
SPEC = FrontSpec("vllm", tuple(FrontServer(place, 4) for place in PLACES), Address("127.0.0.1", 8000), 9, 60.0)
REPLICAS = Replicas("10.0.0.9", "vllm as /opt/vllm/bin/vllm", "vllm.service", keeps_others_away=True)


def lines(spec: FrontSpec) -> list[str]:
    return [line.strip() for line in configuration_file(spec).content.splitlines()]


def test_each_server_has_its_slots_and_all_have_one_queue() -> None:
    found = lines(SPEC)
    servers = [line for line in found if line.startswith("server engine") and "maxconn" in line]
    assert [line.split(" check")[0] for line in servers] == [
        "server engine1 10.0.0.1:8000 maxconn 4",
        "server engine2 10.0.0.2:8000 maxconn 4",
        "server engine3 10.0.0.3:8000 maxconn 4",
    ]
    assert found.count("balance leastconn") == 1
    (refusal,) = [line for line in found if line.startswith("http-request return status 503")]
    assert refusal.endswith("{ queue(generation) ge 9 }")
    assert "12 requests are served at once and 9 may wait" in " ".join(found)


def test_what_was_sent_is_never_sent_again() -> None:
    found = lines(SPEC)
    assert [line for line in found if line.startswith("retry-on")] == ["retry-on conn-failure"]
    assert "option redispatch 1" in found
    one = lines(replace(SPEC, servers=SPEC.servers[:1]))
    assert not any(line.startswith(("option redispatch", "default-server")) for line in one)


def test_where_nobody_may_wait_only_servers_that_are_up_count() -> None:
    found = lines(replace(SPEC, queue_requests=0))
    added = [line for line in found if line.startswith("http-request set-var(txn.slots)")]
    assert len(added) == 4
    assert added[-1].endswith("srv_is_up(generation/engine3),mul(4),add(txn.slots)")


def test_a_conversation_has_a_home_where_that_was_asked_for() -> None:
    assert not any("txn.home" in line for line in lines(SPEC))
    found = lines(replace(SPEC, affinity_header="X-Session-Id"))
    (home,) = [line for line in found if line.startswith("http-request set-var(txn.home)")]
    assert "req.hdr(X-Session-Id),xxh32,mod(3)" in home
    preferred = [line for line in found if line.startswith("use-server")]
    assert preferred[1] == "use-server engine2 if { var(txn.home) -m int 1 } { srv_conn(generation/engine2) lt 4 }"


def test_its_own_word_names_every_server() -> None:
    (said,) = [line for line in lines(SPEC) if line.startswith("http-request return status 200")]
    match = re.search(r"'(.*)'", said)
    assert match is not None
    document = json.loads(re.sub(r"%\[[^]]+\]", "0", match.group(1)))
    assert (document["slots"], document["queue"], document["waiting"]) == (12, 9, 0)
    assert [engine["address"] for engine in document["engines"]] == [str(place) for place in PLACES]


def test_the_front_on_loopback_talks_to_its_servers_alone() -> None:
    unit = unit_file(SPEC).content
    assert "IPAddressAllow=localhost\nIPAddressAllow=10.0.0.1\n" in unit
    assert "IPAddressDeny=any" in unit
    assert "IPAddress" not in unit_file(replace(SPEC, listen=Address("10.0.0.9", 8000))).content


def test_the_queue_is_as_long_as_all_servers_together_allow() -> None:
    plan = a_plan(slots=5)
    made = front_of_replicas(plan, PLACES, Address("127.0.0.1", 8000), machine="10.0.0.9")
    assert (made.slots, made.queue_requests) == (15, 3 * plan.queue_requests)
    given = front_of_replicas(plan, PLACES, Address("127.0.0.1", 8000), machine="10.0.0.9", queue_requests=2)
    assert given.queue_requests == 2


def test_nobody_waits_without_a_connection() -> None:
    plan, listen = a_plan(slots=5), Address("127.0.0.1", 8000)
    assert front_spec(replace(plan, queue_requests=99_999), PLACES[0], listen).queue_requests == 4096 - 512 - 5
    wide = front_of_replicas(plan, PLACES, listen, machine="10.0.0.9", queue_requests=99_999)
    assert wide.slots + wide.queue_requests == 4096 - 512
    with pytest.raises(UsageError, match="3600 requests at once are more than the 3584"):
        front_of_replicas(replace(plan, slots=1200), PLACES, listen, machine="10.0.0.9")


def test_the_front_takes_no_place_of_a_server_on_its_machine() -> None:
    plan, everywhere = a_plan(slots=5), Address("0.0.0.0", 8000)
    assert front_of_replicas(plan, PLACES, everywhere, machine="10.0.0.9").listen == everywhere
    for listen in (everywhere, PLACES[0]):
        with pytest.raises(UsageError, match="itself listens"):
            front_of_replicas(plan, PLACES, listen, machine="10.0.0.1")


def test_the_order_says_who_may_reach_whom() -> None:
    text = start_order(SPEC, replace(REPLICAS, warnings=("these users need 5",))).content
    assert text.index("1. on 10.0.0.1, 10.0.0.2, 10.0.0.3") < text.index("2. on 10.0.0.9, which has the front")
    assert "Warning: these users need 5." in text
    assert "Reachable from 10.0.0.9: 10.0.0.1:8000, 10.0.0.2:8000, 10.0.0.3:8000." in text
    assert "the units let in no other machine" in text
    assert "for itself alone" in text
    assert "curl http://127.0.0.1:8000/llmops/front" in text
    opened = start_order(replace(SPEC, listen=Address("0.0.0.0", 80)), replace(REPLICAS, keeps_others_away=False))
    assert "a firewall must see to that" in opened.content
    assert "for all who reach that address" in opened.content
