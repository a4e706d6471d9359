"""Apply and compare power limit, clocks, ECC and compute mode of GPUs."""
