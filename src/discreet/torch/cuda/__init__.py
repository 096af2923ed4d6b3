"""Exact Gaussian noise made on a GPU; docs/maths/gpu_noise.md proves the law. Loaded for CUDA tensors alone.

`tables` holds integer tables, `keystream` ChaCha20 in NumPy, `sampling` the sampler in NumPy with the exact routine
that decides what fixed precision leaves open, `kernels` the same sampler in Triton, `noise` what a training calls.
"""
