"""``python -m prescope`` is the command line."""

import sys

from prescope.cli import main

sys.exit(main())
