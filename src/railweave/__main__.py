"""``python -m railweave``: the command line."""

from railweave.cli import main

if __name__ == "__main__":
    main()
