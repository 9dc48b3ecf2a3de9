"""Programs written for a card, in Triton; importing a module of them needs Triton."""
