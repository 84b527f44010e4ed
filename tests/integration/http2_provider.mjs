// A provider with Node's HTTP/2 server: it refuses the first request before it has read it, as a server that is about to
// stop does, and answers all others. Arguments: the files of the key and of the certificate.
import { readFileSync } from "node:fs";
import { constants, createSecureServer } from "node:http2";

const [key, cert] = process.argv.slice(2).map((file) => readFileSync(file));
const server = createSecureServer({ key, cert });
let refused = false;

server.on("stream", async (stream, headers) => {
  stream.on("error", () => {});
  if (!refused) {
    refused = true;
    stream.close(constants.NGHTTP2_REFUSED_STREAM);
    return;
  }
  const parts = [];
  for await (const part of stream) parts.push(part);
  const body = Buffer.concat(parts);
  const contents = JSON.parse(body).messages.map(({ content }) => content);
  const texts = contents.flatMap((content) => (typeof content === "string" ? [content] : content.map(({ text }) => text)));
  console.log(JSON.stringify({ announced: headers["content-length"], arrived: body.length, texts }));
  stream.respond({ ":status": 200, "content-type": "text/event-stream" });
  const chunk = { choices: [{ index: 0, delta: { content: "Received." }, finish_reason: "stop" }] };
  stream.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
});

server.listen(0, "127.0.0.1", () => console.log(`https://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit()).resume();
