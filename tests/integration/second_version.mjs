// A client of version 2, built on the TypeScript SDK: a permission, a command in the background, a
// cancel, and a reload in another process of the bridge. Ends with an error if anything is not as
// expected. Arguments: the SDK's module, acpd, and the folder of the session.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, acpd, cwd] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk).href);

/** Collects updates, and waits for the first later one that matches. */
class Updates {
  #waiting = [];
  #wake = () => {};

  push(update) {
    this.#waiting.push(update);
    this.#wake();
  }

  async until(wanted) {
    for (;;) {
      while (this.#waiting.length > 0) {
        const update = this.#waiting.shift();
        if (wanted(update)) return update;
      }
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  idle() {
    return this.until((update) => update.sessionUpdate === "state_update" && update.state === "idle");
  }
}

/** Starts a bridge, connects to it, and lets `talk` have the connection and its updates. */
async function converse(talk) {
  const bridge = spawn(acpd, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
  const updates = new Updates();
  const stream = acp.ndJsonStream(Writable.toWeb(bridge.stdin), Readable.toWeb(bridge.stdout));
  const app = acp
    .client({ name: "typescript" })
    .onNotification("session/update", ({ params }) => updates.push(params.update))
    .onRequest("session/request_permission", ({ params }) => {
      assert.equal(params.subject.type, "command");
      const { optionId } = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId } };
    });
  await app.connectWith(stream, async (agent) => {
    const agreed = await agent.request("initialize", {
      protocolVersion: 2,
      info: { name: "typescript", version: "1" },
      capabilities: {},
    });
    assert.equal(agreed.protocolVersion, 2);
    await talk(agent, updates);
  });
  bridge.stdin.destroy();
}

const text = (words) => [{ type: "text", text: words }];
let sessionId, terminal;

await converse(async (agent, updates) => {
  ({ sessionId } = await agent.request("session/new", { cwd }));
  const { messageId } = await agent.request("session/prompt", { sessionId, prompt: text("start it") });
  const message = await updates.until((update) => update.sessionUpdate === "user_message");
  assert.equal(message.messageId, messageId);
  const started = await updates.idle();
  assert.equal(started.stopReason, "end_turn");
  assert.equal(started.background.length, 1);
  terminal = started.background[0].terminalId;
  await agent.request("session/prompt", { sessionId, prompt: text("wait") });
  await updates.until((update) => update.sessionUpdate === "agent_message_chunk");
  await agent.notify("session/cancel", { sessionId });
  assert.equal((await updates.idle()).stopReason, "cancelled");
});

await converse(async (agent, updates) => {
  await agent.request("session/resume", { sessionId, cwd, replayFrom: { type: "start" } });
  const state = await updates.idle();
  assert.deepEqual(state.background, [{ type: "terminal", terminalId: terminal }]);
  await agent.request("terminal/cancel", { sessionId, terminalId: terminal });
  assert.deepEqual((await updates.idle()).background, []);
  await agent.request("session/close", { sessionId });
});
console.log("done");
