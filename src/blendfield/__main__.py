"""`python -m blendfield`."""

import sys

from blendfield.cli import main

sys.exit(main())
