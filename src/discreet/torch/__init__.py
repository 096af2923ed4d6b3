"""Differentially private training of PyTorch models. Needs the extra ``torch``."""
