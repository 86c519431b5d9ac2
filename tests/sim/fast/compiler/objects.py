"""What an object needs of the system that loads it, as its headers say."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_MACHINES = {0x0100_0007: "x86_64", 0x0100_000C: "arm64"}
SHT_DYNAMIC, SHT_DYNSYM = 6, 11
DT_NEEDED = 1
LC_SYMTAB, LC_LOAD_DYLIB, LC_BUILD_VERSION, LC_CODE_SIGNATURE = 0x2, 0xC, 0x32, 0x1D
DYLIB, EXTERNAL, TYPE_BITS = 6, 0x01, 0x0E


class Needs(NamedTuple):
    """Of an object: its processor, the libraries and the functions of others, and its own."""

    machine: str
    libraries: set[str]
    imports: set[str]
    exports: set[str]
    #: the oldest system that has all of it: of glibc, or of macOS
    oldest: tuple[int, ...]
    #: it is signed, which macOS asks for
    signed: bool = False


def needs_of(path: Path) -> Needs:
    """Return what an object needs."""
    data = path.read_bytes()
    return _elf(data) if data.startswith(b"\x7fELF") else _mach_o(data)


def _elf(data: bytes) -> Needs:
    (machine,) = struct.unpack_from("<H", data, 18)
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * n) for n in range(count)]
    libraries, imports, exports = set(), set(), set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind not in (SHT_DYNAMIC, SHT_DYNSYM):
            continue
        names = sections[link][4]
        if kind == SHT_DYNAMIC:
            for tag, value in struct.iter_unpack("<QQ", data[offset : offset + length]):
                if tag == DT_NEEDED:
                    libraries.add(_text(data, names + value))
            continue
        for name, _, _, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", data[offset : offset + length]
        ):
            if name:
                (exports if section else imports).add(_text(data, names + name))
    versions = re.findall(rb"GLIBC_([0-9.]+)\0", data)
    oldest = max((tuple(map(int, one.split(b"."))) for one in versions), default=())
    return Needs(ELF_MACHINES[machine], libraries, imports, exports, oldest)


def _mach_o(data: bytes) -> Needs:
    magic, machine, _, kind, count = struct.unpack_from("<IIIII", data)
    assert (magic, kind) == (0xFEED_FACF, DYLIB)
    libraries, imports, exports, oldest = set(), set(), set(), 0
    signed = False
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command == LC_LOAD_DYLIB:
            (name,) = struct.unpack_from("<I", data, at + 8)
            libraries.add(_text(data, at + name))
        elif command == LC_CODE_SIGNATURE:
            signed = True
        elif command == LC_BUILD_VERSION:
            (oldest,) = struct.unpack_from("<I", data, at + 12)
        elif command == LC_SYMTAB:
            symbols, number, names, _ = struct.unpack_from("<IIII", data, at + 8)
            for name, kind, *_ in struct.iter_unpack(
                "<IBBHQ", data[symbols : symbols + 16 * number]
            ):
                if kind & EXTERNAL:
                    (exports if kind & TYPE_BITS else imports).add(_text(data, names + name))
        at += size
    version = (oldest >> 16, oldest >> 8 & 0xFF)
    return Needs(MACH_MACHINES[machine], libraries, imports, exports, version, signed)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
