#!/usr/bin/env python3
"""Reads the CI recipes of containers/ci as their systems do and checks them, then breaks one line at a time in a copy and
expects that to be noticed. Usage: ci_recipes_test.py ROOT. Exit code 77 where Python has no YAML
(1 where it is required)."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import peers_required  # noqa: E402

try:
    import yaml
except ImportError as error:
    peers_required.cannot_import(error)

SCRIPT = re.compile(r"containers/ci/[\w.-]+")
OUTPUTS = {"out/gate", "out/smoke"}  # docker.sh makes these


class UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError(f"a key twice: {keys}")
        return super().construct_mapping(node, deep)


def shell_errors(name: str, text: str) -> list[str]:
    found = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True).stderr
    return [f"{name}: {found.strip()}"] if found else []


def scripts_of(root: pathlib.Path, text: str) -> set[str]:
    """The scripts that `text` calls, and those that they call. Comments call nothing."""
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    called = set(SCRIPT.findall(text))
    for script in list(called):
        file = root / script
        if file.suffix == ".sh" and file.name != "gate.sh" and file.exists():
            called |= scripts_of(root, file.read_text())
    return called


def command_errors(root: pathlib.Path, name: str, text: str) -> list[str]:
    """Returns the errors of all that one recipe runs."""
    called = scripts_of(root, text)
    errors = shell_errors(name, text)
    errors += [f"{name}: {script}: cannot be run" for script in sorted(called)
               if not (root / script).is_file() or not (root / script).stat().st_mode & 0o100]
    if "containers/ci/gate.sh" not in called:
        errors.append(f"{name}: does not come to gate.sh")
    if "git worktree" in text:
        errors.append(f"{name}: a worktree, of which an image cannot tell its commit")
    return errors


def github_errors(root: pathlib.Path, recipe: dict) -> list[str]:
    name, errors = "github-actions.yml", []
    job = recipe["jobs"]["benchmark"]
    steps = job["steps"]
    errors += [f"{name}: {step}: neither one action nor one command" for step in steps
               if ("uses" in step) == ("run" in step)]
    errors += [f"{name}: {step['uses']}: without a version" for step in steps
               if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})", step["uses"])]
    errors += command_errors(root, name, "\n".join(step.get("run", "") for step in steps))
    if recipe.get(True) != "pull_request":  # YAML 1.1 reads `on` as a truth value
        errors.append(f"{name}: not for pull requests")
    if job.get("env", {}).get("NOISEMARK_REQUIRE") != "cuda":
        errors.append(f"{name}: a GPU that is gone would not be red")
    if "self-hosted" not in job["runs-on"]:
        errors.append(f"{name}: not on a runner of one's own")
    checkout = next(step for step in steps if step.get("uses", "").startswith("actions/checkout@"))
    if checkout.get("with", {}).get("fetch-depth") != 0:
        errors.append(f"{name}: a clone without the base commit")
    comments = [step for step in steps if "comment.py github" in step.get("run", "")]
    if not any(step.get("if") == "always()" and {"GITHUB_TOKEN", "NUMBER"} <= set(step.get("env", {}))
               for step in comments):
        errors.append(f"{name}: no comment, or none of a red run")
    if recipe["permissions"].get("pull-requests") != "write":
        errors.append(f"{name}: may not comment")
    uploads = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    if not any(step.get("if") == "always()" and set(step["with"]["path"].split()) == OUTPUTS for step in uploads):
        errors.append(f"{name}: does not keep {OUTPUTS}")
    return errors


def nightly_errors(recipe: dict) -> list[str]:
    name, job = "github-nightly.yml", recipe["jobs"]["nightly"]
    errors = [] if recipe[True]["schedule"][0]["cron"] else [f"{name}: never runs"]
    if [step["run"] for step in job["steps"] if "run" in step] != ["containers/setup.sh nightly"]:
        errors.append(f"{name}: does not run the tests labelled nightly")
    if job["timeout-minutes"] < 240 or "self-hosted" not in job["runs-on"]:
        errors.append(f"{name}: has no runner for hours")
    return errors


def gitlab_errors(root: pathlib.Path, recipe: dict) -> list[str]:
    name, job = "gitlab-ci.yml", recipe["noisemark"]
    wrong = [line for line in job["script"] if not isinstance(line, str)]
    if wrong:  # a colon and a blank make a map of a line, which GitLab refuses
        return [f"{name}: {wrong}: no command"]
    script = "\n".join(job["script"])
    errors = command_errors(root, name, script)
    wanted = {"GIT_DEPTH": "0", "NOISEMARK_REQUIRE": "cuda"}
    errors += [f"{name}: {key} is not {value}" for key, value in wanted.items()
               if job["variables"].get(key) != value]
    if job["rules"] != [{"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'}]:
        errors.append(f"{name}: not for merge requests")
    if 'comment.py gitlab "$CI_MERGE_REQUEST_IID"' not in script:
        errors.append(f"{name}: no note")
    if job["artifacts"]["when"] != "always" or set(job["artifacts"]["paths"]) != OUTPUTS:
        errors.append(f"{name}: does not keep {OUTPUTS}")
    return errors


def recipe_errors(root: pathlib.Path) -> list[str]:
    errors = []
    for name, check in (("github-actions.yml", lambda recipe: github_errors(root, recipe)), ("github-nightly.yml", nightly_errors),
                        ("gitlab-ci.yml", lambda recipe: gitlab_errors(root, recipe))):
        try:
            errors += check(yaml.load((root / "containers/ci" / name).read_text(), UniqueKeys))
        except (yaml.YAMLError, LookupError, TypeError, AttributeError, StopIteration) as error:
            errors.append(f"{name}: {type(error).__name__}: {error}")
    slurm = (root / "containers/ci/slurm.sbatch").read_text()
    errors += command_errors(root, "slurm.sbatch", re.sub(r"^#.*$", "", slurm, flags=re.MULTILINE))
    if "\nexport NOISEMARK_REQUIRE=cuda\n" not in slurm:
        errors.append("slurm.sbatch: a GPU that is gone would not be red")
    array = (root / "containers/ci/slurm-array.sbatch").read_text()
    if "\n: \"${NOISEMARK_REQUIRE=cuda}\"\nexport NOISEMARK_REQUIRE\n" not in array:
        errors.append("slurm-array.sbatch: a GPU that is gone would not be red")
    return errors


# file in containers/ci, what to replace, by what
DAMAGE = [
    ("github-actions.yml", r"^    steps:", "  steps:"),
    ("github-actions.yml", r"^name: noisemark", "name: noisemark\nname: other"),
    ("github-actions.yml", r"on: pull_request", "on: push"),
    ("github-actions.yml", r"pull-requests: write", "pull-requests: read"),
    ("github-actions.yml", r"NOISEMARK_REQUIRE: cuda", "NOISEMARK_REQUIRE: ''"),
    ("github-actions.yml", r"self-hosted, ", ""),
    ("github-actions.yml", r"checkout@v4", "checkout"),
    ("github-actions.yml", r"fetch-depth: 0", "fetch-depth: 1"),
    ("github-actions.yml", r"ci/docker\.sh", "ci/dockers.sh"),
    ("github-actions.yml", r'"\$\(git rev-parse HEAD\^1\)"', '"$(git rev-parse HEAD^1"'),
    ("github-actions.yml", r"bash containers/ci/docker\.sh", "# bash containers/ci/docker.sh"),
    ("github-actions.yml", r"run: bash containers", "run: git worktree add b; bash containers"),
    ("github-actions.yml", r"ci/comment\.py", "ci/comments.py"),
    ("github-actions.yml", r"if: always\(\)\n        env", "env"),
    ("github-actions.yml", r"GITHUB_TOKEN", "GH_TOKEN"),
    ("github-actions.yml", r"            out/smoke\n", ""),
    ("github-nightly.yml", r"    - cron", "    - crow"),
    ("github-nightly.yml", r"setup\.sh nightly", "setup.sh test"),
    ("github-nightly.yml", r"timeout-minutes: \d+", "timeout-minutes: 60"),
    ("gitlab-ci.yml", r"    - bash", "    - echo a: b\n    - bash"),
    ("gitlab-ci.yml", r'GIT_DEPTH: "0"', 'GIT_DEPTH: "20"'),
    ("gitlab-ci.yml", r"NOISEMARK_REQUIRE: cuda", "NOISEMARK_REQUIRE: cpu"),
    ("gitlab-ci.yml", r"merge_request_event", "push"),
    ("gitlab-ci.yml", r"    - python3 .*\n", ""),
    ("gitlab-ci.yml", r"    - bash .*\n", ""),
    ("gitlab-ci.yml", r"; fi", ""),
    ("gitlab-ci.yml", r"when: always", "when: on_success"),
    ("slurm.sbatch", r"ci/gate\.sh", "ci/gates.sh"),
    ("slurm.sbatch", r"^export NOISEMARK_REQUIRE=cuda$", "export NOISEMARK_REQUIRE="),
    ("slurm.sbatch", r"^\}", "}}"),
    ("slurm-array.sbatch", r"^export NOISEMARK_REQUIRE$", "unset NOISEMARK_REQUIRE"),
    ("docker.sh", r"ci/gate\.sh", "ci/none.sh"),
]


def damaged_verdict(root: pathlib.Path, name: str, pattern: str, replacement: str) -> str | None:
    """Returns what is wrong with the verdict on one damaged copy, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        shutil.copytree(root / "containers/ci", copy / "containers/ci")
        file = copy / "containers/ci" / name
        text = file.read_text()
        changed = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE)
        if changed == text:
            return f"{name}: {pattern}: matches nothing"
        file.write_text(changed)
        return None if recipe_errors(copy) else f"{name}: {replacement!r} was not noticed"


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = recipe_errors(root)
    wrong += [error for case in DAMAGE if (error := damaged_verdict(root, *case))]
    print("\n".join(wrong) or f"the recipes are right, and each of {len(DAMAGE)} wrong lines was noticed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
