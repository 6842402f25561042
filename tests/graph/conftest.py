"""No time limit per example: machines are busy, and what takes long here is bounded in the tests themselves."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
