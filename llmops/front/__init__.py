"""The front: a proxy before one engine that bounds its queue."""

from llmops.front.haproxy import (
    CONFIGURATION_PATH,
    NAME,
    UNIT,
    UNIT_PATH,
    Program,
    checked_configuration,
    configuration_file,
    find_program,
    require_program,
    unit_file,
)
from llmops.front.listen import Address, address_of_url, parse_listen, port_taken_by
from llmops.front.observe import front_checks, read_word, serves_as
from llmops.front.spec import FrontServer, FrontSpec, example_listen, front_of_replicas, front_spec
from llmops.front.start_order import Replicas, start_order
from llmops.front.traffic import Traffic, traffic_of

__all__ = [
    "CONFIGURATION_PATH",
    "NAME",
    "UNIT",
    "UNIT_PATH",
    "Address",
    "FrontServer",
    "FrontSpec",
    "Program",
    "Replicas",
    "Traffic",
    "address_of_url",
    "checked_configuration",
    "configuration_file",
    "example_listen",
    "find_program",
    "front_checks",
    "front_of_replicas",
    "front_spec",
    "parse_listen",
    "port_taken_by",
    "read_word",
    "require_program",
    "serves_as",
    "start_order",
    "traffic_of",
    "unit_file",
]
