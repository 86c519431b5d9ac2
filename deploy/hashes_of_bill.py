"""Write into a bill of materials (CycloneDX) by which hashes its packages were installed.

``python3 deploy/hashes_of_bill.py BILL.json REQUIREMENTS.txt``: what is installed does not know the
file that it came from; the requirements do, as pip refuses any other file.
"""

import json
import re
import sys
from pathlib import Path

bill_file, requirements = map(Path, sys.argv[1:])


def usual(name: str) -> str:
    """Return a package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


text = requirements.read_text(encoding="utf-8").replace("\\\n", " ")
hashes = {
    (usual(name), version): sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))
    for name, version, rest in re.findall(r"^([\w.-]+)==(\S+)(.*)$", text, re.MULTILINE)
}
bill = json.loads(bill_file.read_text(encoding="utf-8"))
for component in bill["components"]:
    allowed = hashes.get((usual(component["name"]), component.get("version", "")), [])
    if allowed:
        # of a compiled package there is a file for each kind of machine: one is in the image
        component["hashes"] = [{"alg": "SHA-256", "content": content} for content in allowed]
bill_file.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")
