"""``python -m tabembed.cli``."""

from tabembed.cli import main

if __name__ == "__main__":
    main()
