"""Says how hard Hypothesis tries.

By hand a few dozen examples a property, so that the whole suite stays quick; CI sets HYPOTHESIS_PROFILE=thorough.
"""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
