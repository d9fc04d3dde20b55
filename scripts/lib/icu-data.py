#!/usr/bin/env python3
"""Copies Foundation's static ICU library with only the part of its data that Latchkey needs.

Usage: icu-data.py ARCHIVE COPY

ARCHIVE is the toolchain's lib_FoundationICU.a. Its data has 34 MB: names, formats and sort orders of 1,100 locales, word lists, and
character sets. Latchkey formats dates in ISO 8601 only, and reads and writes UTF-8 only. The remaining part has 4.9 MB: properties and
normalization of characters, time zones, and the data of the root locale and of English. ICU uses the root locale for languages that
it does not find.
"""
import mmap
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# ICU's "common data" consists of a header, the number of items, for each item the offsets of its name and its bytes, the names, and
# the items. Offsets are relative to the number of items, and names are sorted; see udata.cpp and ucmndata.h in ICU.
MAGIC = re.compile(rb"(..)\xda\x27\x14\x00\x00\x00\x00\x00\x02\x00CmnD", re.DOTALL)
ALIGNMENT = 16
# The object file in the archive that contains only the data.
MEMBER = "icu_packaged_data.cpp.o"


def is_needed(name):
    path = name.split("/")[1:]
    tree, (stem, kind) = path[:-1], path[-1].rsplit(".", 1)
    if tree:
        return kind == "brk" or tree[0] != "translit" and stem in ("root", "en", "pool", "res_index", "ucadata")
    if kind == "res":
        # Locales begin with a language of two or three letters.
        is_locale = re.fullmatch(r"[a-z]{2,3}(_\w+)?", stem) is not None
        return not is_locale or stem in ("en", "en_US", "en_US_POSIX")
    return kind != "cnv"


def items_of(archive):
    found = [match for match in MAGIC.finditer(archive)]
    if len(found) != 1:
        sys.exit(f"icu-data.py: the archive has {len(found)} collections of ICU data")
    start = found[0].start()
    header = archive[start:start + struct.unpack("<H", found[0][1])[0]]
    base = start + len(header)
    (count,) = struct.unpack_from("<I", archive, base)
    entries = list(struct.iter_unpack("<II", archive[base + 4:base + 4 + 8 * count]))
    items = []
    # The table does not contain the size of the last item. It is a locale (zu_ZA), which is not needed.
    for (name, data), (_, end) in zip(entries, entries[1:]):
        text = archive[base + name:archive.find(b"\0", base + name)].decode()
        if is_needed(text):
            items.append((text, archive[base + data:base + end]))
    return header, items


def packed(header, items):
    names, places = bytearray(), []
    start = 4 + 8 * len(items)
    for name, _ in items:
        places.append(start + len(names))
        names += name.encode() + b"\0"
    table, data = bytearray(struct.pack("<I", len(items))), bytearray()
    padding = -(start + len(names)) % ALIGNMENT
    offset = start + len(names) + padding
    for place, (_, content) in zip(places, items):
        table += struct.pack("<II", place, offset + len(data))
        data += content + bytes(-len(content) % ALIGNMENT)
    return header + bytes(table) + bytes(names) + bytes(padding) + bytes(data)


def main():
    archive_path, copy_path = sys.argv[1:]
    with open(archive_path, "rb") as file:
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        symbol = re.search(rb"icudt\d+_dat", archive)
        if symbol is None:
            sys.exit("icu-data.py: the archive does not define ICU's data")
        data = packed(*items_of(archive))
    name = symbol[0].decode()
    with tempfile.TemporaryDirectory() as directory:
        object_path = pathlib.Path(directory, MEMBER)
        object_path.with_suffix(".dat").write_bytes(data)
        source = f"""
            .section .rodata
            .globl {name}
            .type {name}, @object
            .balign {ALIGNMENT}
            {name}: .incbin "{object_path.with_suffix(".dat")}"
            .size {name}, . - {name}
            .section .note.GNU-stack, "", @progbits
            """
        subprocess.run(["clang", "-c", "-x", "assembler", "-o", object_path, "-"], input=source.encode(), check=True)
        copy = pathlib.Path(directory, "copy.a")
        shutil.copyfile(archive_path, copy)
        # Fails if the archive has no such member, and then adds nothing.
        subprocess.run(["ar", "d", copy, MEMBER], check=True)
        subprocess.run(["ar", "qs", copy, object_path], check=True)
        shutil.move(copy, copy_path)


main()
