#!/usr/bin/env python3
"""Checks of the recipes and pins in containers/. Usage: checks.py packages|pins|recipes|scripts ROOT"""
import pathlib
import re
import shlex
import shutil
import subprocess
import sys


def read_versions(root: pathlib.Path) -> dict[str, str]:
    lines = (root / "containers/versions.env").read_text().splitlines()
    return dict(shlex.split(line)[0].split("=", 1) for line in lines if line and not line.startswith("#"))


def read_lock(file: pathlib.Path) -> tuple[dict[str, str], list[str]]:
    """Wheel -> version, and what is wrong with the file."""
    wheels, errors = {}, []
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    for entry in re.sub(r"\\\n", " ", text).splitlines():
        match = re.match(r"([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+) *$", entry)
        if match:
            wheels[match[1]] = match[2]
        else:
            errors.append(f"{file.name}: {entry[:60]}: not a wheel with one version and hashes")
    return wheels, errors


def check_pins(root: pathlib.Path) -> list[str]:
    """Each WHEEL_ pin is what the lock files install, and the lock files agree with each other."""
    errors, installed = [], {}
    for file in sorted((root / "containers").glob("requirements-*.txt")):
        wheels, found = read_lock(file)
        errors += found
        for name, version in wheels.items():
            if installed.setdefault(name, version) != version:
                errors.append(f"{file.name}: {name} {version}: another lock file has {installed[name]}")
    tools_of_maintainers = {"uv"}
    for key, version in read_versions(root).items():
        name = key.removeprefix("WHEEL_").lower().replace("_", "-")
        if key.startswith("WHEEL_") and name not in tools_of_maintainers and installed.get(name) != version:
            errors.append(f"versions.env: {key}={version}: the lock files have {installed.get(name)}")
    return errors


def read_dockerfile(text: str) -> dict:
    """Returns what an image is built from. `layers` is what the last stage holds before anything is copied into it, and
    each COPY and RUN that makes a layer of it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    recipe = {"files": set(), "environment": {}, "layers": []}
    for line in lines:
        word, rest = line.split(" ", 1)
        if word == "FROM":
            recipe.setdefault("base", rest.removesuffix(" AS build"))
            recipe["layers"] = [rest]
        elif word in ("COPY", "ADD", "RUN"):
            recipe["layers"].append(rest)
        if word == "COPY" and not rest.startswith("--from="):
            *sources, target = rest.split()
            recipe["files"] |= {(s, target + s if target.endswith("/") else target) for s in sources}
        elif word == "RUN":
            recipe["build"] = rest
        elif word == "ENV":
            recipe["environment"] |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "ENTRYPOINT":
            recipe["run"] = " ".join(re.findall(r'"([^"]+)"', rest))
    return recipe


def read_definition(text: str) -> dict:
    recipe, section = {"files": set(), "environment": {}}, ""
    for line in (raw.strip() for raw in text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("%"):
            section = line
        elif line.startswith("From:"):
            recipe["base"] = line.split()[1]
        elif section == "%files":
            recipe["files"].add(tuple(line.split()))
        elif section == "%post":
            recipe["build"] = line
        elif section == "%environment":
            key, value = line.removeprefix("export ").split("=", 1)
            recipe["environment"][key] = value
        elif section == "%runscript":
            recipe["run"] = line.removeprefix("exec ").removesuffix(' "$@"')
    return recipe


def check_recipes(root: pathlib.Path) -> list[str]:
    """Both recipes start from the pinned base, copy the same files, call the same scripts, set the same variables. An
    Apptainer image is one layer by nature; the Dockerfile's must be one, so that no layer holds the history."""
    versions = read_versions(root)
    digest = versions["BASE_IMAGE_DIGEST"]
    base = versions["BASE_IMAGE"] + (f"@{digest}" if digest else "")
    docker = read_dockerfile((root / "containers/Dockerfile").read_text())
    apptainer = read_definition((root / "containers/noisemark.def").read_text())
    errors = [f"{name}: base {recipe.get('base')}: versions.env has {base}"
              for name, recipe in (("Dockerfile", docker), ("noisemark.def", apptainer)) if recipe.get("base") != base]
    errors += [f"{key}: Dockerfile has {docker.get(key)}, noisemark.def {apptainer.get(key)}"
               for key in ("files", "build", "environment", "run") if docker.get(key) != apptainer.get(key)]
    if "/opt/noisemark/containers/setup.sh build" not in docker.get("build", ""):
        errors.append("Dockerfile: does not call setup.sh")
    wanted = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
              "NOISEMARK_IMAGE": versions["BASE_IMAGE"]} | ({"NOISEMARK_IMAGE_DIGEST": digest} if digest else {})
    errors += [f"Dockerfile: {key} is not {value}" for key, value in wanted.items()
               if docker["environment"].get(key) != value]
    if docker["layers"] != ["scratch", "--from=build / /"]:
        errors.append(f"Dockerfile: the image's layers are {docker['layers']}, one of which may hold .git")
    if "rm -rf \"$root/.git\" " not in (root / "containers/clean_image.sh").read_text():
        errors.append("clean_image.sh: leaves .git in the image")
    errors += [f"recipes: {source}: does not exist" for source, _ in sorted(docker["files"])
               if not (root / source).exists()]
    return errors


def check_scripts(root: pathlib.Path) -> list[str]:
    """Every shell script parses, stops at the first error, and may be executed."""
    errors = []
    scripts = [p for top in ("containers", "tests", ".ci") for p in (root / top).rglob("*")
               if p.is_file() and p.read_bytes().startswith(b"#!/usr/bin/env bash")]
    for script in sorted(scripts):
        name = script.relative_to(root)
        if message := subprocess.run(["bash", "-n", script], capture_output=True, text=True).stderr:
            errors.append(f"{name}: {message}")
        if "\nset -euo pipefail\n" not in script.read_text():
            errors.append(f"{name}: does not set -euo pipefail")
        if not script.stat().st_mode & 0o100:
            errors.append(f"{name}: cannot be executed")
    return errors if scripts else ["no scripts found"]


def needed_packages(names: set[str]) -> set[str]:
    """The packages of these names that are installed, and all that they depend on."""
    fields = ["dpkg-query", "-W", "-f=${Package}\t${Pre-Depends},${Depends}\t${Provides}\n"]
    rows = [line.split("\t") for line in subprocess.run(fields, capture_output=True, text=True).stdout.splitlines()]
    word = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)")
    depends = {name: set(word.findall(needs)) for name, needs, _ in rows}
    for name, _, provided in rows:
        for other in word.findall(provided):
            depends.setdefault(other, set()).add(name)
    found: set[str] = set()
    left = names & depends.keys()
    while left:
        found |= left
        left = set().union(*(depends[name] for name in left)) & depends.keys() - found
    return found


def check_packages(root: pathlib.Path) -> list[str]:
    """A library that a CMake file of a listed package names comes with a listed package, and not only by chance with one
    that this machine has besides: a new machine would lack it."""
    if shutil.which("dpkg-query") is None:
        return []
    text = (root / "containers/apt-packages.txt").read_text()
    listed = {line.split()[1] for line in text.splitlines() if re.match("(build|test) ", line)}
    needed = needed_packages(listed)
    errors = set()
    for package in sorted(listed & needed):
        files = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True).stdout.splitlines()
        for file in (f for f in files if f.endswith(".cmake") and "/share/cmake-" not in f):
            for library in re.findall(r'/lib/[\w./+-]+\.(?:so|a)\b[\d.]*', pathlib.Path(file).read_text(errors="replace")):
                owners = subprocess.run(["dpkg", "-S", f"/usr{library}"], capture_output=True, text=True).stdout
                if not any(owner.split(":")[0] in needed for owner in owners.splitlines()):
                    errors.add(f"apt-packages.txt: {package}: {file} names /usr{library}, which comes with "
                                  f"{owners.split(':')[0] or 'no package that is installed'}")
    return sorted(errors)


CHECKS = {"packages": check_packages, "pins": check_pins, "recipes": check_recipes, "scripts": check_scripts}


def main() -> int:
    errors = CHECKS[sys.argv[1]](pathlib.Path(sys.argv[2]))
    print("\n".join(errors) or f"{sys.argv[1]}: right")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
