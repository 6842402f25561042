"""The compiled core of blendfield."""
