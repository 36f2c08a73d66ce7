#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Completions in the shells themselves: commands, options, words, files. A shell that is not installed is
# named and left out. Usage: check_completion.py RLXC
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

from common import ROOT, call

MODEL = ROOT / "models" / "gelu_example.json"
# Words of a command line, the last one to be completed; what must be among the completions, what must not be.
CASES = [
    (["com"], {"compile", "completion"}, {"run"}),
    (["compile", "--tar"], {"--target"}, {"--targets", "--tolerance"}),
    (["verify", "--tol"], {"--tolerance"}, set()),
    (["compile", "--tol"], set(), {"--tolerance"}),
    (["compile", "--target", "c"], {"c", "cuda"}, {"vulkan"}),
    (["run", "--cpu", "x86"], {"x86-64-v3", "x86-64-v4"}, {"native"}),
    (["compile", "--dump", "fu"], {"fuse"}, {"fold"}),
    (["compile", "--plan", ""], {"memory", "latency"}, set()),
    (["explain", "E02"], {"E0201", "E0204"}, {"E0301"}),
    (["ops", "matm"], {"matmul"}, {"conv"}),
    (["cache", ""], {"show", "clear"}, set()),
    (["completion", ""], {"bash", "zsh", "fish"}, set()),
    (["inspect", "mod"], {"model.json", "model.onnx"}, {"folder"}),
    (["compile", "-o", "fol"], {"folder"}, {"follow.json"}),
    (["cut", "--fr"], {"--from"}, set()),
]
ONLY_MODELS = [(["inspect", "mod"], {"model.json", "model.onnx"}, {"model.txt"})]  # fish offers all files
BASH_CASES = [
    (["compile", "--target", "=", "cu"], {"cuda"}, {"c"}),
    (["run", "--input", "x", "=", "model.t"], {"model.txt"}, set()),
    (["run", "--input", "x", "="], {"model.txt", "model.json"}, set()),
]


def names(text):
    return {line.rstrip("/ ") for line in text.splitlines()}


def check(shell, complete, cases):
    for words, wanted, unwanted in cases:
        got = complete(words)
        assert wanted <= got and not unwanted & got, (shell, words, sorted(got))


def bash(words):
    script = (
        'source rlxc.bash || exit 1; complete -p rlxc >/dev/null || exit 1; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _rlxc; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", "rlxc", *words], cwd=folder, capture_output=True, text=True
    )
    errors = [x for x in done.stderr.splitlines() if "compopt" not in x]  # only while completing
    assert done.returncode == 0 and not errors, (words, done)
    return names(done.stdout)


def fish(words):
    line = " ".join(["rlxc", *words])
    script = f"source rlxc.fish; and complete -C '{line}'"
    env = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder}
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], cwd=folder, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0 and not done.stderr, (words, done)
    return names("\n".join(x.split("\t")[0] for x in done.stdout.splitlines()))


def read_until(fd, mark, seconds=20):
    text, end = "", time.monotonic() + seconds
    while mark not in text and time.monotonic() < end:
        if select.select([fd], [], [], 0.5)[0]:
            text += os.read(fd, 65536).decode(errors="replace")
    assert mark in text, text
    return text


class Zsh:
    """A shell at a terminal: completions are what it lists when tab is pressed."""

    def __init__(self):
        child, self.fd = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm", HOME=folder, ZDOTDIR=folder)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.send(
            "stty columns 20000; PS1='<PROM''PT>'; autoload -Uz compinit; compinit -u -D; "
            "source ./rlxc.zsh; bindkey '^T' list-choices\n"
        )
        read_until(self.fd, "<PROMPT>")

    def send(self, text):
        os.write(self.fd, text.encode())

    def complete(self, words):
        self.send(" ".join(["rlxc", *words]) + "\x14")
        time.sleep(0.3)
        self.send("\x15print DO''NE\n")
        text = read_until(self.fd, "DONE")
        if not text.rstrip().endswith("<PROMPT>"):
            read_until(self.fd, "<PROMPT>")
        return set(re.split(r"[\s/=]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", " ", text)))


def check_words():
    """The words that scripts know are those that rlxc expects."""
    script = call("completion", "bash")[1]
    for option in ["-O", "--plan", "--weights", "--arena", "--api"]:
        words = re.search(rf"'compile {option}'.*\) words='([^']*)'", script)[1].split()
        err = call("compile", MODEL, option, "nonsense")[2]
        expected = re.search(r": expected (.*)", err)[1].replace(" or ", ", ").split(", ")
        assert words == expected, (option, words, expected)


with tempfile.TemporaryDirectory() as folder:
    for name in ["bash", "zsh", "fish"]:
        (pathlib.Path(folder) / f"rlxc.{name}").write_text(call("completion", name)[1])
    for name in ["model.json", "model.onnx", "model.txt", "follow.json"]:
        (pathlib.Path(folder) / name).write_text("")
    (pathlib.Path(folder) / "folder").mkdir()
    check_words()
    check("bash", bash, CASES + ONLY_MODELS + BASH_CASES)
    for name in ["zsh", "fish"]:
        if not shutil.which(name):
            print(f"{name} is not installed: its completions were not tried")
            continue
        subprocess.run([name, "-n", f"{folder}/rlxc.{name}"], check=True)
        if name == "zsh":
            check(name, Zsh().complete, CASES + ONLY_MODELS)
        else:
            check(name, fish, CASES)
