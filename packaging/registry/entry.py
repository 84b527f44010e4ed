"""Writes acpd's entry for the ACP registry: entry.py VERSION ARCHIVE [RELEASE_URL].

Without the address under which the tar.gz ARCHIVE is published, the entry offers the npm and the PyPI package only.
"""

import hashlib
import json
import pathlib
import sys

version, packed = sys.argv[1], pathlib.Path(sys.argv[2])
release_url = sys.argv[3] if len(sys.argv) > 3 else ""
distribution = {
    "npx": {"package": f"acpd@{version}", "args": ["acp"]},
    "uvx": {"package": f"acpd@{version}", "args": ["acp"]},
}
if release_url:
    distribution["binary"] = {
        "linux-x86_64": {
            "archive": f"{release_url.rstrip('/')}/{packed.name}",
            "sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
            "cmd": f"./acpd-{version}/bin/acpd",
            "args": ["acp"],
        }
    }

json.dump(
    {
        "id": "acpd",
        "name": "acpd",
        "version": version,
        "description": "Agent daemon: sessions outlive their editor window and are shared by several editors",
        "authors": ["The acpd developers"],
        "license": "MIT OR Apache-2.0",
        "icon": "./icon.svg",
        "distribution": distribution,
    },
    sys.stdout,
    indent=2,
)
print()
