"""Command `geonode devices`: devices of this machine."""

from dataclasses import asdict

from geonode.commands.common import AsJson, echo_json
from geonode.terminal import aligned, tell


def devices(as_json: AsJson = False) -> None:
    """List the devices of this machine, the one that auto chooses, and the formats of each.

    Formats, and the memory used at once by models trained side by side or by geodesics, are the
    defaults where params.yaml has no others.
    """
    from geonode.compute.profile import machine, present  # noqa: PLC0415

    found, about = present(), machine()
    if as_json:
        echo_json({"devices": [asdict(device) for device in found], "machine": about})
        return
    rows = [("device", "", "training", "geometry", "memory", "used at once", "in use", "name")]
    for device in found:
        memory = "" if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.1f} GiB"
        chosen = "auto" if device.automatic else ""
        formats = (device.training, device.geometry)
        profile = device.profile
        used = f"{profile.memory_mb:,} MB"
        ways = {"captured training": profile.captured, "own kernels": profile.kernels}
        in_use = ", ".join(way for way, is_used in ways.items() if is_used)
        in_use = in_use or f"{profile.batches} batches at once"
        rows.append((device.kind, chosen, *formats, memory, used, in_use, device.name))
    tell("\n".join(aligned(rows)))
    tell(
        f"\n{about['processor']}, {about['cores']} cores, {about['threads']} threads; "
        f"{about['system']}, python {about['python']}, torch {about['torch']}, "
        f"triton {about['triton']}"
    )
