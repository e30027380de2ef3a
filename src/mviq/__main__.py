"""``python -m mviq`` is the command ``mviq``."""

import sys

from mviq.cli.main import main

sys.exit(main())
