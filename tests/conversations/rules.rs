//! Rules of the configuration: which calls run, ask or are denied, whatever the session's settings.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::Step;

use crate::project::Project;

async fn ruled(rules: Value, answers: Vec<Vec<Step>>) -> Project {
    tokio::time::pause();
    let files = [(".env", "KEY=1\n"), ("a.txt", "a\n")];
    Project::new(json!({}), &files, answers, |settings| {
        settings.permissions = serde_json::from_value(rules).unwrap();
    })
    .await
}

fn call_then_done(tool: &str, input: Value) -> Vec<Vec<Step>> {
    vec![vec![Step::call(tool, input), Step::end()], vec![Step::text("Done."), Step::end()]]
}

#[actix::test]
async fn a_denied_call_does_not_run_and_asks_no_one() {
    let answers = call_then_done("read_file", json!({ "path": ".env" }));
    let mut at = ruled(json!({ "allow": ["read"], "deny": ["read(.env)"] }), answers).await;
    let prompt = at.zed.prompt(&at.session, "tell me the key").await;
    at.zed.answer(prompt).await;
    // The tool plans on its own thread, and therefore the order of messages to the model and to the
    // editor varies.
    let transcript = at.transcript();
    let (model, editor): (Vec<&str>, Vec<&str>) = transcript.lines().partition(|line| line.starts_with("model"));
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"tell me the key"}]}
        zed    < update {"sessionUpdate":"session_info_update","title":"tell me the key","updatedAt":"T"}
        zed    < update {"sessionUpdate":"tool_call","toolCallId":"#2","kind":"read","status":"pending","title":"Read .env","name":"read_file","locations":[{"path":"DIR/.env"}],"rawInput":{"path":".env"}}
        zed    < update {"sessionUpdate":"tool_call_update","toolCallId":"#2","kind":"read","status":"failed","content":[{"type":"content","content":{"type":"text","text":"Permission denied: a rule of the configuration forbids it."}}],"rawOutput":{"text":"Permission denied: a rule of the configuration forbids it."}}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."},"messageId":"#3"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#4"}}}
        model  < user: tell me the key
        model  < user: tell me the key | agent: [read_file] | results: Permission denied: a rule of the configuration forbids it.
    "##]].assert_eq(&format!("{}\n", [editor, model].concat().join("\n")));
}

#[actix::test]
async fn a_call_that_a_rule_allows_runs_without_a_question() {
    let rules = json!({ "project": [{ "folder": "/", "allow": ["edit(b.txt)"] }] });
    let mut at = ruled(rules, call_then_done("write_file", json!({ "path": "b.txt", "content": "b\n" }))).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("b.txt"), "b\n");
    assert!(!at.transcript().contains("session/request_permission"));
}

#[actix::test]
async fn the_rules_of_a_project_do_not_count_in_another() {
    let rules = json!({ "project": [{ "folder": "/elsewhere", "allow": ["edit(b.txt)"] }] });
    let mut at = ruled(rules, call_then_done("write_file", json!({ "path": "b.txt", "content": "b\n" }))).await;
    at.zed.prompt(&at.session, "write it").await;
    at.zed.receive("session/request_permission").await;
}

#[actix::test]
async fn a_rule_that_asks_overrides_a_permissive_approval_setting() {
    let answers = call_then_done("read_file", json!({ "path": "a.txt" }));
    let mut at = ruled(json!({ "ask": ["read(*.txt)"] }), answers).await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "read it").await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "allow_once").await;
    at.zed.answer(prompt).await;
    assert!(at.transcript().contains("results:      1\ta\n"));
}

#[actix::test]
async fn a_rule_that_asks_wins_over_what_was_always_allowed() {
    let write = |path: &str| vec![Step::call("write_file", json!({ "path": path, "content": "b\n" })), Step::end()];
    let answers = vec![write("b.txt"), write("c.txt"), write("secret.txt"), vec![Step::text("Done."), Step::end()]];
    let mut at = ruled(json!({ "ask": ["edit(secret.txt)"] }), answers).await;
    let prompt = at.zed.prompt(&at.session, "write them").await;
    let question = at.zed.receive("session/request_permission").await;
    assert_eq!(question["params"]["options"].as_array().unwrap().len(), 4);
    at.zed.choose(&question, "allow_always").await;
    let question = at.zed.receive("session/request_permission").await;
    assert!(question["params"]["toolCall"]["title"].as_str().unwrap().contains("secret.txt"), "{question}");
    // The rule asks again whatever the answer, so no permanent answer is offered.
    let offered: Vec<&Value> =
        question["params"]["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert_eq!(offered, [&json!("allow_once"), &json!("reject_once")]);
    at.zed.choose(&question, "reject_once").await;
    at.zed.answer(prompt).await;
    assert_eq!((at.text("b.txt"), at.text("c.txt")), ("b\n".to_owned(), "b\n".to_owned()));
    assert!(!at.folder.path().join("secret.txt").exists());
}

#[actix::test]
async fn ctl_shows_the_rules_of_a_project_before_its_first_call() {
    let at = ruled(json!({}), Vec::new()).await;
    std::fs::create_dir(at.folder.path().join(".acpd")).unwrap();
    let rules = "[permissions]\nask = [\"bash(git push)\"]\ndeny = [\"read(.env)\"]\n";
    std::fs::write(at.folder.path().join(".acpd/config.toml"), rules).unwrap();
    let mut ctl = at.scene.client("ctl");
    let card = ctl.call("_acpd/permissions", json!({ "sessionId": at.session })).await["result"].clone();
    assert_eq!(card["rules"], json!({ "allow": [], "ask": ["bash(git push)"], "deny": ["read(.env)"] }));
    let details = ctl.call("_acpd/session", json!({ "sessionId": at.session })).await;
    assert_eq!(details["result"]["permissions"], card);
}

#[actix::test]
async fn a_denied_file_in_a_prompt_is_withheld_and_reported() {
    let mut at = ruled(json!({ "deny": ["read(.env)"] }), vec![vec![Step::text("Done."), Step::end()]]).await;
    let uri = |name: &str| format!("file://{}/{name}", at.folder.path().display());
    let prompt = json!([
        { "type": "text", "text": "look" },
        { "type": "resource", "resource": { "uri": uri(".env"), "text": "KEY=1" } },
        { "type": "resource", "resource": { "uri": uri("a.txt"), "text": "contents of a" } },
    ]);
    at.zed.call("session/prompt", json!({ "sessionId": at.session, "prompt": prompt })).await;
    let transcript = at.transcript();
    let received = transcript.split("\nzed ").flat_map(|part| part.split("\nmodel")).nth(1).unwrap();
    assert!(!received.contains("KEY=1") && received.contains("contents of a"), "{received}");
    assert!(transcript.contains("DIR/.env was not sent to the model: a rule denies reading it."), "{transcript}");
}

#[actix::test]
async fn ctl_shows_what_a_session_remembers_and_what_the_rules_say() {
    let answers = call_then_done("write_file", json!({ "path": "b.txt", "content": "b\n" }));
    let mut at =
        ruled(json!({ "ask": ["bash"], "project": [{ "folder": "/", "deny": ["read(.env)"] }] }), answers).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "allow_always").await;
    at.zed.answer(prompt).await;
    at.transcript();
    let mut ctl = at.scene.client("ctl");
    ctl.call("_acpd/permissions", json!({ "sessionId": at.session })).await;
    ctl.call("_acpd/permissions", json!({ "sessionId": "nobody" })).await;
    expect![[r##"
        ctl    > 1 _acpd/permissions {"sessionId":"#1"}
        ctl    < 1 = {"mode":"full","approval":"ask","remembered":[{"allow":true,"what":"edits in DIR","grant":{"folder":"DIR"}}],"rules":{"allow":[],"ask":["bash"],"deny":["read(.env)"]}}
        ctl    > 2 _acpd/permissions {"sessionId":"nobody"}
        ctl    < 2 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
    "##]].assert_eq(&at.transcript());
}

#[actix::test]
async fn a_command_that_may_hide_a_denied_one_always_asks() {
    let answers = call_then_done("bash", json!({ "command": "$TOOL --version" }));
    let mut at = ruled(json!({ "allow": ["bash"], "deny": ["bash(rm)"] }), answers).await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "run it").await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "reject_once").await;
    at.zed.answer(prompt).await;
    assert!(at.transcript().contains("results: Permission denied: the user declined this call.\n"));
}

#[actix::test]
async fn questions_show_invisible_characters_escaped() {
    let command = "echo \u{202e}hidden\r; rm\u{a0}x\u{1b}[2K";
    let mut at = ruled(json!({}), call_then_done("bash", json!({ "command": command }))).await;
    at.zed.prompt(&at.session, "run it").await;
    let question = at.zed.receive("session/request_permission").await;
    let call = &question["params"]["toolCall"];
    let shown = "echo \\u{202e}hidden\\u{d}; rm\\u{a0}x\\u{1b}[2K";
    assert_eq!((&call["title"], &call["content"][0]["content"]["text"]), (&json!(shown), &json!(shown)));
    assert_eq!(call["rawInput"]["command"], command, "programs get what it is");
}

#[actix::test]
async fn a_long_command_is_shown_to_its_end() {
    let command = format!("set -e\n{}echo the end", "echo one more line of this script\n".repeat(500));
    let mut at = ruled(json!({}), call_then_done("bash", json!({ "command": command }))).await;
    at.zed.prompt(&at.session, "run it").await;
    let question = at.zed.receive("session/request_permission").await;
    let call = &question["params"]["toolCall"];
    assert_eq!((&call["title"], &call["content"][0]["content"]["text"]), (&json!("set -e …"), &json!(command)));
}

async fn always_for(command: &str) -> Value {
    let mut at = ruled(json!({}), call_then_done("bash", json!({ "command": command }))).await;
    at.zed.prompt(&at.session, "run it").await;
    let question = at.zed.receive("session/request_permission").await;
    question["params"]["options"][1].clone()
}

#[actix::test]
async fn always_covers_a_known_command_by_its_first_words() {
    let always = always_for("git status -s").await;
    assert_eq!(
        (&always["kind"], &always["name"]),
        (&json!("allow_always"), &json!("Always allow `git status` commands"))
    );
}

#[actix::test]
async fn always_covers_an_unknown_command_literally_and_the_option_says_so() {
    let always = always_for("npm run x").await;
    assert_eq!(
        (&always["kind"], &always["name"]),
        (&json!("allow_always"), &json!("Always allow exactly `npm run x`"))
    );
}

#[actix::test]
async fn a_rejected_write_leaves_the_file_and_the_model_receives_the_reason() {
    let answers = vec![
        vec![Step::call("read_file", json!({ "path": "a.txt" })), Step::end()],
        vec![Step::call("write_file", json!({ "path": "a.txt", "content": "b\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ];
    let mut at = ruled(json!({}), answers).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "reject_once").await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("a.txt"), "a\n");
    assert!(
        at.transcript().contains("| agent: [write_file] | results: Permission denied: the user declined this call.\n")
    );
}
