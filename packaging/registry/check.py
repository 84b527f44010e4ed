"""Checks an entry for the ACP registry by the registry's published rules: check.py FOLDER.

The rules are those of its agent.schema.json and of its checks of icons and versions, as of 2026-11. The registry also checks
that the packages exist, which this cannot.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree

folder = pathlib.Path(sys.argv[1])
entry = json.loads((folder / "agent.json").read_text())
icon = (folder / "icon.svg").read_text()
wrong = []


def expect(holds, what):
    if not holds:
        wrong.append(what)


expect({"id", "name", "version", "description", "distribution"} <= entry.keys(), "a required field is missing")
expect(re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"]), "id is not lower case with hyphens")
expect(re.match(r"[0-9]+\.[0-9]+\.[0-9]+", entry["version"]), "version is not a semantic version")
distribution = entry["distribution"]
expect(distribution and distribution.keys() <= {"binary", "npx", "uvx"}, "an unknown kind of distribution")
for kind in distribution.keys() & {"npx", "uvx"}:
    package = distribution[kind]
    expect(package.keys() <= {"package", "args", "env"}, f"{kind} has an unknown field")
    expect(package["package"].endswith("@" + entry["version"]), f"{kind} names another version")
for platform, target in distribution.get("binary", {}).items():
    expect(re.fullmatch(r"(darwin|linux|windows)-(aarch64|x86_64)", platform), f"unknown platform {platform}")
    expect(target.keys() <= {"archive", "sha256", "cmd", "args", "env"}, f"{platform} has an unknown field")
    expect(target["archive"].endswith((".tar.gz", ".tgz", ".zip")), f"{platform} is not an archive")
    expect(re.fullmatch(r"[a-f0-9]{64}", target.get("sha256", "0" * 64)), f"{platform} has a wrong checksum")

root = xml.etree.ElementTree.fromstring(icon)
expect(root.tag.endswith("svg") and (root.get("width"), root.get("height")) == ("16", "16"), "the icon is not 16x16")
expect("<!--" not in icon, "the icon contains a comment")
colours = {element.get(kind) for element in root.iter() for kind in ("fill", "stroke")} - {None}
expect("currentColor" in colours and colours <= {"currentColor", "none", "inherit"}, f"the icon has colours: {colours}")

for what in wrong:
    print(f"{folder}: {what}", file=sys.stderr)
sys.exit(1 if wrong else 0)
