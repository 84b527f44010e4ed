"""An agent built on the Python SDK.

It keeps its sessions in a file, so that it can load them after it was killed, and then replays something. For
"wait-here" it speaks six words and waits after three of them for the file `go`; for "touch-it" it asks for permission
with options of its own, and repeats the answer.
"""

import asyncio
import os
from pathlib import Path

import acp
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate

SESSIONS = Path("python-sessions")


def known():
    return SESSIONS.read_text().split() if SESSIONS.exists() else []


class Remembering(acp.Agent):
    def on_connect(self, conn):
        self.client = conn

    async def say(self, session_id, text):
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def initialize(self, protocol_version, **kwargs):
        capabilities = AgentCapabilities(load_session=True)
        return acp.InitializeResponse(protocol_version=acp.PROTOCOL_VERSION, agent_capabilities=capabilities)

    async def new_session(self, cwd, **kwargs):
        session_id = f"python-{os.getpid()}"
        SESSIONS.write_text("\n".join([*known(), session_id]))
        return acp.NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd, session_id, **kwargs):
        if session_id not in known():
            raise acp.RequestError.invalid_params({"sessionId": session_id})
        await self.say(session_id, "This was said before.")
        return acp.LoadSessionResponse()

    async def ask(self, session_id):
        call = acp.start_tool_call("t1", "Touch it", kind="edit", status="pending")
        await self.client.session_update(session_id, call)
        options = [
            PermissionOption(option_id="do-it", name="Do it", kind="allow_once"),
            PermissionOption(option_id="leave-it", name="Leave it", kind="reject_once"),
        ]
        answer = await self.client.request_permission(session_id, ToolCallUpdate(tool_call_id="t1"), options)
        await self.client.session_update(session_id, acp.update_tool_call("t1", status="completed"))
        await self.say(session_id, f"You said {answer.outcome.option_id}.")

    async def prompt(self, session_id, prompt, **kwargs):
        text = " ".join(getattr(block, "text", "") for block in prompt)
        if "wait-here" in text:
            for word in ["one ", "two ", "three "]:
                await self.say(session_id, word)
            while not Path("go").exists():
                await asyncio.sleep(0.05)
            for word in ["four ", "five ", "six."]:
                await self.say(session_id, word)
        elif "touch-it" in text:
            await self.ask(session_id)
        else:
            await self.say(session_id, "Hello.")
        return acp.PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(Remembering()))
