"""`python -m agents` and the console script: `ullage`."""

import signal

from agents.run import python_gc


def main() -> None:
    """Run the command line. Until it is loaded, Ctrl-C ends the process at once and silently, as with any other program."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    python_gc.relax()  # modules are loaded to stay
    from agents.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
