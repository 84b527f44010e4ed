"""Writes acpd's entry for the ACP registry: entry.py VERSION [RELEASE_URL].

Without the address of the published tar.gz the entry offers the npm and the PyPI package only.
"""

import json
import sys

version, release_url = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""

distribution = {
    "npx": {"package": f"acpd@{version}", "args": ["acp"]},
    "uvx": {"package": f"acpd@{version}", "args": ["acp"]},
}
if release_url:
    archive = f"{release_url.rstrip('/')}/acpd-{version}-linux-x86_64.tar.gz"
    distribution["binary"] = {"linux-x86_64": {"archive": archive, "cmd": f"./acpd-{version}/bin/acpd", "args": ["acp"]}}

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
