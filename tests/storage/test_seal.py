import zlib

import pytest

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.seal import file_checksum, is_sealed, read_sealed, seal

CONTENT = b'{"text": "checksum: 00000000", "checksum": "00000000"}'
AT = len(CONTENT) - len('00000000"}')


def test_a_seal_is_the_crc_of_the_content_with_zeros_in_its_place():
    digits = f"{zlib.crc32(CONTENT):08x}".encode()
    sealed = b'{"text": "checksum: 00000000", "checksum": "' + digits + b'"}'
    for at in (AT, AT - len(CONTENT)):
        assert seal(CONTENT, at) == seal(sealed, at) == sealed


@pytest.mark.parametrize("at", [AT, AT - len(CONTENT)])
def test_every_flipped_bit_and_every_truncation_breaks_the_seal(at):
    sealed = seal(CONTENT, at)
    assert is_sealed(sealed, at)
    for bit in range(8 * len(sealed)):
        damaged = bytearray(sealed)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not is_sealed(bytes(damaged), at), bit
    for length in range(len(sealed)):
        assert not is_sealed(sealed[:length], at), length


def test_the_checksum_of_the_standard_over_any_length(tmp_path):
    # "check" value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms
    (tmp_path / "file").write_bytes(b"123456789")
    assert file_checksum(tmp_path / "file") == "cbf43926"
    content = bytes(range(256)) * 10_000  # more than one read
    (tmp_path / "file").write_bytes(content)
    assert file_checksum(tmp_path / "file") == f"{zlib.crc32(content):08x}"


def test_a_file_is_read_whole_or_not_at_all(tmp_path):
    file = tmp_path / "file"
    with pytest.raises(MissingArtifactError, match="file: not found"):
        read_sealed(file, AT)
    file.write_bytes(seal(CONTENT, AT))
    assert read_sealed(file, AT) == seal(CONTENT, AT)
    file.write_bytes(CONTENT)
    with pytest.raises(CorruptArtifactError, match="file: the file fails its checksum"):
        read_sealed(file, AT)
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_sealed(tmp_path, AT)
