import zlib

from geonode.storage.seal import file_checksum, seal

CONTENT = b'{"text": "checksum: 00000000", "checksum": "00000000"}'
AT = len(CONTENT) - len('00000000"}')


def test_a_seal_is_the_crc_of_the_content_with_zeros_in_its_place():
    digits = f"{zlib.crc32(CONTENT):08x}".encode()
    sealed = b'{"text": "checksum: 00000000", "checksum": "' + digits + b'"}'
    for at in (AT, AT - len(CONTENT)):
        assert seal(CONTENT, at) == seal(sealed, at) == sealed


def test_the_checksum_of_the_standard_over_any_length(tmp_path):
    # "check" value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms
    (tmp_path / "file").write_bytes(b"123456789")
    assert file_checksum(tmp_path / "file") == "cbf43926"
    content = bytes(range(256)) * 10_000  # more than one read
    (tmp_path / "file").write_bytes(content)
    assert file_checksum(tmp_path / "file") == f"{zlib.crc32(content):08x}"
