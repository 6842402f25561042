"""Whole experiments, from data to report, each in a folder of its own."""
