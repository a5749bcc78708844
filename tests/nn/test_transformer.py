"""Blocks of a transformer, against torch's own layer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from tabembed.nn.transformer import Transformer, TransformerBlock


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_a_block_is_torchs_pre_norm_layer():
    block = TransformerBlock(12, n_heads=3, depth=1, seed=0)
    peer = nn.TransformerEncoderLayer(
        12, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    with torch.no_grad():
        peer.self_attn.in_proj_weight.copy_(block.qkv.weight)
        peer.self_attn.in_proj_bias.copy_(block.qkv.bias)
    pairs = ((peer.self_attn.out_proj, block.out), (peer.linear1, block.hidden), (peer.linear2, block.back))
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    assert_close(block(x, causal)[0], peer(x, src_mask=mask, is_causal=True), rtol=1e-5, atol=1e-5)


def test_earlier_keys_stand_before():
    stack = Transformer(8, n_layers=2, n_heads=2, seed=0)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    whole, none = stack(x, causal)
    assert none == ()
    kept, out = stack.initial_state(2), []
    for i in range(5):
        row, kept = stack(x[:, i : i + 1], F.scaled_dot_product_attention, kept)
        out.append(row)
    assert_close(torch.cat(out, 1), whole, rtol=0, atol=1e-5)
    assert [tuple(part.shape) for keys in kept for part in keys] == [(2, 2, 5, 4)] * 4


def test_what_is_added_starts_smaller_in_a_deeper_stack():
    one, four = (TransformerBlock(16, n_heads=1, depth=depth, seed=0) for depth in (1, 4))
    assert_close(four.out.weight * 2, one.out.weight)
    assert_close(four.back.weight * 2, one.back.weight)
    assert_close(four.qkv.weight, one.qkv.weight)
    assert one.out.bias.eq(0).all()


def test_dropout_falls_on_what_is_added():
    block = TransformerBlock(16, n_heads=1, depth=1, dropout=0.9, seed=0)
    x = torch.randn(1, 4, 16)
    added = block(x, causal)[0] - x
    assert (added == 0).float().mean() > 0.6
    assert (block.eval()(x, causal)[0] != x).all()
