"""Chains whose pairs all have the same table, as in linear-chain conditional random fields.

The table is not written out for every pair: the forward and backward passes over all chains side by side are matrix
products. Chains are sorted by falling length; position t of all chains that are that long stand side by side, so that
every array over positions is [L labels, N positions of all chains]. With U the potentials of single variables, T the
table of the pairs, s_i the weight of chain i,

    A_i = eps log sum_y exp((sum_t U_t(y_t) + sum_t T(y_t, y_{t+1})) / eps)
    data part of F = sum_i s_i (A_i - theta_i(y_i)),   gradient from P(y_t = a) and sum_t P(y_t = a, y_{t+1} = b)
"""

from blendfield.learning.chains.chunk import ChainChunk, chain_chunk

__all__ = ["ChainChunk", "chain_chunk"]
