"""Writes a CycloneDX list of the crates in the program: `cargo metadata | sbom.py VERSION`.

Only what is linked counts: dev-dependencies and the crates of other platforms do not.
"""

import json
import sys

version = sys.argv[1]
metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def runs_with(node):
    """The packages that a package is linked with, or needs to build."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]


root = next(package["id"] for package in metadata["packages"] if package["name"] == "acpd")
linked, todo = set(), [root]
while todo:
    package = todo.pop()
    if package not in linked:
        linked.add(package)
        todo.extend(runs_with(nodes[package]))


def component(package, kind="library"):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    entry = {"type": kind, "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl}
    if package.get("license"):
        # Old crates write MIT/Apache-2.0, which is not an SPDX expression.
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return entry


def reference(package):
    return f"pkg:cargo/{packages[package]['name']}@{packages[package]['version']}"


def order(package):
    return (packages[package]["name"], packages[package]["version"])


json.dump(
    {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[root], "application")},
        "components": [component(packages[package]) for package in sorted(linked - {root}, key=order)],
        "dependencies": [
            {"ref": reference(package), "dependsOn": sorted(map(reference, runs_with(nodes[package])))}
            for package in sorted(linked, key=order)
        ],
    },
    sys.stdout,
    indent=1,
)
print()
