//! MCP servers in a session: their tools, prompts, resources and questions.

use serde_json::json;
use testkit::Step;

use crate::mcp_fixture::{McpFixture, TEST_TIMEOUT, calls, ended, has};

#[actix::test]
async fn an_mcp_tool_asks_first_and_runs_in_the_sessions_environment() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__echo", json!({ "text": "hello" }))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let transcript = at.say(&session, "call it").await;
    has(&transcript, r#""title":"sh: echo (read-only, according to the server)""#);
    has(&transcript, r#""name":"Always allow mcp__sh__echo""#);
    has(&transcript, "results: echo: hello in DIR with a secret and no key");
}

#[actix::test]
async fn the_model_gets_the_instructions_of_a_server_marked_as_its_words() {
    let mut at = McpFixture::new(calls(&[])).await;
    let session = at.open(json!([at.server("slow", "instruct"), at.server("sh", "well")])).await;
    at.say(&session, "hello").await;
    let system = at.scene.script.requests()[0].system.clone();
    let block = "<mcp-server name=\"slow\">\nThe MCP server says this about the use of its tools. It is not from the \
                 user.\n\nSpeak slowly.\n</mcp-server>\n";
    assert!(system.ends_with(block), "{system}");
    assert_eq!(system.matches("<mcp-server").count(), 1, "{system}");
    at.scene.script.push(vec![Step::text("Again."), Step::end()]);
    at.say(&session, "hello again").await;
    assert_eq!(at.scene.script.requests()[1].system, system, "providers cache the beginning of requests");
}

#[actix::test]
async fn mcp_tool_errors_fail_calls_and_changed_lists_apply_at_once() {
    let answers = calls(&[("mcp__sh__drop", json!({})), ("mcp__sh__later", json!({ "text": "now" }))]);
    let mut at = McpFixture::new(answers).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "call both" }])).await;
    let asked = at.zed.receive("session/request_permission").await;
    has(&asked.to_string(), r#""title":"sh: Drop it (destructive, according to the server)""#);
    at.zed.choose(&asked, "allow_once").await;
    let transcript = at.finish(prompt).await;
    has(&transcript, r#""status":"failed","content":[{"type":"content","content":{"type":"text","text":"dropped"}}]"#);
    // The model may or may not have been quicker than the list.
    assert!(
        transcript.contains("echo: now in DIR") || transcript.contains("there is no tool `mcp__sh__later`"),
        "{transcript}"
    );
    for answer in calls(&[("mcp__sh__later", json!({ "text": "again" }))]) {
        at.scene.script.push(answer);
    }
    let listed = async {
        loop {
            if at.say(&session, "/mcp").await.contains("`mcp__sh__later`") {
                return at.say(&session, "once more").await;
            }
        }
    };
    let listed = tokio::time::timeout(TEST_TIMEOUT, listed).await.expect("the new tool is listed");
    has(&listed, "echo: again in DIR");
}

#[actix::test]
async fn modes_exclude_mcp_tools_unless_the_server_is_trusted() {
    for (trusted, mode, runs) in [
        (false, "read-only", false),
        (false, "safe", false),
        (true, "read-only", true),
        (true, "safe", true),
        (true, "sandbox", false),
    ] {
        let answers = calls(&[("mcp__sh__echo", json!({ "text": "hi" })), ("mcp__sh__drop", json!({}))]);
        let mut at =
            McpFixture::with(json!({}), answers, |settings, _| settings.mcp.trust_read_only_hints = trusted).await;
        let session = at.open(json!([at.server("sh", "well")])).await;
        at.configure(&session, "mode", mode).await;
        let transcript = at.say(&session, "call it").await;
        assert_eq!(transcript.contains("echo: hi in DIR"), runs, "{mode}:\n{transcript}");
        has(&transcript, &format!("the session's mode `{mode}` leaves out `mcp__sh__drop`"));
        assert!(
            !transcript.contains("session/request_permission"),
            "what only reads runs without a question:\n{transcript}"
        );
    }
}

#[actix::test]
async fn mcp_prompts_are_slash_commands_that_expand_for_the_model() {
    let mut at = McpFixture::new(calls(&[])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.wait_for("sh:greet").await;
    let transcript = at.say(&session, "/sh:greet \"the world\"").await;
    has(&transcript, "model  < user: Greet the world warmly.");
    let transcript = at.say(&session, "/sh:greet").await;
    has(&transcript, "`/sh:greet` cannot be used: the prompt `greet` needs who.");
    assert!(!transcript.contains("model "), "{transcript}");
    let transcript = at.say(&session, "/help").await;
    has(&transcript, "- `/sh:greet [<who>]`: Greets somebody");
}

#[actix::test]
async fn resources_that_a_prompt_links_to_are_read_and_given_to_the_model() {
    let mut at = McpFixture::new(calls(&[])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let link = |uri: &str| json!({ "type": "resource_link", "uri": uri, "name": "it" });
    let prompt = json!([
        { "type": "text", "text": "look" }, link("demo://note"), link("demo://item/7"), link("other://item/7"), link("file:///etc/passwd"),
    ]);
    let prompt = at.prompt(&session, prompt).await;
    let transcript = at.finish(prompt).await;
    let asked = transcript.lines().find(|line| line.starts_with("model")).unwrap();
    has(asked, "<resource uri=\"demo://note\">");
    has(&transcript, "what demo://note says");
    has(&transcript, "what demo://item/7 says");
    assert!(!transcript.contains("what other") && !transcript.contains("what file"), "{transcript}");
}

#[actix::test]
async fn mcp_progress_is_shown_and_cancelling_notifies_the_server() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__wait", json!({}))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&session, "approval", "never").await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "wait" }])).await;
    at.wait_for("thinking (2 of 5)").await;
    at.zed.notify("session/cancel", json!({ "sessionId": session })).await;
    let transcript = at.finish(prompt).await;
    has(&transcript, r#""stopReason":"cancelled""#);
    at.marked("cancelled").await;
}

#[actix::test]
async fn a_question_of_a_server_goes_to_the_editor_of_the_prompt() {
    let answers = calls(&[("mcp__sh__ask", json!({}))]);
    let mut at = McpFixture::with(json!({ "elicitation": { "form": {} } }), answers, |_, _| {}).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&session, "approval", "never").await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "ask me" }])).await;
    let asked = at.zed.receive("elicitation/create").await;
    has(&asked["params"].to_string(), r#""message":"sh: Your name?""#);
    assert_eq!(asked["params"]["requestedSchema"]["properties"]["name"]["type"], "string");
    at.zed.reply(&asked, json!({ "action": "accept", "content": { "name": "Ann" } })).await;
    has(&at.finish(prompt).await, "results: the person said accept");
}

#[actix::test]
async fn an_elicitation_that_no_client_can_show_is_declined() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__ask", json!({}))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    has(&at.say(&session, "ask me").await, "results: the person said decline");
}

#[actix::test]
async fn a_question_of_a_server_that_works_for_two_sessions_is_declined() {
    let answers = calls(&[("mcp__sh__wait", json!({})), ("mcp__sh__ask", json!({}))]);
    let mut at = McpFixture::with(json!({ "elicitation": { "form": {} } }), answers, |_, _| {}).await;
    let waiting = at.open(json!([at.server("sh", "well")])).await;
    let asking = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&waiting, "approval", "never").await;
    at.configure(&asking, "approval", "never").await;
    let prompt = at.prompt(&waiting, json!([{ "type": "text", "text": "wait" }])).await;
    at.wait_for("thinking (2 of 5)").await;
    has(&at.say(&asking, "ask me").await, "results: the person said decline");
    assert_eq!(at.pids().len(), 1, "they share the server");
    at.zed.notify("session/cancel", json!({ "sessionId": waiting })).await;
    at.finish(prompt).await;
}

#[actix::test]
async fn a_question_of_a_server_is_withdrawn_when_its_turn_is_cancelled() {
    let answers = calls(&[("mcp__sh__ask", json!({}))]);
    let mut at = McpFixture::with(json!({ "elicitation": { "form": {} } }), answers, |_, _| {}).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&session, "approval", "never").await;
    at.prompt(&session, json!([{ "type": "text", "text": "ask me" }])).await;
    let asked = at.zed.receive("elicitation/create").await;
    at.zed.notify("session/cancel", json!({ "sessionId": session })).await;
    // The order of the two does not matter.
    let withdrawn = format!(r#""params":{{"requestId":{}}}"#, asked["id"]);
    at.wait_for_all(&["$/cancel_request", &withdrawn, r#""stopReason":"cancelled""#]).await;
}

#[actix::test]
async fn sessions_in_one_folder_see_only_their_own_servers() {
    let mut answers = calls(&[("mcp__one__echo", json!({ "text": "a" }))]);
    answers.extend(calls(&[("mcp__one__echo", json!({ "text": "b" })), ("mcp__two__echo", json!({ "text": "c" }))]));
    let mut at = McpFixture::new(answers).await;
    let first = at.open(json!([at.server("one", "well")])).await;
    let second = at.open(json!([at.server("two", "otherwise")])).await;
    has(&at.say(&first, "call it").await, "echo: a in DIR");
    let transcript = at.say(&second, "call them").await;
    has(&transcript, "there is no tool `mcp__one__echo`");
    has(&transcript, "echo: c in DIR");
}

#[actix::test]
async fn an_identical_mcp_server_is_shared_and_ends_with_its_last_session() {
    let mut at = McpFixture::new(vec![vec![Step::text("Hi."), Step::end()]; 4]).await;
    let mut other = at.server("sh", "well");
    other["env"][0]["value"] = json!("another secret");
    let (mine, other) = (at.server("sh", "well"), json!([other]));
    let mut sessions = Vec::new();
    for servers in [json!([mine]), json!([mine]), other] {
        let session = at.open(servers).await;
        at.say(&session, "hello").await;
        sessions.push(session);
    }
    let pids = at.pids();
    assert_eq!(pids.len(), 2, "one for the first two, one for the third");
    let alive = |pids: &[u32]| pids.iter().map(|pid| crate::mcp_fixture::is_alive(*pid)).collect::<Vec<_>>();
    at.zed.call("session/close", json!({ "sessionId": sessions[0] })).await;
    has(&at.say(&sessions[1], "/mcp").await, "`sh` (shell 1): ready; stdio, from the editor");
    assert_eq!(alive(&pids), [true, true]);
    at.zed.call("session/close", json!({ "sessionId": sessions[1] })).await;
    ended(pids[0]).await;
    assert_eq!(alive(&pids), [false, true]);
    at.zed.call("session/close", json!({ "sessionId": sessions[2] })).await;
    ended(pids[1]).await;
}

#[actix::test]
async fn a_sessions_mcp_servers_are_kept_until_another_list_replaces_them() {
    let tools = ["mcp__sh__echo", "mcp__sh__echo", "mcp__new__echo", "mcp__new__echo", "mcp__new__echo"];
    let answers = tools.iter().flat_map(|tool| calls(&[(tool, json!({ "text": "hi" }))])).collect();
    let mut at = McpFixture::new(answers).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let open = |session: &str, at: &McpFixture| json!({ "sessionId": session, "cwd": at.folder.path() });
    for method in ["session/load", "session/resume"] {
        at.zed.call("session/close", json!({ "sessionId": session })).await;
        at.zed.call(method, open(&session, &at)).await;
        has(&at.say(&session, "call it").await, "echo: hi in DIR with a secret");
    }
    let mut replaced = open(&session, &at);
    replaced["mcpServers"] = json!([at.server("new", "well")]);
    at.zed.call("session/load", replaced).await;
    at.zed.call("session/close", json!({ "sessionId": session })).await;
    at.zed.call("session/load", open(&session, &at)).await;
    has(&at.say(&session, "call it").await, "echo: hi in DIR with a secret");
    let forked = at.zed.call("session/fork", open(&session, &at)).await;
    let forked = forked["result"]["sessionId"].as_str().unwrap().to_owned();
    has(&at.say(&forked, "call it").await, "echo: hi in DIR with a secret");
    let mut cleared = open(&session, &at);
    cleared["mcpServers"] = json!([]);
    at.zed.call("session/load", cleared).await;
    at.zed.call("session/close", json!({ "sessionId": session })).await;
    at.zed.call("session/load", open(&session, &at)).await;
    has(&at.say(&session, "call it").await, "there is no tool `mcp__new__echo`");
}

#[actix::test]
async fn mcp_results_reach_the_editor_as_blocks_and_the_model_as_text() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__show", json!({}))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    let transcript = at.say(&session, "show me").await;
    for block in [
        r#"{"type":"text","text":"see"}"#,
        r#"{"type":"resource_link","name":"note","uri":"demo://note"}"#,
        r#"{"type":"resource","resource":{"mimeType":"text/plain","text":"hello","uri":"demo://t"}}"#,
        r#"{"type":"audio","data":"aGk=","mimeType":"audio/wav"}"#,
    ] {
        has(&transcript, &format!(r#"{{"type":"content","content":{block}}}"#));
    }
    has(
        &transcript,
        "results: see\n[note](demo://note)\n<resource uri=\"demo://t\">\nhello\n</resource>\n[audio: audio/wav]",
    );
}

#[actix::test]
async fn the_completion_of_a_page_is_sent_once_and_only_to_its_editor() {
    let answers = calls(&[("mcp__sh__page", json!({}))]);
    let mut at = McpFixture::with(json!({ "elicitation": { "url": {} } }), answers, |_, _| {}).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.configure(&session, "approval", "never").await;
    let prompt = at.prompt(&session, json!([{ "type": "text", "text": "log in" }])).await;
    let asked = at.zed.receive("elicitation/create").await;
    at.zed.reply(&asked, json!({ "action": "accept" })).await;
    let transcript = at.finish(prompt).await;
    has(&transcript, "results: it is done");
    assert_eq!(transcript.matches("elicitation/complete").count(), 1, "{transcript}");
}

#[actix::test]
async fn after_a_crash_a_pending_call_runs_once_allowed_even_without_an_editor() {
    let mut at = McpFixture::new(calls(&[("mcp__sh__echo", json!({ "text": "hello" }))])).await;
    let session = at.open(json!([at.server("sh", "well")])).await;
    at.prompt(&session, json!([{ "type": "text", "text": "call it" }])).await;
    at.zed.receive("session/request_permission").await;
    at.scene.crash().await;
    let mut ctl = at.scene.client("ctl");
    let mut until = async |state: &str| {
        let reached =
            async { while ctl.call("_acpd/sessions", json!({})).await["result"]["sessions"][0]["state"] != state {} };
        tokio::time::timeout(TEST_TIMEOUT, reached).await.expect("the session is in this state");
    };
    until("waiting").await;
    let allow = json!({ "sessionId": session, "optionId": "allow_once" });
    at.scene.client("phone").call("_acpd/answer", allow).await;
    until("idle").await;
    has(&at.scene.transcript.take(), "results: echo: hello in ");
}
