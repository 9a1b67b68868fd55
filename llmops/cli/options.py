"""The click side of the options: how each is typed, and the ones that every command has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from llmops.configuration import OptionSpec

F = TypeVar("F", bound=Callable[..., Any])


def common_options(function: F) -> F:
    """--output, -v and --debug: read from the words before parsing (Session), declared here for --help."""
    for option in (
        click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."),
        click.option("-v", "--verbose", is_flag=True, expose_value=False, help="Say on stderr what is being done."),
        click.option(
            "--output",
            type=click.Choice(["text", "json"]),
            default="text",
            expose_value=False,
            help="Form of the result on stdout.",
        ),
    ):
        function = option(function)
    return function


def table_options(specs: tuple[OptionSpec, ...]) -> Callable[[F], F]:
    """Options of the table as keyword arguments, in the table's order; None (or nothing) where not typed."""

    def decorate(function: F) -> F:
        for spec in reversed(specs):
            function = click.option(*_declarations(spec), **_attributes(spec))(function)
        return function

    return decorate


def api_key_option(function: F) -> F:
    """--api-key-file FILE, kept in the session: a server with a key tells nothing of itself without it."""
    return click.option(
        "--api-key-file",
        metavar="FILE",
        expose_value=False,
        callback=_keep_api_key,
        help="The key of the running server, for looking at it and for test requests.",
    )(function)


def _keep_api_key(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is not None and not ctx.resilient_parsing:
        from llmops.cli.hosts import read_api_key

        ctx.obj.api_key = read_api_key(path)


def snapshot_option(function: F) -> F:
    """--snapshot DIR."""
    return click.option("--snapshot", metavar="DIR", help="Read this recording instead of the machine.")(function)


def config_option(function: F) -> F:
    """--config FILE."""
    return click.option("--config", metavar="FILE", help="Configuration file instead of /etc/llmops/llmops.yaml.")(
        function
    )


def planning_options(function: F) -> F:
    """What plan, tune, render, apply and size share."""
    from llmops.cli.option_table import PLANNING

    function = click.option("--explain", is_flag=True, help="Every number with formula, inputs and source.")(function)
    return table_options(PLANNING)(config_option(snapshot_option(function)))


def front_options(function: F) -> F:
    """What render and apply share for the front that bounds the queue."""
    listen = click.option("--listen", metavar="ADDRESS:PORT", help="Where the front listens, such as 127.0.0.1:8000.")
    kind = click.option(
        "--front", type=click.Choice(["haproxy"]), help="The proxy that bounds the queue, instead of the engine."
    )
    return kind(listen(function))


def applying_options(function: F) -> F:
    """What apply and tune --apply share."""
    from llmops.cli.option_table import APPLYING

    for option in (
        click.option("--install-unit", is_flag=True, help="Install a complete hardened unit where none starts it."),
        click.option("--take-over", is_flag=True, help="Override what your own drop-ins set; they stay as they are."),
    ):
        function = option(function)
    return table_options(APPLYING)(function)


def _declarations(spec: OptionSpec) -> tuple[str, ...]:
    from llmops.cli.option_table import SWITCHES

    long = f"--{spec.name}"
    return (f"{long}/--no-{spec.name}" if spec.name in SWITCHES else long, spec.name.replace("-", "_"))


def _attributes(spec: OptionSpec) -> dict[str, Any]:
    from llmops.configuration import ValueKind

    attributes: dict[str, Any] = {"help": spec.help, "default": None}
    if spec.kind is ValueKind.FLAG:
        return {**attributes, "is_flag": True}
    if spec.kind is ValueKind.TEXTS:
        return {**attributes, "multiple": True, "metavar": spec.metavar, "callback": _checked(spec)}
    metavar = f"[{'|'.join(spec.choices)}]" if spec.choices else spec.metavar
    return {**attributes, "metavar": metavar, "callback": _checked(spec)}


def _checked(spec: OptionSpec) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def check(ctx: click.Context, parameter: click.Parameter, raw: Any) -> Any:
        from llmops.configuration import read_value
        from llmops.core.errors import UsageError

        if raw is None or raw == ():
            return None
        try:
            return read_value(spec, raw)
        except UsageError as error:
            message = error.message if error.hint is None else f"{error.message}; {error.hint}"
            raise click.BadParameter(message, ctx, parameter) from None

    return check
