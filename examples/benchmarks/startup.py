"""How long `import tabembed` and `tabembed --help` take.

python examples/benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys

from measure import alternate, below, report

HELP = "import sys; from tabembed.cli import main; sys.argv[1:] = ['--help']; main()"


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    seconds = alternate(
        {
            "bare": lambda: python("pass"),
            "import": lambda: python("import tabembed"),
            "help": lambda: python(HELP),
        },
        repeats=15,
    )
    report(
        "startup",
        [
            below("import tabembed, beyond bare Python", seconds["import"] - seconds["bare"], 0.1, "s"),
            below("tabembed --help", seconds["help"], 0.35, "s"),
        ],
    )


if __name__ == "__main__":
    main()
