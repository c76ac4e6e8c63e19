"""``python -m dataward`` is the ``dataward`` command."""

from dataward.cli.main import main

if __name__ == "__main__":
    main()
