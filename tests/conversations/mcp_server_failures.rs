//! MCP servers that fail, hang or cannot be trusted do not affect anything else.

use std::fs;

use serde_json::json;
use testkit::Step;

use crate::mcp_fixture::{McpFixture, calls, ended, has, is_alive};

#[actix::test]
async fn an_mcp_server_that_hangs_delays_no_session_and_ends_on_close() {
    let mut at = McpFixture::new(vec![vec![Step::text("Hi."), Step::end()]]).await;
    let hanging = at.open(json!([at.server("slow", "hang")])).await;
    let other = at.open(json!([])).await;
    let waiting = at.prompt(&hanging, json!([{ "type": "text", "text": "hello" }])).await;
    at.marked("started").await;
    // The other session's prompt is answered while this one waits for its server.
    let transcript = at.say(&other, "hello").await;
    has(&transcript, "Hi.");
    assert!(!transcript.contains(&format!("< {waiting} = ")), "{transcript}");
    let pids = at.pids();
    assert!(pids.len() == 1 && is_alive(pids[0]));
    at.zed.call("session/close", json!({ "sessionId": hanging })).await;
    ended(pids[0]).await;
}

#[actix::test]
async fn a_prompt_goes_without_a_server_that_is_not_there_in_time() {
    let answers = vec![vec![Step::text("Hi."), Step::end()]];
    let mut at = McpFixture::with(json!({}), answers, |settings, _| settings.mcp.wait_seconds = 1).await;
    let session = at.open(json!([at.server("slow", "hang")])).await;
    let transcript = at.say(&session, "hello").await;
    has(&transcript, "The MCP server `slow` is still connecting; its tools follow once it is connected.");
    has(&transcript, "Hi.");
    has(&at.say(&session, "/mcp").await, "`slow`: connecting; stdio, from the editor");
}

#[actix::test]
async fn cancelling_cuts_the_wait_for_a_server_short() {
    let mut at = McpFixture::with(json!({}), vec![], |settings, _| settings.mcp.wait_seconds = 1000).await;
    let session = at.open(json!([at.server("slow", "hang")])).await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "hello" }])).await;
    at.marked("started").await;
    at.zed.notify("session/cancel", json!({ "sessionId": session })).await;
    let transcript = at.finish(prompt).await;
    has(&transcript, r#""stopReason":"cancelled""#);
    assert!(!transcript.contains("model "), "{transcript}");
}

#[actix::test]
async fn a_failing_mcp_server_causes_a_notice_and_a_log_line_only() {
    let mut at = McpFixture::new(vec![vec![Step::text("Hi."), Step::end()]]).await;
    let missing = json!({ "name": "missing", "command": "/no/such/program" });
    let bad = json!({ "name": "bad", "type": "http", "url": "http://127.0.0.1:1/mcp" });
    let session = at.open(json!([at.server("broken", "crash"), missing, bad])).await;
    at.wait_for_all(&[
        "The MCP server `broken` is not available: it ended with exit status 3: no such database.",
        "The MCP server `missing` is not available: starting /no/such/program: No such file or directory",
        "The MCP server `bad` is not available: ",
    ])
    .await;
    has(&at.say(&session, "hello").await, "Hi.");
    let transcript = at.say(&session, "/mcp").await;
    has(&transcript, "`broken`: failed: it ended with exit status 3: no such database; next try in");
    has(&transcript, "log: `no such database`");
}

#[actix::test]
async fn an_mcp_server_that_writes_nonsense_or_endlessly_is_given_up() {
    for (how, why) in [
        ("nonsense", "it writes only lines that are not messages"),
        ("endless", "it wrote a line of more than 16 MiB"),
        // It fails because it was disconnected; its exit status explains nothing.
        ("burst", "it wrote a line of more than 16 MiB"),
    ] {
        let mut at = McpFixture::new(vec![]).await;
        let session = at.open(json!([at.server("mad", how)])).await;
        at.wait_for(&format!("The MCP server `mad` is not available: {why}.")).await;
        ended(at.pids()[0]).await;
        at.zed.call("session/close", json!({ "sessionId": session })).await;
    }
}

#[actix::test]
async fn an_mcp_server_that_floods_requests_is_given_up_and_its_call_fails() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__flood", json!({}))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let transcript = at.say(&session, "call it").await;
    has(&transcript, "results: The connection to the server was lost; the call may or may not have had an effect.");
    let notice = "The MCP server `sh` is not available: it floods acpd with requests, and too many of them are open.";
    if !transcript.contains(notice) {
        at.wait_for(notice).await;
    }
    ended(at.pids()[0]).await;
}

#[actix::test]
async fn an_invalid_mcp_tool_is_reported_and_hides_no_other() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__echo", json!({ "text": "hi" }))])).await;
    let session = at.open(json!([at.server("sh", "odd")])).await;
    at.wait_for(
        "Some of what the MCP server `sh` offers cannot be used: the tool `bad` (missing field `inputSchema`), the tool",
    )
    .await;
    has(&at.say(&session, "call it").await, "echo: hi in DIR");
    has(&at.say(&session, "/mcp").await, "log: `[left out: the tool 'bad' (missing field 'inputSchema')]`");
}

#[actix::test]
async fn an_mcp_server_that_dies_fails_its_call_and_is_restarted() {
    let mut answers = calls(&[("mcp__sh__leave", json!({}))]);
    answers.extend(calls(&[("mcp__sh__echo", json!({ "text": "back" }))]));
    let mut at = McpFixture::new(answers).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let transcript = at.say(&session, "call it").await;
    has(&transcript, "results: The connection to the server was lost; the call may or may not have had an effect.");
    let back = "The MCP server `sh` is available again.";
    // The server may be back before the turn has ended.
    if !transcript.contains(back) {
        at.wait_for(back).await;
    }
    has(&at.say(&session, "call it").await, "echo: back in DIR");
    assert_eq!(at.pids().len(), 2);
}

#[actix::test]
async fn a_projects_servers_run_only_where_the_user_trusts_it() {
    let project = json!({ "mcpServers": {
        "own": { "command": "sh", "args": ["server.sh", "${HOW:-well}"], "env": { "SECRET": "${TOLD:-the project's}" } },
        "unset": { "command": "sh", "args": ["${NO_SUCH_VARIABLE}"] },
    } });
    for trusted in [false, true] {
        let answers = calls(&[("mcp__own__echo", json!({ "text": "hi" }))]);
        let mut at = McpFixture::with(json!({}), answers, |settings, folder| {
            fs::write(folder.join(".mcp.json"), project.to_string()).unwrap();
            settings.mcp.trusted_projects.extend(trusted.then(|| folder.to_owned()));
        })
        .await;
        let session = at.open(json!([])).await;
        let transcript = at.say(&session, "call it").await;
        assert_eq!(transcript.contains("echo: hi in DIR with the project's"), trusted, "{transcript}");
        assert_eq!(at.pids().len(), usize::from(trusted));
        let transcript = at.say(&session, "/mcp").await;
        if trusted {
            has(&transcript, "`own` (shell 1): ready; stdio, from the project");
            has(&transcript, "`unset`: off: the variable NO_SUCH_VARIABLE is not set");
        } else {
            has(
                &transcript,
                "`own`: off: DIR is not trusted; to run what its .mcp.json names, add it to `trusted_projects`",
            );
        }
    }
}

#[actix::test]
async fn configured_mcp_servers_exist_and_an_editors_own_take_precedence() {
    let mut answers = calls(&[("mcp__mine__echo", json!({ "text": "a" }))]);
    answers.extend(calls(&[("mcp__mine__echo", json!({ "text": "b" }))]));
    let mut at = McpFixture::with(json!({}), answers, |settings, _| {
        let servers = json!({
            "mine": { "command": "sh", "args": ["server.sh", "well"], "env": { "SECRET": "the user's" } },
            "off": { "command": "sh", "enabled": false },
        });
        settings.mcp.servers = serde_json::from_value(servers).unwrap();
    })
    .await;
    let session = at.open(json!([])).await;
    has(&at.say(&session, "call it").await, "echo: a in DIR with the user's");
    has(&at.say(&session, "/mcp").await, "`off`: off: it is disabled; stdio, from the configuration");
    let session = at.open(json!([at.server("mine", "well")])).await;
    has(&at.say(&session, "call it").await, "echo: b in DIR with a secret");
    has(&at.say(&session, "/mcp").await, "`mine`: off: another server of this session has its name");
}

#[actix::test]
async fn the_latest_load_chooses_the_mcp_servers_unless_it_names_none() {
    let answers = [("mcp__sh__echo", "a"), ("mcp__sh__echo", "b"), ("mcp__new__echo", "c")];
    let answers = answers.iter().flat_map(|(tool, text)| calls(&[(tool, json!({ "text": text }))])).collect();
    let mut at = McpFixture::new(answers).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    has(&at.say(&session, "call it").await, "echo: a in DIR");
    at.zed.call("session/load", json!({ "sessionId": session, "cwd": at.folder.path() })).await;
    has(&at.say(&session, "call it").await, "echo: b in DIR");
    let servers = json!([at.server("new", "well")]);
    at.zed.call("session/load", json!({ "sessionId": session, "cwd": at.folder.path(), "mcpServers": servers })).await;
    has(&at.say(&session, "call it").await, "echo: c in DIR");
    let transcript = at.say(&session, "/mcp").await;
    assert!(transcript.contains("`new` (shell 1): ready") && !transcript.contains("`sh`"), "{transcript}");
    assert_eq!(at.pids().len(), 1, "the same program under another name is the same server");
}
