#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/server under the sanitizers: the same answers as rlxc gives, whole and as events, one by one and
many at once; calls of tools, in the forms of several models; what clients of OpenAI's package see, where it
is installed; clients that go away; and requests that are wrong or meant to harm. Exits with 77 without
libmicrohttpd. Usage: check_server.py RLXC"""

import concurrent.futures
import functools
import http.client
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

RLXC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONTEXT, SLOTS, READ_SECONDS, PATIENCE = 8192, 2, 3, 120
CFLAGS = "-O1 -g -Wall -Wextra -Wconversion -Werror -fsanitize=address,undefined"
CFLAGS += f" -DREAD_SECONDS={READ_SECONDS}"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


SCHEMA = {"type": "object", "required": ["animal", "sure"], "additionalProperties": False,
          "properties": {"animal": {"enum": ["cat", "river"]}, "sure": {"type": "boolean"}}}  # fmt: skip


def schema_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


# Three forms of calls: a word before them, nothing before them and one call only, and a control token.
HEAD = "{% if tools %}Tools: {{ tools | tojson }} {% endif %}"
TAIL = "{% if add_generation_prompt %}Answer:{% endif %}"
FORMS = {
    "word": HEAD + "{% for m in messages %}{% if m.role == 'tool' %}<tool_response>{{ m.content }} "
    "{% elif m.tool_calls %}Answer:{% for c in m.tool_calls %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %} {% else %}{{ m.content }} {% endif %}{% endfor %}" + TAIL,
    "alone": HEAD + "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}"
    "{{ raise_exception('one call only') }}{% endif %}"
    'Answer:{"name": "{{ m.tool_calls[0].function.name }}", '
    '"parameters": {{ m.tool_calls[0].function.arguments | tojson }}}</s>'
    "{% else %}{{ m.content }} {% endif %}{% endfor %}" + TAIL,
    "control": HEAD + "{% for m in messages %}{% if m.tool_calls %}Answer:<s>["
    "{% for c in m.tool_calls %}{{ ', ' if not loop.first }}"
    '{{ (c.function | tojson)[:-1] }}, "id": "{{ c.id }}"}{% endfor %}]</s>'
    "{% else %}{{ m.content }} {% endif %}{% endfor %}" + TAIL,
}


def build(folder):
    for name in ("server", "language"):
        shutil.copytree(ROOT / "examples" / name, folder / name, ignore=shutil.ignore_patterns("build"))
    with open(folder / "language/sample.txt", "a", encoding="utf-8") as file:
        file.write("Answer: <tool_call>\n" * 40)  # what the model says behind the form of an answer
    make(folder)
    return folder / "server/build"


def make(folder, *words):
    words = ["make", f"RLXC={RLXC}", f"CFLAGS={CFLAGS}", f"SLOTS={SLOTS}", f"CONTEXT={CONTEXT}", *words]
    done = subprocess.run(words, cwd=folder / "server", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Server:
    def __init__(self, folder):
        self.model = folder / "sample.gguf"
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [folder / "server", "--port", "0"], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2])

    def ask(self, path, body=None, method=None):
        """The status, and the JSON."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        c.request(method or ("GET" if body is None else "POST"), path, body=data)
        answer = c.getresponse()
        text = answer.read()
        c.close()
        return answer.status, json.loads(text)

    def events(self, path, body):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request("POST", path, body=json.dumps(body | {"stream": True}).encode())
        text = c.getresponse().read().decode()
        parts = [part.removeprefix("data: ") for part in text.split("\n\n")]
        assert parts[-2:] == ["[DONE]", ""], text
        return [json.loads(part) for part in parts[:-2]]

    def health(self):
        status, said = self.ask("/health")
        assert status == 200 and said["status"] == "ok"
        return said

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.log.seek(0)
        said = self.log.read()
        assert code == 0 and "Sanitizer" not in said and "runtime error" not in said, (code, said[-3000:])


def rlxc_text(server, *words, given=""):
    done = subprocess.run([RLXC, *words], input=given.encode(), capture_output=True, check=True)
    return done.stdout.decode().removesuffix("\n")


def check_answers(server):
    body = {"prompt": "The cat", "max_tokens": 8, "temperature": 0}
    expected = rlxc_text(server, "run", server.model, "--prompt", "The cat", "-n", "8", "--temperature", "0")
    status, said = server.ask(TEXT, body)
    assert status == 200 and said["object"] == "text_completion", said
    assert said["choices"][0]["text"] == expected and said["choices"][0]["finish_reason"] == "length", said
    assert said["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
    parts = server.events(TEXT, body)
    assert "".join(p["choices"][0]["text"] for p in parts) == expected
    stopped = server.ask(TEXT, body | {"stop": [" is"]})[1]["choices"][0]
    assert stopped["text"] == expected.partition(" is")[0] and stopped["finish_reason"] == "stop", stopped
    assert server.ask("/v1/models")[1]["data"][0]["id"] == "model"


def check_chat(server):
    words = ["chat", server.model, "-n", "8", "--temperature", "0"]
    expected = rlxc_text(server, *words, given="The cat\n")
    messages = [{"role": "user", "content": [{"type": "text", "text": "The cat"}]}]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0}
    body["stream_options"] = {"include_usage": True}
    said = server.ask(CHAT, body)[1]
    assert said["choices"][0]["message"] == {"role": "assistant", "content": expected}, (said, expected)
    parts = server.events(CHAT, body)
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, parts[0]
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in parts[:-1]) == expected
    assert parts[-1]["choices"] == [] and parts[-1]["usage"] == said["usage"], parts[-1]
    both = rlxc_text(server, *words, given="The cat\nIn the\n").split("\n")
    messages += [{"role": "assistant", "content": both[0]}, {"role": "user", "content": "In the"}]
    assert server.ask(CHAT, body)[1]["choices"][0]["message"]["content"] == both[1]
    check_control(server)


def check_control(server):
    """No text of a client becomes a control token, also with the character within it by which the server
    tells those texts: that one is left out."""
    counts = []
    mark = "\U0010fffd"
    for text in ("The cat", "The cat</s>", f"The cat<{mark}/s>", f"The cat</s{mark}{mark}>{mark}"):
        said = server.ask(CHAT, {"messages": [{"role": "user", "content": text}], "max_tokens": 1})[1]
        counts.append(said["usage"]["prompt_tokens"])
    assert counts[1] > counts[0] + 1 and len(set(counts[1:])) == 1, counts


def check_logprobs(server):
    """They are those of rlxc run --logprobs, whole and in parts; what a stop string takes back has none."""
    body = {"prompt": "The cat", "max_tokens": 6, "temperature": 0, "logprobs": 3}
    words = ["--prompt", "The cat", "-n", "6", "--temperature", "0", "--json", "--logprobs", "3"]
    expected = json.loads(rlxc_text(server, "run", server.model, *words))["logprobs"]
    choice = server.ask(TEXT, body)[1]["choices"][0]
    got = choice["logprobs"]
    assert "".join(got["tokens"]).replace("\u2581", " ") == choice["text"], (got, choice)
    assert [len(best) for best in got["top_logprobs"]] == [3] * 6 and len(expected) == 6
    for i, e in enumerate(expected):
        assert abs(got["token_logprobs"][i] - e["logprob"]) < 1e-5, (got, e)
        assert sorted(got["top_logprobs"][i].values()) == sorted(
            got["top_logprobs"][i][b["text"]] for b in e["best"]), (got, e)  # fmt: skip
        assert got["text_offset"][i] == sum(map(len, got["tokens"][:i])), got
    parts = [p["choices"][0]["logprobs"] for p in server.events(TEXT, body)]
    assert sum((p["tokens"] for p in parts), []) == got["tokens"], parts
    stopped = server.ask(TEXT, body | {"stop": [got["tokens"][3].replace("\u2581", " ")]})[1]["choices"][0]
    assert stopped["finish_reason"] == "stop" and len(stopped["logprobs"]["tokens"]) <= 3, stopped
    assert server.ask(TEXT, body | {"logprobs": None})[1]["choices"][0]["logprobs"] is None
    chat = {"messages": [{"role": "user", "content": "The cat"}], "max_tokens": 6, "temperature": 1.5}
    chat |= {"logprobs": True, "top_logprobs": 2, "seed": 4}
    whole = server.ask(CHAT, chat)[1]["choices"][0]
    entries = whole["logprobs"]["content"]
    text = b"".join(bytes(e["bytes"]) for e in entries).decode().replace("\u2581", " ")
    assert text == whole["message"]["content"], whole
    for e in entries:
        best = e["top_logprobs"]
        assert len(best) == 2 and e["logprob"] <= best[0]["logprob"] <= 0, e
        assert all(b["logprob"] == e["logprob"] for b in best if b["token"] == e["token"])
    parts = [p["choices"][0]["logprobs"]["content"] for p in server.events(CHAT, chat)]
    assert sum(parts, []) == entries, (parts, entries)


def check_json(server):
    """Answers keep to the schema, whatever the model would say, and end where nothing can follow."""
    body = {"messages": [{"role": "user", "content": "The cat"}], "response_format": schema_of(SCHEMA)}
    for settings in ({"temperature": 0}, *({"temperature": 2, "seed": i} for i in range(4))):
        status, said = server.ask(CHAT, body | settings | {"max_tokens": 400})
        assert status == 200 and said["choices"][0]["finish_reason"] == "stop", said
        value = json.loads(said["choices"][0]["message"]["content"])
        assert value["animal"] in ("cat", "river") and value["sure"] in (True, False) and len(value) == 2
    parts = server.events(CHAT, body | {"temperature": 0, "max_tokens": 400})
    text = "".join(p["choices"][0]["delta"].get("content", "") for p in parts)
    assert json.loads(text)["animal"], text
    body["response_format"] = {"type": "json_object"}
    status, said = server.ask(CHAT, body | {"temperature": 0, "max_tokens": 40})
    text = said["choices"][0]["message"]["content"]
    assert status == 200 and text.startswith("{"), said
    assert said["choices"][0]["finish_reason"] == "length" or isinstance(json.loads(text), dict), said


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather </s> of a place",
    "parameters": {"type": "object", "required": ["place"], "additionalProperties": False, "properties": {
        "place": {"enum": ["Rome", "Oslo"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}  # fmt: skip
CLOCK = {"type": "function", "function": {"name": "clock"}}
PATTERN = {"type": "string", "pattern": "x"}
ODD = {"type": "function", "function": {
    "name": "odd", "parameters": {"type": "object", "properties": {"a": PATTERN}}}}  # fmt: skip


def check_calls(calls):
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        assert call["type"] == "function" and len(call["id"]) == 9, call
        if call["function"]["name"] == "get_weather":
            assert arguments["place"] in ("Rome", "Oslo") and set(arguments) <= {"place", "days"}, call
            assert 1 <= arguments.get("days", 1) <= 9, call
        else:
            assert call["function"]["name"] == "clock" and isinstance(arguments, dict), call


def joined(parts):
    """The message that the parts of a stream make."""
    text, calls = "", []
    for part in parts:
        delta = part["choices"][0]["delta"]
        text += delta.get("content") or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(calls):
                calls.append(call)
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return text, calls, parts[-1]["choices"][0]["finish_reason"]


def check_tools(server, form):
    ask = {"messages": [{"role": "user", "content": "The cat"}], "tools": [WEATHER, CLOCK], "max_tokens": 400}
    only = {"type": "function", "function": {"name": "get_weather"}}
    settings = [{"temperature": 0}, {"temperature": 2, "seed": 1}]
    for choice, more in [(c, m) for c in ("required", only) for m in settings]:
        status, said = server.ask(CHAT, ask | more | {"tool_choice": choice})
        answer = said["choices"][0]
        assert status == 200 and answer["finish_reason"] in ("tool_calls", "length"), said
        message = answer["message"]
        if answer["finish_reason"] == "tool_calls":
            assert message["content"] is None and message["tool_calls"], said
            check_calls(message["tool_calls"])
            names = {call["function"]["name"] for call in message["tool_calls"]}
            assert choice == "required" or names == {"get_weather"}, said
            assert len({call["id"] for call in message["tool_calls"]}) == len(message["tool_calls"])
        text, calls, finish = joined(server.events(CHAT, ask | more | {"tool_choice": choice}))
        assert text == "" and finish == answer["finish_reason"], (text, finish)
        plain = [call["function"] for call in message["tool_calls"]]
        assert [call["function"] for call in calls] == plain, (calls, plain)
    one = ask | {"tool_choice": only, "parallel_tool_calls": False, "temperature": 0}
    message = server.ask(CHAT, one)[1]["choices"][0]["message"]
    assert len(message["tool_calls"]) == 1, message
    said = server.ask(CHAT, ask | {"temperature": 0})[1]["choices"][0]  # the model begins the word itself
    if form == "word":
        assert said["message"]["tool_calls"] and (said["message"]["content"] or "").strip() == "", said
    said = server.ask(CHAT, ask | {"temperature": 0, "tool_choice": "none"})[1]["choices"][0]
    assert "tool_calls" not in said["message"], said
    for i in range(3):
        said = server.ask(CHAT, ask | {"temperature": 2, "seed": i, "max_tokens": 60})[1]["choices"][0]
        if said["finish_reason"] == "tool_calls":
            check_calls(said["message"]["tool_calls"])
    free = ask | {"tools": [CLOCK], "temperature": 2, "seed": 1, "max_tokens": 20}
    text, whole = joined(server.events(CHAT, free))[0], server.ask(CHAT, free)[1]
    assert (whole["choices"][0]["message"]["content"] or "") == text, (whole, text)
    call = message["tool_calls"][0]
    ask["messages"] += [message, {"role": "tool", "tool_call_id": call["id"], "content": "rain"}]
    ask["messages"].append({"role": "user", "content": "And?"})
    assert server.ask(CHAT, ask | {"max_tokens": 3})[0] == 200
    assert server.ask(CHAT, ask | {"tools": [ODD], "tool_choice": "required", "max_tokens": 9})[0] == 200
    strict = {"type": "function", "function": ODD["function"] | {"strict": True}}
    wrong = [{"tools": [strict]}, {"tools": [CLOCK, CLOCK]}, {"tools": {}, "tool_choice": "required"},
             {"tools": [{"type": "function", "function": {"name": "a b"}}]}, {"tool_choice": "cat"},
             {"tool_choice": {"type": "function", "function": {"name": "no"}}}, {"tools": [CLOCK] * 200},
             {"tools": [{"type": "function", "function": {"name": "a", "parameters": 1}}]},
             {"response_format": {"type": "json_object"}}]  # fmt: skip
    for more in wrong:
        status, said = server.ask(CHAT, ask | more)
        assert status == 400 and said["error"]["message"], (more, said)
    ranges = [{"type": "integer", "minimum": k * 7919, "maximum": 10**14 - k * 104729} for k in range(150)]
    slow = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"anyOf": ranges}}}
            for i in range(90)]  # fmt: skip
    begin = time.monotonic()
    assert server.ask(CHAT, ask | {"tools": slow})[0] == 400 and time.monotonic() - begin < PATIENCE / 2
    for of in ({}, {"type": "boolean"}, {"anyOf": [{"type": "null"}, {"type": "object"}]}, {"enum": [5]}):
        plain = {"name": "plain", "parameters": of}
        settings = {"tools": [{"type": "function", "function": plain}], "tool_choice": "required", "seed": 3}
        answer = server.ask(CHAT, ask | settings)[1]["choices"][0]
        for call in answer["message"]["tool_calls"]:
            assert call["function"]["arguments"][:1] in ("{", ""), (of, answer)
        settings["tools"] = [{"type": "function", "function": plain | {"strict": True}}]
        assert server.ask(CHAT, ask | settings)[0] == 400, of
    bad = [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}]
    assert server.ask(CHAT, ask | {"messages": bad})[0] == 400


def check_openai_tools(server):
    try:
        import openai
    except ImportError:
        return
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=PATIENCE, max_retries=0)
    settings = {"model": "model", "messages": [{"role": "user", "content": "The cat"}], "tools": [WEATHER],
                "tool_choice": "required", "temperature": 0, "parallel_tool_calls": False}  # fmt: skip
    answer = client.chat.completions.create(**settings).choices[0]
    assert answer.finish_reason == "tool_calls" and answer.message.content is None, answer
    call = answer.message.tool_calls[0]
    assert call.function.name == "get_weather" and json.loads(call.function.arguments)["place"], call
    parts, name, arguments = client.chat.completions.create(**settings, stream=True), "", ""
    for part in parts:
        for piece in part.choices[0].delta.tool_calls or []:
            name += piece.function.name or ""
            arguments += piece.function.arguments
    assert (name, arguments) == (call.function.name, call.function.arguments), (name, arguments)


def check_many(server):
    """More than there are slots: the answers are those of each alone."""
    prompts = [(i, f"The {word}") for i in range(4) for word in ("cat", "old")]
    bodies = [{"prompt": prompt, "max_tokens": 5 + 9 * i, "seed": i} for i, prompt in prompts]
    alone = [server.ask(TEXT, body)[1]["choices"][0]["text"] for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(lambda body: server.ask(TEXT, body)[1]["choices"][0]["text"], bodies))
    assert together == alone and len(set(alone)) > 3, (alone, together)


def wait_until_idle(server):
    end = time.monotonic() + PATIENCE
    while (load := server.health())["running"] + load["waiting"] != 0:
        assert time.monotonic() < end, load
        time.sleep(0.05)
    return load


def check_cancelled(server):
    """Clients that go away: their answers end long before the context does."""
    before = wait_until_idle(server)["tokens"]
    clients = []
    for stream in (True, True, False, False):
        body = json.dumps({"prompt": "The cat", "max_tokens": 10**6, "temperature": 0, "stream": stream})
        c = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        c.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        clients.append(c)
    for c in clients[:2]:
        assert c.recv(64).startswith(b"HTTP/1.1 200")
    for c in clients:
        c.close()
    assert wait_until_idle(server)["tokens"] - before < CONTEXT // 2


def check_wrong(server):
    message = {"role": "user", "content": "Hi"}
    wrong = [b"", b"{", b"[]", b"null", b'{"prompt": "\xff"}', b'{"prompt": "\xed\xa0\x80"}',
             b'{"prompt": "a\\u0000"}', b'{"prompt": "a"} x', b"[" * 100000, b'{"a":' * 100000,
             {"prompt": 1}, {"prompt": []}, {"prompt": ["a", "b"]}, {"prompt": "the " * 20000}]  # fmt: skip
    settings = [("max_tokens", 0), ("max_tokens", "9"), ("temperature", -1), ("top_p", 3), ("n", 2),
                ("stop", [""]), ("stop", ["x"] * 17), ("stop", "x" * 600), ("stop", {"a": 1}), ("stream", 1),
                ("logprobs", 21), ("logprobs", -1), ("logprobs", 0.5), ("logprobs", "a")]  # fmt: skip
    wrong += [{"prompt": "a", name: value} for name, value in settings]
    chats = [{}, {"messages": []}, {"messages": {}}, {"messages": [1]}, {"messages": [{"role": "user"}]},
             {"messages": [{"role": "cat", "content": "a"}]}, {"messages": [{"role": "user", "content": 1}]},
             {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
             {"messages": [message], "logprobs": 1}, {"messages": [message], "top_logprobs": 2},
             {"messages": [message], "logprobs": True, "top_logprobs": 21},
             {"messages": [message], "tools": [{"type": "function"}]},
             {"messages": [message], "response_format": 1},
             {"messages": [message], "response_format": {"type": "xml"}},
             {"messages": [message], "response_format": {"type": "json_schema"}},
             {"messages": [message], "response_format": schema_of({"type": "cat"})},
             {"messages": [message], "response_format": schema_of({"not": {}})},
             {"messages": [message], "tools": [WEATHER]}, {"messages": [message], "tool_choice": "required"},
             {"messages": [message], "functions": [{}]}]  # fmt: skip
    for path, bodies in ((TEXT, wrong), (CHAT, chats)):
        for body in bodies:
            status, said = server.ask(path, body, "POST")
            assert status == 400 and said["error"]["message"], (body, status, said)
    assert server.ask("/nothing")[0] == 404 and server.ask(TEXT)[0] == 405
    assert server.ask("/health", {})[0] == 405
    for body in ({"prompt": "a", "stop": None, "seed": None}, {"prompt": ["\u4e00\U0001f600"]}):
        assert server.ask(TEXT, body | {"max_tokens": 2})[0] == 200


def raw(server, data):
    """What comes back, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as c:
        said = b""
        try:
            c.sendall(data)
            while part := c.recv(65536):
                said += part
        except OSError:
            pass
        return said


def check_hostile(server):
    head = f"POST {TEXT} HTTP/1.1\r\nHost: x\r\n".encode()
    assert b" 413 " in raw(server, head + b"Content-Length: 99999999999\r\nConnection: close\r\n\r\n")
    chunks = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert b" 200 " not in raw(server, chunks + (b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * 30)
    long = b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 10**6 + b"\r\n\r\n"
    assert b" 200 " not in raw(server, long)
    rng = random.Random(4)
    for _ in range(30):
        raw(server, bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400))) + b"\r\n\r\n")
    server.health()


def check_slow(server):
    """Requests that never end are closed in time, and as many connections as there may be stop nobody for
    longer."""
    slow = []
    for i in range(200):
        c = socket.socket()
        c.settimeout(PATIENCE)
        c.connect(("127.0.0.1", server.port))
        slow.append(c)
        if i < 100:
            c.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{{".encode())
    begin = time.monotonic()
    for c in slow[:3]:
        try:
            while time.monotonic() - begin < PATIENCE:
                c.settimeout(0.2)
                try:
                    if c.recv(1) == b"":
                        break
                except TimeoutError:
                    c.sendall(b" ")  # a byte now and then
        except OSError:
            pass
    assert time.monotonic() - begin < PATIENCE
    for c in slow:
        c.close()
    while True:  # until the server has seen that they went
        try:
            return server.health()
        except ConnectionError:
            assert time.monotonic() - begin < PATIENCE
            time.sleep(0.1)


def check_openai(server):
    try:
        import openai
    except ImportError:
        print("without the package openai")
        return
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=PATIENCE, max_retries=0)
    messages = [{"role": "user", "content": "The cat"}]
    settings = {"model": "model", "messages": messages, "max_tokens": 8, "temperature": 0}
    whole = client.chat.completions.create(**settings)
    text = whole.choices[0].message.content
    assert whole.usage.completion_tokens == 8 and whole.choices[0].finish_reason == "length"
    parts = client.chat.completions.create(**settings, stream=True, stream_options={"include_usage": True})
    assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices) == text
    shown = client.chat.completions.create(**settings, logprobs=True, top_logprobs=5)
    entries = shown.choices[0].logprobs.content
    assert len(entries) == 8 and all(e.token == e.top_logprobs[0].token for e in entries), entries
    shown = client.completions.create(model="model", prompt="The cat", max_tokens=4, logprobs=2).choices[0]
    assert len(shown.logprobs.token_logprobs) == len(shown.logprobs.top_logprobs) == 4, shown
    kept = client.chat.completions.create(**settings | {"max_tokens": 400}, response_format=schema_of(SCHEMA))
    assert json.loads(kept.choices[0].message.content)["animal"] in ("cat", "river"), kept
    plain = client.completions.create(model="model", prompt="The cat", max_tokens=4, stop=["\n"])
    assert plain.choices[0].text and [m.id for m in client.models.list()] == ["model"]
    try:
        client.completions.create(model="model", prompt="The cat", n=2)
        raise AssertionError("n=2 was taken")
    except openai.BadRequestError as error:
        assert "one answer" in str(error), error
    stream = client.completions.create(model="model", prompt="The cat", max_tokens=10**6, stream=True)
    next(iter(stream))
    stream.close()
    wait_until_idle(server)


def main():
    found = subprocess.run(["pkg-config", "--exists", "libmicrohttpd", "libcjson"], check=False)
    if found.returncode != 0:
        print("skipped: no libmicrohttpd and cJSON")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checks = [check_answers, check_chat, check_logprobs, check_json, check_many, check_wrong,
                  check_cancelled, check_hostile, check_slow, check_openai]  # fmt: skip
        run(build(folder), checks)
        for form, text in FORMS.items():
            (folder / "server/form.jinja").write_text(text, encoding="utf-8")
            make(folder, "TEMPLATE=form.jinja")
            run(folder / "server/build", [functools.partial(check_tools, form=form), check_openai_tools])
    return 0


def run(folder, checks):
    server = Server(folder)
    try:
        for check in checks:
            begin = time.monotonic()
            check(server)
            name = getattr(check, "__name__", "check_tools")
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
        server.end()
    finally:
        server.process.kill()


if __name__ == "__main__":
    sys.exit(main())
