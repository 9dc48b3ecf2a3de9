import pytest


@pytest.fixture
def file(tmp_path):
    """Write text or bytes to a file, called series.csv unless it is called otherwise."""

    def write(content, name="series.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
