"""What each position scheme does to a score, when the positions are the real departure times of an aircraft.

python examples/continuous_time.py [--quick]
"""

import sys
from pathlib import Path

import torch

from tabembed import ALiBiEmbedding, RelativeDecay, RotaryEmbedding, attention, frequencies_from_periods
from tabembed.datasets import load_flights

quick = "--quick" in sys.argv
HOUR, DAY = 3600 * 10**9, 86_400 * 10**9  # nanoseconds: the unit of the times below

# One aircraft, in time order. Its times stay int64 nanoseconds since 1970: nothing is rounded to float32.
flights = load_flights()
tail = flights["tailnum"].value_counts().index[0]
departures = flights.loc[flights["tailnum"] == tail, "time_hour"].sort_values()
times = torch.tensor(departures.dt.as_unit("ns").astype("int64").to_numpy())
times = times[:40] if quick else times
gaps = times.diff().double() / HOUR
print(f"{tail}: {len(times)} flights, gaps of {gaps.min():.0f} to {gaps.max():.0f} hours")

# Waves from twice the shortest gap to three spans; a decay from half a day to a month; ALiBi per day.
periods = frequencies_from_periods(2 * HOUR, 3 * int(times[-1] - times[0]), 16)
rotary = RotaryEmbedding(32, frequencies=periods)
decay = RelativeDecay(32, half_lives=(DAY / 2, 30 * DAY))
alibi = ALiBiEmbedding(4, mode="causal", unit=DAY)

# The score of one query with itself, seen a while ago: what is left of it after that time.
ago = torch.tensor([0, 1, 6, 24, 7 * 24, 30 * 24]) * HOUR
content = torch.ones(len(ago), 32)


def scores(scheme, shift: int = 0) -> torch.Tensor:
    now, then = (times[-1] + shift).expand(len(ago)), times[-1] + shift - ago
    q, k = scheme(content, content, positions=now, k_positions=then)
    return (q * k).mean(-1)


weights = alibi.bias(times[-1:], times[-1] - ago)[:, 0].exp()
print("hours ago             ", *(f"{hours:7.0f}" for hours in ago.double() / HOUR))
print("rotary, of the score  ", *(f"{s:7.3f}" for s in scores(rotary)))
print("decay, of the score   ", *(f"{s:7.3f}" for s in scores(decay)))
print("ALiBi head 0, weight  ", *(f"{w:7.3f}" for w in weights[0]))
print("ALiBi head 3, weight  ", *(f"{w:7.3f}" for w in weights[3]))

# Only elapsed time counts: a century later every score is the same.
century = 36_525 * DAY
print(f"shifted by a century:  {(scores(rotary, century) - scores(rotary)).abs().max():.1e} at most")
rounded = RotaryEmbedding(32, frequencies=[f * 1e9 for f in periods])  # per second
seconds = (times[-1] // 10**9, (times[-1] - ago) // 10**9)
q, k = rounded(
    content, content, positions=seconds[0].float().expand(len(ago)), k_positions=seconds[1].float()
)
print(f"through float32 seconds: off by {((q * k).mean(-1) - scores(rotary)).abs().max():.1e}")

# All of it in one call: every flight attends to the aircraft's own past, at its real times.
torch.manual_seed(0)
q, k, v = (torch.randn(1, 4, len(times), 32) for _ in range(3))
out = attention(q, k, v, rotary=rotary, bias=alibi, positions=times)
later = times.clone()
later[-1] += 30 * DAY
moved = attention(q, k, v, rotary=rotary, bias=alibi, positions=later) - out
print("the last flight a month later: moves", f"{moved[:, :, -1].abs().max():.3f};", end=" ")
print("all before it", f"{moved[:, :, :-1].abs().max():.1e}")

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("no plot: matplotlib is not installed")
else:
    ago = torch.linspace(0, 14 * 24, 1000).mul(HOUR).long()
    content = torch.ones(len(ago), 32)
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    days = ago.double() / DAY
    for name, line in {"rotary": scores(rotary), "decay": scores(decay)}.items():
        axes.plot(days, line, label=name)
    axes.plot(days, alibi.bias(times[-1:], times[-1] - ago)[1, 0].exp(), label="ALiBi, head 1 (weight)")
    axes.set(xlabel="days ago", ylabel="what is left of the score")
    axes.legend()
    Path("build").mkdir(exist_ok=True)
    figure.savefig("build/continuous_time.png", dpi=120)
    print("plot: build/continuous_time.png")
