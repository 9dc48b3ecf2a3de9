"""`geonode devices`: where this machine can compute."""

from dataclasses import asdict

import typer

from geonode.commands.common import AsJson, aligned, echo_json


def devices(as_json: AsJson = False) -> None:
    """List the devices of this machine, which one auto takes, and in which formats each computes.

    The formats are those that hold unless params.yaml has others.
    """
    from geonode.devices.present import machine, present  # noqa: PLC0415

    found, about = present(), machine()
    if as_json:
        echo_json({"devices": [asdict(device) for device in found], "machine": about})
        return
    rows = [("device", "", "training", "geometry", "memory", "name")]
    for device in found:
        memory = "" if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.1f} GiB"
        chosen = "auto" if device.automatic else ""
        rows.append((device.kind, chosen, device.training, device.geometry, memory, device.name))
    typer.echo("\n".join(aligned(rows)))
    typer.echo(
        f"\n{about['processor']}, {about['cores']} cores, {about['threads']} threads; "
        f"{about['system']}, python {about['python']}, torch {about['torch']}, "
        f"triton {about['triton'] or 'cannot be imported'}"
    )
