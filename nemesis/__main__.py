"""``python -m nemesis``: the command line."""

from nemesis.cli.main import main

if __name__ == "__main__":
    main()
