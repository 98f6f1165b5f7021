"""``python -m adc_wrappers.cli``."""

import sys

from .main import main

sys.exit(main())
