"""A scripted model for the tasks: reads the files, writes the solution and says that it is done.

It speaks the streaming form of OpenAI's chat completions. `run.py --loop` uses it to check acpd's own
loop: requests, tool calls, their outcomes and the end of the turn, without a real model.
"""

import contextlib
import http.server
import json
import threading

from tasks import TASKS

# The requests of each turn: one that reads, one that writes, and one that ends the turn.
REQUESTS = 3
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
# What each turn must be measured at. A million tokens cost 10 dollars in a request and 100 in an answer.
EXPECTED = {"model": "scripted/scripted", "requests": REQUESTS, "tokens": REQUESTS * 110, "cost": 0.006}

# While it is not None, the last request of a turn is not answered before this event.
release = None
arrived = threading.Event()


@contextlib.contextmanager
def held():
    """Holds back the last answer of turns. The event that it yields is set when one was requested."""
    global release
    release = threading.Event()
    arrived.clear()
    try:
        yield arrived
    finally:
        release.set()
        release = None


def answer(messages):
    """The calls and the text that follow in this conversation."""
    said = "\n".join(json.dumps(message["content"]) for message in messages if message["role"] == "user")
    task = next(task for task in TASKS if json.dumps(task.prompt)[1:-1] in said)
    solution = task.files("solution")
    step = sum(message["role"] == "assistant" for message in messages)
    if step == 0:
        known = [name for name in solution if task.has(name)]
        return [("read_file", {"path": name}) for name in known] or [("list_files", {"path": "."})], ""
    if step == 1:
        return [("write_file", {"path": name, "content": text}) for name, text in solution.items()], ""
    if release:
        arrived.set()
        release.wait()
    return [], "Done."


def stream(calls, text):
    """The events of one answer."""
    def chunk(delta, finish=None):
        return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    if text:
        yield chunk({"role": "assistant", "content": text})
    for index, (name, arguments) in enumerate(calls):
        call = {"index": index, "id": f"call_{index}", "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)}}
        yield chunk({"role": "assistant", "tool_calls": [call]})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [],
           "usage": USAGE}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply("application/json", json.dumps({"data": [{"id": "scripted"}]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        events = stream(*answer(request["messages"]))
        self.reply("text/event-stream", "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")

    def reply(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # A client that was stopped has left.
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve():
    """Starts the server on a free port and returns its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def configuration(address):
    """The configuration of a daemon that uses this server."""
    return (f'[models]\ndefault = "scripted/scripted"\n[models.local]\nprobe = false\n[models.providers.scripted]\n'
            f'kind = "openai"\nbase_url = "{address}"\n[[models.providers.scripted.models]]\nid = "scripted"\nwindow = 100000\n'
            f'price = {{ input = 10.0, output = 100.0, currency = "USD" }}\n')
