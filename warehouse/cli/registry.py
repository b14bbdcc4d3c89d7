"""Which command lives in which file; a command's file is imported only when the command is called."""

from __future__ import annotations

import importlib
import pkgutil

import click

from warehouse.cli import commands


class Commands(click.Group):
    """A group whose commands are the modules of `warehouse/cli/commands`, each with a constant `COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Gives the names of all commands, sorted."""
        return sorted(m.name.strip("_") for m in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Gives a command by name, None for an unknown one."""
        for module in pkgutil.iter_modules(commands.__path__):
            if module.name.strip("_") == cmd_name:
                command = importlib.import_module(f"{commands.__name__}.{module.name}").COMMAND
                assert isinstance(command, click.Command)
                return command
        return None
