"""Check power limit, clocks, ECC and compute mode of a profile's GPUs."""
