#!/usr/bin/env python3
"""Puts a comparison under a pull or merge request: one comment, found again by its mark and replaced by later runs.

comment.py github|gitlab NUMBER FILE...: FILEs of gate.sh, the first of which is the comparison. Of the environment it reads

  github   GITHUB_TOKEN (may write pull requests), and GITHUB_API_URL and GITHUB_REPOSITORY, which GitHub sets
  gitlab   GITLAB_TOKEN (of scope api; a job's own token may not write notes), and CI_API_V4_URL and CI_PROJECT_ID, which
           GitLab sets

Exit codes: 0 it is there, 1 the server refused or cannot be reached, 2 wrong usage.
"""
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

MARK = "<!-- noisemark comparison -->"  # the last line of a comparison
NOTHING = "Noisemark did not come to a comparison; the log of the job says why.\n"
MOST = 65000  # characters: GitHub takes 65536
PER_PAGE = 100
TIMEOUT_S = 60


def body_of(files: list[pathlib.Path]) -> str:
    """The text of the comment. What does not fit is left out at the end of a line, and that is said."""
    texts = [file.read_text().replace(MARK, "").strip() for file in files if file.exists()]
    text = "\n\n".join(text for text in texts if text) or NOTHING
    if len(text) > MOST:
        text = text[:MOST].rpartition("\n")[0] + "\n\n</details>\n\nCut here for its length; the job keeps all of it."
    return f"{text.rstrip()}\n\n{MARK}\n"


def is_ours(comment: dict) -> bool:
    """A line of its own: whoever quotes the mark has something before it."""
    return not comment.get("system") and MARK in (comment.get("body") or "").splitlines()


class Server:
    """One request's comments. `auth` is a header, `write_again` the HTTP method that replaces a comment."""

    def __init__(self, comments: str, comment: str, auth: tuple[str, str], write_again: str):
        self.comments, self.comment, self.auth, self.write_again = comments, comment, auth, write_again

    def call(self, method: str, url: str, body: str | None = None):
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json", self.auth[0]: self.auth[1]}
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def ours(self) -> int | None:
        page = 1
        while True:
            found = self.call("GET", f"{self.comments}?per_page={PER_PAGE}&page={page}")
            for comment in found:
                if is_ours(comment):
                    return comment["id"]
            if len(found) < PER_PAGE:
                return None
            page += 1

    def post(self, body: str) -> str:
        ours = self.ours()
        if ours is None:
            return f"comment {self.call('POST', self.comments, body)['id']} written"
        self.call(self.write_again, f"{self.comment}/{ours}", body)
        return f"comment {ours} written again"


def variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        sys.exit(usage_error(f"{name}: not set"))
    return value


def usage_error(what: str) -> int:
    print(f"comment: error: {what}", file=sys.stderr)
    return 2


def github(number: str) -> Server:
    api = f"{variable('GITHUB_API_URL')}/repos/{variable('GITHUB_REPOSITORY')}/issues"
    token = ("Authorization", f"Bearer {variable('GITHUB_TOKEN')}")
    return Server(f"{api}/{number}/comments", f"{api}/comments", token, "PATCH")


def gitlab(number: str) -> Server:
    project = f"{variable('CI_API_V4_URL')}/projects/{variable('CI_PROJECT_ID')}"
    notes = f"{project}/merge_requests/{number}/notes"
    return Server(notes, notes, ("PRIVATE-TOKEN", variable("GITLAB_TOKEN")), "PUT")


SERVERS = {"github": github, "gitlab": gitlab}


def main(arguments: list[str]) -> int:
    if len(arguments) < 3 or arguments[0] not in SERVERS or not arguments[1].isdigit():
        return usage_error("usage: comment.py github|gitlab NUMBER FILE...")
    server = SERVERS[arguments[0]](arguments[1])
    try:
        print("comment:", server.post(body_of([pathlib.Path(file) for file in arguments[2:]])))
    except (OSError, ValueError, KeyError) as error:  # it refused, was not reached, or is no such server
        print(f"comment: error: {server.comments}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
