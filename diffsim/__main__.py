"""`python -m diffsim` is the command `diffsim`."""

import sys

from diffsim.command.cli import main

sys.exit(main())
