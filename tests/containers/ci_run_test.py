#!/usr/bin/env python3
"""Runs what the CI recipes run, with the real program. Docker, Apptainer, the GPU and the server are stand-ins that keep to
what the recipes may rely on; the timed rounds are recorded ones. Usage: ci_run_test.py ROOT NOISEMARK. Exit code 77 where Python has no YAML
(1 where it is required)."""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import peers_required  # noqa: E402

try:
    import yaml
except ImportError as error:
    peers_required.cannot_import(error)

MARK = "<!-- noisemark comparison -->"
EARLIER = 130  # comments of people, more than one page
ROUNDS = 16  # timed runs of each side, all that suite/selftest has recorded: twins, which pass

# A step of one task gets the variables of one.
SRUN = r'''#!/usr/bin/env bash
set -euo pipefail
export SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0
exec "$@"
'''
# The image is its folder's commit; a container has what -e and -v give it, the CPU stands in for its GPU.
DOCKER = r'''#!/usr/bin/env bash
set -euo pipefail
fail() { echo "docker: $1" >&2; exit 125; }
case $1 in
  info) echo "[name=seccomp]" ;;
  build)
    folder=${!#}
    while [[ $1 != --iidfile ]]; do shift; done
    [[ -d $folder/.git ]] || fail "$folder: no history of its own"
    printf 'sha256:%064d' "0x$(git -C "$folder" rev-parse HEAD | cut -c1-12)" >"$2"
    git -C "$folder" rev-parse HEAD >>"$COMMITS"
    ;;
  run)
    shift
    environment=(NOISEMARK_IMAGE=debian) user="" gpus="" mounted=""
    while [[ $1 == -* ]]; do
      case $1 in
        --rm) shift; continue ;;
        --gpus) gpus=$2 ;;
        --user) user=$2 ;;
        -v) mounted=${2%%:*} ;;
        -e) if [[ $2 == *=* ]]; then environment+=("$2"); else environment+=("$2=${!2}"); fi ;;
        *) fail "$1: unknown" ;;
      esac
      shift 2
    done
    [[ $1 == sha256:* ]] || fail "$1: no image"
    [[ $user == "$(id -u):$(id -g)" ]] || fail "what it writes would belong to another"
    [[ $gpus == all ]] || fail "no GPU was given"
    exec env -i PATH="$PATH" OMP_NUM_THREADS=1 "${environment[@]}" "$CONTAINER" "$mounted" "${@:2}"
    ;;
  *) fail "$1: unknown" ;;
esac
'''
APPTAINER = r'''#!/usr/bin/env bash
set -euo pipefail
[[ $1 == run ]]
shift
environment=(NOISEMARK_IMAGE=debian) mounted=""
while [[ $1 == -* ]]; do
  case $1 in
    --nv | --cleanenv) shift; continue ;;
    --env) environment+=("$2") ;;
    --bind) mounted=${2%%:*} ;;
    *) echo "apptainer: $1: unknown" >&2 && exit 255 ;;
  esac
  shift 2
done
[[ $1 == *.sif && -e $1 ]]
exec env -i PATH="$PATH" OMP_NUM_THREADS=1 "${environment[@]}" "$CONTAINER" "$mounted" "${@:2}"
'''
# CONTAINER MOUNTED WORD...: writes only below MOUNTED; `benchmark` leaves a file where NOISEMARK_OUT says. `env` finds its
# GPU; a timed run into SIDE/ROUND/ID leaves what was recorded; the real program does the rest.
CONTAINER = r'''#!/usr/bin/env bash
set -euo pipefail
mounted=$1
shift
[[ ${NOISEMARK_REQUIRE:-} == cuda ]] || { echo "container: would fall back on the CPU" >&2 && exit 125; }
if [[ $1 == benchmark ]]; then
  [[ $NOISEMARK_OUT == "$mounted"/* ]]
  echo fine >"$NOISEMARK_OUT/report.md"
  exit
fi
[[ $1 != env ]] || exit 0
if [[ $1 == run && " $* " != *" --deterministic "* ]]; then
  while [[ $1 != --out ]]; do shift; done
  round=$(dirname "$2")
  mkdir -p "$2"
  cp "@RECORDED@/$(basename "$(dirname "$round")")/$(printf %02d "$(basename "$round")")/result.json" "$2/"
  exit
fi
words=()
for word in "$@"; do
  [[ $word != cuda ]] || word=cpu
  words+=("$word")
done
exec env -u NOISEMARK_REQUIRE @NOISEMARK@ "${words[@]}"
'''


class Comments(http.server.BaseHTTPRequestHandler):
    """A server of comments, GitHub's by PATCH or GitLab's by PUT. `store` is shared by its requests."""
    store: dict[int, str] = {}
    token, refuses = ("", ""), False

    def answer(self, value) -> None:
        ok = self.headers.get(self.token[0]) == self.token[1] and not self.refuses
        self.send_response(200 if ok else 403)
        self.end_headers()
        self.wfile.write(json.dumps(value() if ok else {"message": "forbidden"}).encode())

    def body(self) -> str:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def do_GET(self) -> None:
        query = dict(pair.split("=") for pair in self.path.partition("?")[2].split("&"))
        size, page = int(query["per_page"]), int(query["page"])
        rows = [{"id": key, "body": body, "system": False} for key, body in sorted(self.store.items())]
        self.answer(lambda: rows[(page - 1) * size:page * size])

    def do_POST(self) -> None:
        body, key = self.body(), max(self.store) + 1

        def write():
            self.store[key] = body
            return {"id": key}
        self.answer(write)

    def replace(self) -> None:
        body, key = self.body(), int(self.path.rpartition("/")[2])

        def write():
            assert key in self.store, f"{self.path}: no such comment"
            self.store[key] = body
            return {"id": key}
        self.answer(write)

    do_PATCH = do_PUT = replace

    def log_message(self, *_) -> None:
        pass


def run(command: list[str], **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def git(folder: pathlib.Path, *words: str) -> str:
    done = run(["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(folder), *words])
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


class Runner:
    """A machine of a CI system: a checkout of two commits and of their merge, tools, a server."""

    def __init__(self, folder: pathlib.Path, root: pathlib.Path, noisemark: str):
        self.folder, self.checkout, self.noisemark = folder, folder / "checkout", noisemark
        self.tiny = "--threads 1 --set train.steps=2 --set train.batch=2 --set eval.samples=8 --no-profile"
        self.tool("docker", DOCKER)
        self.tool("apptainer", APPTAINER)
        self.tool("srun", SRUN)
        recorded = str(root / "suite/selftest/recorded")
        self.tool("container", CONTAINER.replace("@NOISEMARK@", noisemark).replace("@RECORDED@", recorded))
        shutil.copytree(root / "containers/ci", self.checkout / "containers/ci")
        (self.checkout / ".gitignore").write_text("out\n")
        git(self.checkout, "init", "--quiet", "--initial-branch=main")
        self.base = self.commit("base")
        git(self.checkout, "checkout", "--quiet", "-b", "change")
        self.change = self.commit("change")
        Comments.store = {number: f"comment {number}" for number in range(1, EARLIER)}
        Comments.store[EARLIER] = f"> {MARK}\nwhat is this line?"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Comments)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def tool(self, name: str, text: str) -> None:
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def commit(self, name: str) -> str:
        (self.checkout / "name").write_text(name)
        git(self.checkout, "add", "--all")
        git(self.checkout, "commit", "--quiet", "-m", name)
        return git(self.checkout, "rev-parse", "HEAD")

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("NOISEMARK_", "CI_", "GIT"))}
        return kept | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "COMMITS": str(self.folder / "commits"),
                       "CONTAINER": str(self.folder / "bin/container"), "NOISEMARK_ROUNDS": str(ROUNDS),
                       "NOISEMARK_BENCHMARKS": "gmm16", "NOISEMARK_ARGUMENTS": self.tiny} | more

    def shell(self, script: str, variables: dict[str, str]) -> tuple[int, str]:
        """As CI systems call a step's shell."""
        done = run(["bash", "-eo", "pipefail", "-c", script], cwd=self.checkout, env=self.environment(variables))
        return done.returncode, done.stdout

    def built(self) -> list[str]:
        commits = (self.folder / "commits").read_text().split()
        (self.folder / "commits").unlink()
        return commits


def ours() -> list[int]:
    return [key for key, body in sorted(Comments.store.items()) if body.endswith(f"\n{MARK}\n")]


def digests(checkout: pathlib.Path) -> set[str]:
    results = list((checkout / "out/gate/exact").rglob("result.json"))
    assert len(results) == 2, f"{results}: not a deterministic pair"
    timed = list((checkout / "out/gate").rglob("result.json"))
    assert len(timed) == 2 + 2 * ROUNDS, f"{len(timed)} results: not that pair and {ROUNDS} rounds"
    return {json.loads(file.read_text())["provenance"]["container"].get("digest", "none") for file in results}


def expect_gate(runner: Runner, status: int, output: str, commits: list[str]) -> None:
    assert status == 0, f"left with {status}:\n{output}"
    assert runner.built() == commits, "other commits were compared"
    assert len(digests(runner.checkout)) == 2, f"{digests(runner.checkout)}: not the digests of two images"
    assert (runner.checkout / "out/smoke/report.md").exists(), "no smoke suite"


def expect_comment(runner: Runner, key: int) -> None:
    assert ours() == [key], f"{ours()}: not one comment, which is replaced"
    text = Comments.store[key]
    for name in ("comparison.md", "exact.md"):
        head = (runner.checkout / "out/gate" / name).read_text().splitlines()[0]
        assert head in text, f"{name} is not in the comment"
    assert text.count(MARK) == 1
    assert Comments.store[EARLIER].endswith("what is this line?"), "somebody's comment was overwritten"


def test_github(runner: Runner, recipe: dict) -> None:
    git(runner.checkout, "checkout", "--quiet", "main")
    git(runner.checkout, "merge", "--quiet", "--no-ff", "-m", "merge", "change")
    merge = git(runner.checkout, "rev-parse", "HEAD")
    Comments.token = ("Authorization", "Bearer secret")
    job = recipe["jobs"]["benchmark"]
    gate, comment = [step for step in job["steps"] if "run" in step]
    variables = {"GITHUB_API_URL": runner.url, "GITHUB_REPOSITORY": "somebody/noisemark"} | job["env"]
    values = {"${{ github.token }}": "secret", "${{ github.event.pull_request.number }}": "7"}
    of_comment = variables | {key: values[value] for key, value in comment["env"].items()}
    for _ in range(2):  # the first run's remains do not hinder the second
        expect_gate(runner, *runner.shell(gate["run"], variables), [runner.base, merge])
        status, output = runner.shell(comment["run"], of_comment)
        assert status == 0, output
        expect_comment(runner, EARLIER + 1)
    shutil.rmtree(runner.checkout / "out")
    assert runner.shell(comment["run"], of_comment)[0] == 0
    assert "did not come to a comparison" in Comments.store[EARLIER + 1], "a run without a comparison says nothing"
    Comments.refuses = True
    assert runner.shell(comment["run"], of_comment)[0] == 1, "a server that refuses is not red"
    Comments.refuses = False
    del of_comment["GITHUB_TOKEN"]
    assert runner.shell(comment["run"], of_comment)[0] == 2, "no token is not red"


def test_gitlab(runner: Runner, recipe: dict) -> None:
    git(runner.checkout, "checkout", "--quiet", "--detach", "change")
    Comments.token = ("PRIVATE-TOKEN", "secret")
    job = recipe["noisemark"]
    variables = {"CI_API_V4_URL": runner.url, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": "secret",
                 "CI_MERGE_REQUEST_DIFF_BASE_SHA": runner.base} | job["variables"]
    script = "\n".join(job["script"])
    expect_gate(runner, *runner.shell(script, variables), [runner.base, runner.change])
    expect_comment(runner, EARLIER + 1)
    gone = variables | {"CONTAINER": "/bin/false"}  # the driver died: no container starts
    status, output = runner.shell(script, gone)
    assert status == 1 and "there is no usable GPU" in output, output
    assert "did not come to a comparison" in Comments.store[EARLIER + 1]
    runner.built()


def test_slurm(runner: Runner) -> None:
    for name in ("base.sif", "new.sif"):
        (runner.folder / name).write_text(name)
    script = f"bash containers/ci/slurm.sbatch {runner.folder}/base.sif {runner.folder}/new.sif out"
    status, output = runner.shell(script, {})
    assert status == 0, output
    expected = {"sha256:" + run(["sha256sum", str(runner.folder / name)]).stdout.split()[0]
                for name in ("base.sif", "new.sif")}
    assert digests(runner.checkout) == expected, "not the digests of the two images"


def test_slurm_array(runner: Runner) -> None:
    def task(number: int, last: int = 2) -> tuple[int, str]:
        variables = {"NOISEMARK": runner.noisemark, "NOISEMARK_REQUIRE": "", "SLURM_ARRAY_TASK_ID": str(number),
                     "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": str(last), "SLURM_ARRAY_TASK_COUNT": "2"}
        return runner.shell(f"bash containers/ci/slurm-array.sbatch gmm16 out --seeds 2 --device cpu {runner.tiny}", variables)

    def answer(*words: str) -> tuple[int, str]:
        return runner.shell(" ".join([runner.noisemark, *words]), {})

    status, output = task(1, last=3)
    assert status == 2 and "array: 1-3 (1-N)" in output, output
    status, output = task(1)
    assert status == 0, output
    for command in (["report", "out"], ["quality", "out"], ["table", "out"], ["compare", "out", "out"]):
        status, output = answer(*command)
        assert status == 3 and "part 2 of 2 of the suite is missing" in output, output
    for _ in range(2):  # the second time it finds that nothing is left to do
        status, output = task(2)
        assert status == 0, output
    status, output = answer("report", "out")
    assert status == 0 and "out/report.md" in output, output
    report = (runner.checkout / "out/report.md").read_text()
    assert "# CUSTOM: gmm16\n\n2 of 2 runs ended, 2 custom (no gate failed" in report and "part-2/gmm16@cpu" in report, report
    shutil.copytree(runner.checkout / "out/part-2", runner.checkout / "out/part-3")
    status, output = answer("table", "out")
    assert status == 2 and "part 2 of gmm16 a second time" in output, output
    shutil.rmtree(runner.checkout / "out/part-2")
    suite = runner.checkout / "out/part-3/suite.json"
    suite.write_text(suite.read_text().replace(json.loads(suite.read_text())["part"]["program"], "0" * 64))
    status, output = answer("table", "out")
    assert status == 3 and "program, SHA-256: 000" in output, output


def main() -> int:
    root, noisemark = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    recipes = {name: yaml.safe_load((root / "containers/ci" / name).read_text())
               for name in ("github-actions.yml", "gitlab-ci.yml")}
    for test, arguments in ((test_github, [recipes["github-actions.yml"]]), (test_gitlab, [recipes["gitlab-ci.yml"]]),
                            (test_slurm, []), (test_slurm_array, [])):
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(pathlib.Path(folder), root, noisemark)
            test(runner, *arguments)
            runner.server.shutdown()
        print(f"{test.__name__}: passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
