"""Ctrl-C reaches tests however they are started: shells start jobs in the background with it ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
