#!/usr/bin/env python3
"""Changes one line at a time in a copy of containers/, and expects the check named to notice. Usage: checks_test.py ROOT"""
import pathlib
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import checks  # noqa: E402

# check, file below containers/, what to replace, by what
DAMAGE = [
    ("pins", "versions.env", r"WHEEL_TORCH=.*", "WHEEL_TORCH=2.10.0"),
    ("pins", "versions.env", r"WHEEL_NVIDIA_NVVM=.*", "WHEEL_NVIDIA_NVVM=13.5.0"),
    ("pins", "versions.env", r"$", "\nWHEEL_ABSENT=1.0\n"),
    ("pins", "requirements-torch.txt", r"torch==2", "torch>=2"),
    ("pins", "requirements-torch.txt", r"    --hash=sha256:[0-9a-f]{64}", "    --hash=md5:00"),
    ("pins", "requirements-torch.txt", r"sympy==[0-9.]+", "sympy==1.0"),
    ("pins", "requirements-test.txt", r"^", "--index-url https://example.org/simple\n"),
    ("recipes", "versions.env", r"BASE_IMAGE=.*", "BASE_IMAGE=debian:trixie-slim"),
    ("recipes", "versions.env", r"BASE_IMAGE_DIGEST=.*", "BASE_IMAGE_DIGEST=sha256:" + "0" * 64),
    ("recipes", "Dockerfile", r"FROM debian.*", "FROM debian:bookworm AS build"),
    ("recipes", "Dockerfile", r"FROM scratch\n.*\n", ""),
    ("recipes", "Dockerfile", r"FROM scratch", "FROM build"),
    ("recipes", "Dockerfile", r"(COPY --from=build) / /", r"\1 /opt /opt"),
    ("recipes", "Dockerfile", r"\Z", "COPY .git /opt/noisemark/.git\n"),
    ("recipes", "clean_image.sh", r"\$root/\.git", "$root/.github"),
    ("recipes", "Dockerfile", r"COPY suite .*\n", ""),
    ("recipes", "Dockerfile", r"=compute,utility", "=all"),
    ("recipes", "Dockerfile", r"IMAGE=debian:bookworm-slim", "IMAGE=debian"),
    ("recipes", "Dockerfile", r"entrypoint\.sh", "other.sh"),
    ("recipes", "noisemark.def", r"From: .*", "From: debian:bookworm"),
    ("recipes", "noisemark.def", r"    tests .*\n", ""),
    ("recipes", "noisemark.def", r"setup\.sh build", "setup.sh deps"),
    ("recipes", "Dockerfile", r"COPY suite /opt/noisemark/suite", "COPY suites /opt/noisemark/suite"),
    ("recipes", "noisemark.def", r"    export NOISEMARK_OUT=.*\n", ""),
    ("scripts", "setup.sh", r"^usage\(\) \{", "usage() {{"),
    ("scripts", "lock.sh", r"set -euo pipefail", "set -u"),
] + [("packages", "apt-packages.txt", r"build libmd4c-html0-dev\n", "")] * (shutil.which("dpkg-query") is not None)
FILES = [".git", ".gitignore", "CMakeLists.txt", "CMakePresets.json", "README.md",
         "reports", "memopt", "baselines", "suite", "tests"]


def damaged_verdict(root: pathlib.Path, check: str, name: str, pattern: str, replacement: str) -> str | None:
    """Returns what is wrong with the verdict on one damaged copy, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        shutil.copytree(root / "containers", copy / "containers")
        for other in FILES:  # the recipes only ask whether they exist
            (copy / other).symlink_to(root / other)
        if before := checks.CHECKS[check](copy):
            return f"{check}: red before any damage: {before}"
        file = copy / "containers" / name
        text = file.read_text()
        changed = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE)
        if changed == text:
            return f"{check}: {name}: {pattern}: matches nothing"
        file.write_text(changed)
        return None if checks.CHECKS[check](copy) else f"{check}: {name}: {replacement!r} was not noticed"


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = [error for case in DAMAGE if (error := damaged_verdict(root, *case))]
    print("\n".join(wrong) or f"each of {len(DAMAGE)} wrong lines was noticed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
