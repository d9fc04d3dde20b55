#!/usr/bin/env python3
"""Writes an object file with the part of Foundation's ICU data that Latchkey needs, and prints the linker's definition that uses it.

Usage: icu-data.py ARCHIVE OBJECT

ARCHIVE is the toolchain's lib_FoundationICU.a. Its data has 34 MB: names, formats and sort orders of 1,100 locales, word lists, and
character sets. Latchkey formats dates in ISO 8601 only, and reads and writes UTF-8 only. The remaining part has 4.9 MB: properties and
normalization of characters, time zones, and the data of the root locale and of English. ICU uses the root locale for languages that
it does not find.
"""
import mmap
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

# ICU's "common data" consists of a header, the number of items, for each item the offsets of its name and its bytes, the names, and
# the items. Offsets are relative to the number of items, and names are sorted; see udata.cpp and ucmndata.h in ICU.
MAGIC = re.compile(rb"(..)\xda\x27\x14\x00\x00\x00\x00\x00\x02\x00CmnD", re.DOTALL)
ALIGNMENT = 16
SYMBOL = "latchkey_icu_data"
# Without these, Foundation would end the process or compare host names wrongly.
ESSENTIAL = {"root.res", "supplementalData.res", "zoneinfo64.res", "timezoneTypes.res", "uts46.nrm", "nfkc.nrm"}


def is_needed(name):
    path = name.split("/")[1:]
    tree, (stem, kind) = path[:-1], path[-1].rsplit(".", 1)
    if tree:
        return kind == "brk" or tree[0] != "translit" and stem in ("root", "en", "pool", "res_index", "ucadata")
    if kind == "res":
        # Locales begin with a language of two or three letters.
        is_locale = re.fullmatch(r"[a-z]{2,3}(_\w+)?", stem) is not None
        return not is_locale or stem in ("en", "en_US", "en_US_POSIX", "res_index")
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

    def text_of(entry):
        start = base + entry[0]
        return archive[start:archive.find(b"\0", start)].decode()

    # The size of the last item is not known. It is a locale.
    items = [
        (text_of(entry), archive[base + entry[1]:base + following[1]])
        for entry, following in zip(entries, entries[1:])
        if is_needed(text_of(entry))
    ]
    missing = ESSENTIAL - {name.split("/")[-1] for name, _ in items}
    if missing or is_needed(text_of(entries[-1])):
        sys.exit(f"icu-data.py: the data has another structure than expected; not found: {sorted(missing)}")
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
    archive_path, object_path = sys.argv[1:]
    with open(archive_path, "rb") as file:
        archive = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        symbol = re.search(rb"icudt\d+_dat", archive)
        if symbol is None:
            sys.exit("icu-data.py: the archive does not define ICU's data")
        data = packed(*items_of(archive))
    with tempfile.TemporaryDirectory(dir=pathlib.Path(object_path).parent) as directory:
        data_path, copy = pathlib.Path(directory, "data"), pathlib.Path(directory, "data.o")
        data_path.write_bytes(data)
        source = f"""
            .section .rodata
            .globl {SYMBOL}
            .type {SYMBOL}, @object
            .balign {ALIGNMENT}
            {SYMBOL}: .incbin "{data_path}"
            .size {SYMBOL}, . - {SYMBOL}
            .section .note.GNU-stack, "", @progbits
            """
        subprocess.run(["clang", "-c", "-x", "assembler", "-o", copy, "-"], input=source.encode(), check=True)
        copy.replace(object_path)
    print(f"{symbol[0].decode()}={SYMBOL}")


main()
