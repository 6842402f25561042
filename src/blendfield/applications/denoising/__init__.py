"""Denoising: binary pictures found again in noise, the first experiment of the paper."""
