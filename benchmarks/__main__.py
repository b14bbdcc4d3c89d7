"""`make bench`: every benchmark but the soak, each of which writes its block of docs/benchmarks.md."""

from __future__ import annotations

from benchmarks import detect, exporter, ledger, scale


def main() -> None:
    """Runs them one after the other; the first that fails ends the run."""
    ledger.main()
    scale.main([])
    exporter.main()
    detect.main([])


if __name__ == "__main__":
    main()
