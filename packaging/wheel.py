"""Writes a wheel that contains the program: wheel.py VERSION PROGRAMS FOLDER PLATFORM.

A wheel is a zip file with the files to install and a list of their hashes. The programs in the
folder PROGRAMS go to the scripts, which pip and uv put on the PATH, so no Python code runs when
acpd starts.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

version, programs, folder, platform = sys.argv[1:]
info = f"acpd-{version}.dist-info"
tag = f"py3-none-{platform}"

metadata = f"""\
Metadata-Version: 2.3
Name: acpd
Version: {version}
Summary: Agent daemon for the Agent Client Protocol: one agent for every editor
License-Expression: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{pathlib.Path("README.md").read_text()}"""

files = [
    *(
        (f"acpd-{version}.data/scripts/{program.name}", program.read_bytes(), 0o755)
        for program in sorted(pathlib.Path(programs).iterdir())
    ),
    (f"{info}/METADATA", metadata.encode(), 0o644),
    (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: acpd\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
    *((f"{info}/licenses/{name}", pathlib.Path(name).read_bytes(), 0o644) for name in ("LICENSE-MIT", "LICENSE-APACHE")),
]


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content, _ in files) + f"{info}/RECORD,,\n"
files.append((f"{info}/RECORD", record.encode(), 0o644))

with zipfile.ZipFile(pathlib.Path(folder) / f"acpd-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
    for name, content, mode in files:
        # A fixed date makes the same input give the same bytes.
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        wheel.writestr(entry, content)
