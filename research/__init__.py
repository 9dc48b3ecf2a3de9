"""What made the product and judges it, run by hand: the simulator, learning and comparisons."""
