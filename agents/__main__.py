"""`python -m agents` and the console script: `ullage`."""

import signal
import sys

from agents.run import python_gc


def main() -> None:
    """Run the command line. Until it is loaded, Ctrl-C ends the process at once and silently, as with any other program."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    python_gc.relax()  # modules are loaded to stay
    if sys.stderr is None or not sys.stderr.isatty():
        # structlog would load it to paint tracebacks, 3 MiB of each process; whoever else wants it gets it.
        sys.modules["rich"] = None  # type: ignore[assignment]
        import structlog  # noqa: F401

        del sys.modules["rich"]
    from agents.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
