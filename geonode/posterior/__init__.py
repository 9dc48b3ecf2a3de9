"""Average over metrics of concentration space, and over geodesic smoothers on each of them."""
