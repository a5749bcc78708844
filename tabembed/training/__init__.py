"""The network, the one loop that trains it, its objectives, and cross-fitting."""
