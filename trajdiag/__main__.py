"""`python -m trajdiag`."""

import sys

from trajdiag.cli import main

sys.exit(main())
