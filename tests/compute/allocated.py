"""What torch allocates on the CPU, counted by its profiler."""

from torch.profiler import ProfilerActivity, profile


def peak_bytes(call):
    """Most bytes of tensors that a call holds at once, of those that it makes."""
    call()  # what is made once is there then
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    now = most = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
