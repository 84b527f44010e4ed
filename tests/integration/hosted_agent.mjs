// An agent built on the TypeScript SDK: it announces an edit, asks for permission with options of its own, and repeats
// the answer. Argument: the SDK's module.
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(process.argv[2]).href);

async function prompt({ params: { sessionId }, client }) {
  const update = (update) => client.notify(acp.methods.client.session.update, { sessionId, update });
  const say = (text) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  await say("I want to edit. ");
  await update({ sessionUpdate: "tool_call", toolCallId: "t1", title: "Edit it", kind: "edit", status: "pending" });
  const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId: "t1" },
    options: [
      { optionId: "do-it", name: "Do it", kind: "allow_once" },
      { optionId: "leave-it", name: "Leave it", kind: "reject_once" },
    ],
  });
  await update({ sessionUpdate: "tool_call_update", toolCallId: "t1", status: "completed" });
  await say(`You said ${outcome.optionId}.`);
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "hosted" })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: "s1" }))
  .onRequest(acp.methods.agent.session.prompt, prompt)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
