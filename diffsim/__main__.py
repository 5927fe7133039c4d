"""`python -m diffsim` is the command `diffsim`."""

import sys

from diffsim.cli import main

sys.exit(main())
