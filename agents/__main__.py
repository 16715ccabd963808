"""`python -m agents` is `ullage`."""

from agents.cli import main

if __name__ == "__main__":
    main()
