"""``python -m tabembed.cli``."""

from tabembed.cli import main

main()
