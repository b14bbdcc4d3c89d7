"""The entry point of `gpu-minutes`: says in one line what to install where only the exporter was installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from warehouse.cli import main as run
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] == "warehouse":
            raise
        sys.stderr.write(
            f"gpu-minutes: {exc.name} is not installed; the base install is the exporter alone: "
            "pip install 'gpu-minutes[warehouse]'\n"
        )
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
