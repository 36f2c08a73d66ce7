#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# What programs and beginners read: --json of every command (one document on stdout with the members that
# docs/JSON.md names, messages as JSON on stderr), every exit code, --help with examples, suggestions.
# Usage: check_json.py RLXC
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RLXC = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", ".")).resolve()
MODEL = str(ROOT / "models" / "gelu_example.json")
failed = []


def call(*args, **env):
    done = subprocess.run(
        [RLXC, *map(str, args)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
        cwd=folder,
    )
    return done.returncode, done.stdout, done.stderr


def expect(condition, *what):
    if not condition:
        failed.append(" ".join(map(str, what)))


def documented():
    """The members of each command's document, at any depth, as the page says."""
    commands, inspect = (ROOT / "docs" / "JSON.md").read_text().split("## What inspect prints\n")
    rows = {}
    for line in commands.splitlines():
        match = re.match(r"\| `(\S+)` \| (.*) \|$", line)
        if match:
            rows[match[1]] = set(re.findall(r"`(\w+)`", match[2]))
    rows["inspect"] = set(re.findall(r"`(\w+)`", inspect))
    return rows


def members(value):
    """Names of all members, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*(members(v) for v in value.values()))
    return set().union(*(members(v) for v in value)) if isinstance(value, list) else set()


def check_success(commands, rows):
    by_name = {"ops", "times", "sizes"}  # members of these are names of something
    for command, args in SUCCESS.items():
        for line in args:
            code, out, err = call(command, *line, "--json", XDG_CACHE_HOME=folder, RLXC_LIBCLANG="")
            expect(code == 0 and not err, command, line, code, err)
            try:
                document = json.loads(out)
            except ValueError as why:
                expect(False, command, line, why, out[:200])
                continue
            if document is not None and "rlxc" in document and command in ("convert", "cut"):
                expect(document["rlxc"] == 1 and line in (SUCCESS[command][0],), command, "prints a model")
                continue
            if isinstance(document, dict):
                document = {k: None if k in by_name else v for k, v in document.items()}
                document.pop("interface", None)
            if command == "ops":
                for entry in document:
                    expect("rlxc" in entry.pop("example"), entry["name"], "has no model as example")
            if command in ("verify", "tune"):
                for entry in document.get("outputs", []) + document.get("choices", []):
                    entry.update({k: None for k in by_name & set(entry)})
            missing = members(document) - rows[command]
            expect(not missing, command, "prints what docs/JSON.md does not name:", missing)
    expect(set(commands) == set(SUCCESS), "commands without a case:", set(commands) ^ set(SUCCESS))


def check_failure(commands):
    for command in sorted(commands):
        for args in (["--jsn", "--json"], ["/nonexistent/model", "--json"]):
            code, out, err = call(command, *args)
            if command == "check" and args[0] != "--jsn":
                expect(json.loads(out) == {"ok": False, "models": [{"file": args[0], "ok": False}]}, out)
            else:
                expect(out == "", command, args, out)
            lines = [json.loads(line) for line in err.splitlines()]
            expect(code in (1, 2) and lines, command, args, code)
            expect(all({"level", "code", "message"} <= set(line) for line in lines), command, lines)
    code, _, err = call("inspect", "--jsn", "--json")
    expect({"message": "did you mean '--json'?"} in json.loads(err)["notes"], err)


def check_places():
    """Line, column and pointer of a message; bytes that are no UTF-8."""
    bad = pathlib.Path(folder) / "bad.json"
    node = '{"name": "y", "op": "neg", "inputs": ["zz"]}'
    bad.write_text('{"rlxc": 1,\n "inputs": {"xx": {"dtype": "f32", "shape": [2]}},\n "nodes": [%s],\n'
                   ' "outputs": ["y"]}\n' % node)
    code, out, err = call("inspect", bad, "--json")
    first = json.loads(err.splitlines()[0])
    expect(code == 1 and out == "", code, out)
    expect((first["file"], first["line"], first["column"]) == (str(bad), 3, 50), first)
    expect(first["code"] == "E0103" and first["pointer"] == "/nodes/0/inputs/0", first)
    hostile = os.fsencode(folder) + b"/\xff\x01\".json"
    done = subprocess.run([RLXC, "check", hostile, "--json"], capture_output=True)
    expect(json.loads(done.stdout)["ok"] is False and json.loads(done.stderr)["code"] == "E0001", done)


def check_pruned():
    """What inspect says about channels that left, in both forms; --no-prune keeps them."""
    model = pathlib.Path(folder) / "pruned.rlx"
    model.write_text("""graph "pruned" {
  %1 = input "x" : i8[1, 1, 2, 2]
  %2 = const : i8[3, 1, 1, 1] = {1, 0, 2}
  %3 = const : i32[3] = {0, 7, 0}
  %4 = int_conv(%1, %2, %3)
  %5 = cast(%4) {to = i8}
  %6 = const : i8[1, 3, 1, 1] = {1, 2, 0}
  %7 = int_conv(%5, %6)
  output "y" = %7
}
""")
    found = json.loads(call("inspect", "--no-code", "--json", model)[1])
    expect(found["pruned"] == {"channels": 4, "constant": 1, "unread": 1, "macs_before": 24, "macs": 8,
                               "weight_bytes_before": 6, "weight_bytes": 2}, found["pruned"])
    text = call("inspect", "--no-code", model)[1]
    expect("pruned  2 of 4 channels of convolutions: 1 constant, 1 unread\n" in text, text)
    for option in ("--no-prune", "-O0"):
        expect("pruned" not in json.loads(call("inspect", "--no-code", "--json", option, model)[1]), option)


def check_exit_codes():
    text = (ROOT / "docs" / "CLI.md").read_text()
    table = dict(re.findall(r"^\| (\d) \| (.*) \|$", text, re.MULTILINE))
    got = {
        "0": call("explain", "E0204")[0],
        "1": call("check", "/nonexistent")[0],
        "2": call("compile", MODEL, "--weights", "here")[0],
        "3": call("verify", MODEL, CC="/nonexistent/cc", XDG_CACHE_HOME=folder + "/none")[0],
    }
    expect({k: int(k) for k in table} == got, "exit codes:", table, got)
    for page in (call("--help")[1], call("--help-man")[1], call("--help-man", "run")[1]):
        page = re.sub(r"\s+", " ", page)
        expect(all(text in page for text in table.values()), "exit codes are not in", page[:80])


def check_help(commands):
    """Help has examples, whose commands and options exist."""
    for command in commands:
        code, text, _ = call("help", command)
        expect(code == 0 and text == call(command, "--help")[1], "help", command)
        lines = re.findall(r"^  rlxc (\S+)(.*)$", text, re.MULTILINE)
        expect(lines, command, "has no example: add a row to compiler/cli/examples.def")
        for name, rest in lines:
            expect(name in commands, "no such command in an example:", name, rest)
            for option in re.findall(r" (--?[A-Za-z][a-z-]*)", rest):
                expect(f"  {option}" in text, "example with an unknown option:", name, option)
    expect("did you mean 'compile'?" in call("compil")[2], "suggestion for a command")
    expect("did you mean 'compile'?" in call("help", "compil")[2], "suggestion for help")
    expect("did you mean '--target'?" in call("compile", "--traget", "c")[2], "suggestion for an option")
    expect("rlxc help compile" in call("compile", "--traget", "c")[2], "where options are listed")


SUCCESS = {
    "compile": [[MODEL, "-o", "out"], ["pairs.gguf", "-o", "out"], [MODEL, "--stop-after", "fuse"]],
    "run": [[MODEL, "--random", "1"], ["pairs.gguf", "--prompt", "The cat", "-n", "3"]],
    "verify": [[MODEL]],
    "inspect": [[MODEL], [MODEL, "--threads", "2"], [MODEL, "--stop-after", "fuse"]],
    "cache": [["--cache", "kept"], ["clear", "--cache", "kept"]],
    "bench": [[MODEL, "--seconds", "0.05"]],
    "convert": [[MODEL], [MODEL, "copy.json"]],
    "check": [[MODEL], [MODEL, MODEL]],
    "cut": [[MODEL, "--to", "product"], [MODEL, "--to", "product", "-o", "part.json"]],
    "bisect": [[MODEL]],
    "diff": [[MODEL, MODEL], [MODEL, MODEL, "--b", "--no-fuse"]],
    "tune": [[MODEL, "-o", "m.tune"]],
    "ops": [[], ["matmul", "conv"]],
    "header": [[]],
    "passes": [[]],
    "targets": [[]],
    "explain": [["E0204"]],
    "dev-validate": [["plain.c"]],
    "tokenizer": [["tokenizer.json", "-o", "tokens"]],
    "tokenize": [["tokenizer.json", "--text", "hello"]],
    "grammar": [["whole.gbnf"], ["whole.gbnf", "--text", "42"]],
    "chat": [["pairs.gguf", "--template", "plain", "-n", "1"]],
    "perplexity": [["pairs.gguf", "--text", "talk.json"]],
    "quantize": [["pairs.gguf", "-o", "small.gguf", "--type", "q8_0"]],
    "template": [["tokenizer.json", "--messages", "talk.json", "--template", "chatml"]],
    "completion": [["bash"], ["zsh"], ["fish"]],
    "dev-place": [["items.csv"], ["items.csv", "items.csv"]],
}
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(f"{ROOT}/tests/tokens/small_tokenizer.json", f"{folder}/tokenizer.json")
    pathlib.Path(f"{folder}/talk.json").write_text('[{"role": "user", "content": "Hi"}]', encoding="utf-8")
    language = pathlib.Path(ROOT) / "examples/language"
    words = [language / "make_model.py", f"{folder}/pairs.gguf", language / "sample.txt"]
    subprocess.run([sys.executable, *words], check=True)
    (pathlib.Path(folder) / "whole.gbnf").write_text("root ::= [0-9]+")
    (pathlib.Path(folder) / "items.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\n")
    (pathlib.Path(folder) / "plain.c").write_text("int f(void);\nint f(void)\n{\n    return 1;\n}\n")
    if call("dev-validate", "plain.c", RLXC_LIBCLANG="")[0] == 3:
        print("dev-validate: skipped, there is no libclang")
        SUCCESS["dev-validate"] = []
    overview = call("--help")[1]
    names = re.findall(r"^  ([a-z-]+) +\S", overview[overview.index("Commands:") :], re.MULTILINE)
    check_success(names, documented())
    check_failure(names)
    check_places()
    check_pruned()
    check_exit_codes()
    check_help(names)
for line in failed:
    print(line, file=sys.stderr)
sys.exit(bool(failed))
