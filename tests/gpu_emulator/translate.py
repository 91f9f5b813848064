#!/usr/bin/env python3
"""Makes C++ of a CUDA source, for a compiler that does not know CUDA; tests/gpu_emulator/cuda_words.h has the words.

Usage: translate.py SOURCE.cu OUT.cpp

  kernel<T><<<blocks, threads, bytes, stream>>>(a, b);   becomes a call of launch() with the kernel as a lambda
  __shared__ T name[n];                                  becomes a static variable that begin_shared() fills

Lines keep their numbers. What it cannot translate is refused, with its line.
"""
import pathlib
import re
import sys

LAUNCH = re.compile(r"<<<(?P<grid>.*?)>>>\((?P<arguments>.*?)\);", re.DOTALL)
SHARED = re.compile(r"\b__shared__\s+(?P<type>[\w:]+)\s+(?P<name>\w+)(?P<extent>(?:\[[^\];]*\])*);")
NAMESPACE = "::noisemark::test::gpu"


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def parts_of(arguments: str) -> list[str]:
    """Split at the commas that are in no bracket."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def with_launches(text: str) -> str:
    out, done = [], 0
    for match in LAUNCH.finditer(text):
        # The kernel's name begins where the statement does.
        begin = max(text.rfind(sign, done, match.start()) for sign in ";{}") + 1
        kernel = text[begin:match.start()]
        grid = parts_of(match["grid"])
        if begin == 0 or len(grid) != 4 or not re.match(r"[\w:]+(<.*>)?$", kernel.strip(), re.DOTALL):
            raise ValueError(f"{line_of(text, match.start())}: a launch that is not "
                             "kernel<<<blocks, threads, bytes, stream>>>(...);")
        space = kernel[:len(kernel) - len(kernel.lstrip())]
        call = (f"{space}{NAMESPACE}::launch({', '.join(grid)}, [&] {{ {kernel.strip()}({match['arguments']}); }});")
        lost = text.count("\n", begin, match.end()) - call.count("\n")
        out += [text[done:begin], call, "\n" * lost]
        done = match.end()
    return "".join(out) + text[done:]


def with_shared(text: str) -> str:
    return SHARED.sub(lambda m: f"static {m['type']} {m['name']}{m['extent']}; "
                                f"{NAMESPACE}::begin_shared(&{m['name']}, sizeof({m['name']}));", text)


def refuse(text: str, words: tuple[str, ...]) -> None:
    for word in words:
        if word in text:
            raise ValueError(f"{line_of(text, text.index(word))}: {word}: not translated")


def translated(text: str) -> str:
    refuse(text, ("extern __shared__", "__constant__"))
    text = with_shared(with_launches(text))
    refuse(text, ("<<<", "__shared__"))
    return text


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    source, out = map(pathlib.Path, arguments)
    try:
        text = translated(source.read_text())
    except ValueError as error:
        print(f"{source}:{error}", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(f'#line 1 "{source}"\n{text}')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
