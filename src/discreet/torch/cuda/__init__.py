"""What a training computes on a GPU. Loaded for CUDA tensors alone.

Exact Gaussian noise (docs/maths/gpu_noise.md): `tables` holds integer tables, `keystream` ChaCha20 in NumPy, `sampling`
the sampler in NumPy with the exact routine that decides what fixed precision leaves open, `kernels` the same sampler in
Triton, `noise` what a training calls.

Clipped sums as one program that is replayed (docs/maths/torch.md): `segments` holds kernels for squared lengths and
integer sums, `reductions`, `convolutions` and `outer` what is kept of each parameter between both, `choice` which of
them it gets, `program` what is traced, `compiled` the engine, `fitting` what ``trainer.fit`` calls.
"""
