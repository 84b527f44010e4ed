//! Third-party MCP servers: the reference server over each transport, and one in Python.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::installed::installed;
use crate::mcp_fixture::{McpFixture, calls, has};

/// The reference server of the protocol's authors.
fn everything() -> PathBuf {
    installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// The reference server on a port of this machine only. It ends with the test.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    async fn start(script: &Path, transport: &str) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        // By default it would listen on all addresses.
        let local = "data:text/javascript,import net from 'node:net'; const listen = net.Server.prototype.listen; \
                     net.Server.prototype.listen = function (port, done) { \
                     return listen.call(this, { port: Number(port), host: '127.0.0.1' }, done) }";
        let mut command = Command::new("node");
        command.args(["--import", local]).arg(script).arg(transport).env("PORT", port.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let served = Self { child, port };
        let listens = async {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), listens).await.expect("the reference server listens");
        served
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fixture with timeouts long enough for these slow servers.
async fn patient(answers: Vec<Vec<testkit::Step>>) -> McpFixture {
    McpFixture::with(json!({ "elicitation": { "form": {}, "url": {} } }), answers, |settings, _| {
        settings.mcp.wait_seconds = 60;
    })
    .await
}

/// Uses the features of the reference server in one turn.
async fn exercise(server: Value) {
    let answers = calls(&[
        ("mcp__every__echo", json!({ "message": "hello" })),
        ("mcp__every__get-sum", json!({ "a": 2, "b": 40 })),
        ("mcp__every__get-tiny-image", json!({})),
        ("mcp__every__get-structured-content", json!({ "location": "New York" })),
        ("mcp__every__get-resource-links", json!({ "count": 2 })),
        ("mcp__every__trigger-long-running-operation", json!({ "duration": 1, "steps": 2 })),
        ("mcp__every__echo", json!({ "message": 7 })),
    ]);
    let mut at = patient(answers).await;
    let session = at.open(json!([server])).await;
    let transcript = at.say(&session, "try everything").await;
    has(&transcript, "Echo: hello");
    has(&transcript, "The sum of 2 and 40 is 42.");
    has(&transcript, r#""type":"image""#);
    has(&transcript, r#""structuredContent":{"#);
    has(&transcript, "demo://resource/");
    has(&transcript, r#""text":"1 of 2""#);
    has(&transcript, "Long running operation completed");
    has(&transcript, r#""status":"failed""#);
    has(&at.say(&session, "/mcp").await, "`every` (");
    at.zed.call("session/close", json!({ "sessionId": session })).await;
}

#[actix::test]
async fn a_turn_uses_the_reference_server_over_stdio() {
    let script = everything();
    exercise(json!({ "name": "every", "command": "node", "args": [script, "stdio"] })).await;
}

#[actix::test]
async fn a_turn_uses_the_reference_server_over_streamable_http() {
    let script = everything();
    let served = Served::start(&script, "streamableHttp").await;
    exercise(json!({ "name": "every", "type": "http", "url": served.url("/mcp"), "headers": [] })).await;
}

#[actix::test]
async fn a_turn_uses_the_reference_server_over_the_older_stream_of_events() {
    let script = everything();
    let served = Served::start(&script, "sse").await;
    exercise(json!({ "name": "every", "type": "sse", "url": served.url("/sse"), "headers": [] })).await;
}

#[actix::test]
async fn prompts_resources_and_elicitations_of_the_reference_server_work() {
    let script = everything();
    let mut answers = calls(&[]);
    answers.extend(calls(&[]));
    answers.extend(calls(&[("mcp__every__trigger-elicitation-request", json!({}))]));
    let mut at = patient(answers).await;
    let session = at.open(json!([{ "name": "every", "command": "node", "args": [script, "stdio"] }])).await;
    let link = json!({ "type": "resource_link", "uri": "demo://resource/dynamic/text/1", "name": "first" });
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "look" }, link])).await;
    has(&at.finish(prompt).await, "<resource uri=\"demo://resource/dynamic/text/1\">");
    let transcript = at.say(&session, "/every:args-prompt Berlin").await;
    has(&transcript, "model  < ");
    has(&transcript, "Berlin");
    assert!(!transcript.contains("cannot be used"), "{transcript}");
    at.configure(&session, "approval", "never").await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "ask me" }])).await;
    let asked = at.zed.receive("elicitation/create").await;
    has(&asked["params"]["message"].to_string(), "every: ");
    at.zed.reply(&asked, json!({ "action": "accept", "content": { "name": "Ann" } })).await;
    has(&at.finish(prompt).await, "Ann");
}

const PYTHON_SERVER: &str = r#"
import os
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("snake")

@server.tool()
def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper() + " from " + os.getcwd()

server.run()
"#;

#[actix::test]
async fn a_turn_uses_a_server_in_python() {
    let python = installed("python/bin/python");
    let mut at = patient(calls(&[("mcp__snake__shout", json!({ "text": "hiss" }))])).await;
    fs::write(at.folder.path().join("server.py"), PYTHON_SERVER).unwrap();
    let session = at.open(json!([{ "name": "snake", "command": python, "args": ["server.py"] }])).await;
    has(&at.say(&session, "call it").await, "HISS from DIR");
}
