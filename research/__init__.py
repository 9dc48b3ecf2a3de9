"""Tools that made the product and judge it, run by hand: simulator, learning, comparisons."""
