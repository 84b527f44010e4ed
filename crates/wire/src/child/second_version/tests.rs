//! Tests of the translation for children of version 2.

use super::*;

fn update(update: Value) -> Value {
    notification(&json!("s"), &update)
}

/// The updates of version 1 that an update of version 2 becomes.
fn updates(child: &mut SecondVersion, of: Value) -> Vec<Value> {
    let messages = child.translate_from_child(update(of));
    messages.into_iter().map(|mut message| message["params"]["update"].take()).collect()
}

fn state(child: &mut SecondVersion, mut state: Value) -> Vec<Value> {
    state["sessionUpdate"] = json!("state_update");
    child.translate_from_child(update(state))
}

fn prompted() -> SecondVersion {
    let mut child = SecondVersion::default();
    prompt(&mut child);
    child
}

fn prompt(child: &mut SecondVersion) {
    child.translate_to_child(json!({ "jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {} }));
}

fn inserted(child: &mut SecondVersion) -> Vec<Value> {
    child.translate_from_child(json!({ "jsonrpc": "2.0", "id": 7, "result": { "messageId": "u" } }))
}

fn ended(reason: &str) -> [Value; 1] {
    [json!({ "jsonrpc": "2.0", "id": 7, "result": { "stopReason": reason } })]
}

const NOTHING: [Value; 0] = [];

#[test]
fn a_prompt_of_version_2_ends_when_the_child_is_idle_after_working_on_it() {
    let mut child = prompted();
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" })), NOTHING, "an earlier one's");
    assert_eq!(inserted(&mut child), NOTHING);
    assert_eq!(state(&mut child, json!({ "state": "idle" })), NOTHING, "nothing has ended");
    assert_eq!(state(&mut child, json!({ "state": "running" })), NOTHING);
    assert_eq!(state(&mut child, json!({ "state": "requires_action" })), NOTHING);
    assert_eq!(state(&mut child, json!({ "state": "_thinking" })), NOTHING);
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "max_tokens" })), ended("max_tokens"));
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" })), NOTHING, "it is repeated");

    // A child may answer the prompt late.
    let mut child = prompted();
    state(&mut child, json!({ "state": "running" }));
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" })), NOTHING);
    assert_eq!(inserted(&mut child), ended("end_turn"));
}

#[test]
fn work_that_a_child_of_version_2_began_by_itself_does_not_end_a_prompt() {
    let mut child = SecondVersion::default();
    state(&mut child, json!({ "state": "running" }));
    prompt(&mut child);
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" })), NOTHING);
    assert_eq!(inserted(&mut child), NOTHING);
    state(&mut child, json!({ "state": "running" }));
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" })), ended("end_turn"));

    // The child takes the prompt up in the work that it does.
    state(&mut child, json!({ "state": "running" }));
    prompt(&mut child);
    assert_eq!(inserted(&mut child), NOTHING);
    assert_eq!(state(&mut child, json!({ "state": "idle" }))[0]["result"], json!({ "stopReason": null }));
}

#[test]
fn a_prompt_of_version_2_can_fail_or_be_cancelled_before_and_after_it_is_inserted() {
    let error = json!({ "code": -32000, "message": "log in" });
    let failed = [json!({ "jsonrpc": "2.0", "id": 7, "error": error })];
    let mut child = prompted();
    inserted(&mut child);
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "error", "error": error })), failed);
    assert_eq!(prompted().translate_from_child(failed[0].clone()), failed);
    let mut child = prompted();
    inserted(&mut child);
    assert_eq!(state(&mut child, json!({ "state": "idle", "stopReason": "cancelled" })), ended("cancelled"));
    let cancelled = json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": -32800, "message": "cancelled" } });
    assert_eq!(prompted().translate_from_child(cancelled), ended("cancelled"));
}

#[test]
fn only_the_new_part_of_a_replaced_message_is_reported() {
    let mut child = prompted();
    let text = |text: &str| json!({ "type": "text", "text": text });
    let chunk = |id: &str, said: &str| json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": text(said) });
    let whole = |said: &str| json!({ "sessionUpdate": "agent_message", "messageId": "a", "content": [text(said)] });
    assert_eq!(updates(&mut child, chunk("a", "Hel")), [chunk("a", "Hel")]);
    assert_eq!(updates(&mut child, whole("Hello")), [chunk("a", "lo")]);
    assert_eq!(updates(&mut child, whole("Hello")), NOTHING);
    assert_eq!(updates(&mut child, chunk("a", "!")), [chunk("a", "!")]);
    let replaced = updates(&mut child, whole("Good day"));
    assert_eq!(replaced[0]["content"], text("Good day"));
    assert_ne!(replaced[0]["messageId"], "a", "it is another message");
    assert_eq!(updates(&mut child, whole("Good day.")), [chunk("a", ".")]);
    assert_eq!(updates(&mut child, json!({ "sessionUpdate": "agent_message", "messageId": "a" })), NOTHING);
    let thought = json!({ "sessionUpdate": "agent_thought", "messageId": "b", "content": [text("Hm")] });
    assert_eq!(updates(&mut child, thought)[0]["sessionUpdate"], "agent_thought_chunk");
}

fn piece(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

#[test]
fn a_call_of_version_2_is_announced_once_and_growing_content_is_reported_when_it_has_doubled() {
    let mut child = prompted();
    let call = |fields: Value| {
        let mut call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t" });
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        call
    };
    let announced = updates(&mut child, call(json!({ "name": "edit", "status": "paused" })));
    assert_eq!(announced[0]["sessionUpdate"], "tool_call");
    assert_eq!((&announced[0]["title"], &announced[0]["status"]), (&json!("edit"), &json!("in_progress")));
    let mut reports = 0;
    let mut last = Value::Null;
    for _ in 0..100 {
        let chunk = json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": piece("x") });
        for update in updates(&mut child, chunk) {
            reports += 1;
            last = update;
        }
    }
    assert_eq!((reports, last["content"].as_array().unwrap().len()), (7, 64), "1, 2, 4 .. 64");
    let more = updates(&mut child, call(json!({ "title": "Edit a" })));
    assert_eq!((&more[0]["sessionUpdate"], &more[0]["title"]), (&json!("tool_call_update"), &json!("Edit a")));
    assert_eq!(more[0]["content"].as_array().unwrap().len(), 100);
    assert!(updates(&mut child, call(json!({ "title": "Edit b" })))[0].get("content").is_none());
    let ended = updates(&mut child, call(json!({ "status": "cancelled", "content": null })));
    assert_eq!((&ended[0]["status"], &ended[0]["content"]), (&json!("failed"), &json!([])));
}

#[test]
fn content_that_has_grown_is_reported_at_the_latest_when_the_prompt_ends() {
    let mut child = prompted();
    inserted(&mut child);
    for _ in 0..3 {
        let chunk = json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": piece("x") });
        updates(&mut child, chunk);
    }
    let end = state(&mut child, json!({ "state": "idle", "stopReason": "end_turn" }));
    assert_eq!(end[0]["params"]["update"]["content"].as_array().unwrap().len(), 3);
    assert_eq!(end[1..], ended("end_turn"));
}

#[test]
fn a_diff_of_version_2_is_a_patch_whose_files_are_locations() {
    let mut child = prompted();
    let changes = json!([{ "operation": "move", "oldPath": "/w/.env", "path": "/w/b" }]);
    let patch = json!({ "format": "git_patch", "text": "+a\n" });
    let content =
        json!([{ "type": "diff", "changes": changes, "patch": patch }, { "type": "diff", "changes": changes }]);
    let call = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content, "locations": [{ "path": "/w/b" }],
    });
    let call = updates(&mut child, call)[0].clone();
    assert_eq!(call["content"], json!([piece("```diff\n+a\n```"), piece("move /w/b")]));
    assert_eq!(call["locations"], json!([{ "path": "/w/b" }, { "path": "/w/.env" }]));
}

#[test]
fn the_output_of_a_terminal_of_version_2_is_content_of_its_call() {
    let mut child = prompted();
    let terminal = |fields: Value| {
        let mut update = json!({ "sessionUpdate": "terminal_update", "terminalId": "x" });
        update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update
    };
    let output = |text: &str| {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(text);
        json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": data })
    };
    assert_eq!(updates(&mut child, terminal(json!({ "command": "make" }))), NOTHING);
    let content = json!([{ "type": "terminal", "terminalId": "x" }]);
    updates(&mut child, json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "content": content }));
    assert_eq!(updates(&mut child, output("one\n")), NOTHING, "it has not doubled");
    updates(&mut child, output("``` two\n"));
    let end = updates(&mut child, terminal(json!({ "exitStatus": { "exitCode": 2 } })));
    assert_eq!(end[0]["content"], json!([piece("````\n$ make\none\n``` two\n````\n\nexit status 2")]));
}

fn question(child: &mut SecondVersion, id: u64, subject: Value) -> Value {
    let options = json!([
        { "optionId": "y", "name": "Yes", "kind": "allow_once" },
        { "optionId": "z", "name": "Ask my boss", "kind": "_escalate" },
    ]);
    let params = json!({
        "sessionId": "s", "title": "Run make?", "description": "To build.", "subject": subject, "options": options,
    });
    let asked =
        child.translate_from_child(json!({ "id": id, "method": "session/request_permission", "params": params }));
    asked.last().unwrap()["params"].clone()
}

#[test]
fn the_subject_of_a_question_of_version_2_is_a_call() {
    let mut child = prompted();
    let command = json!({ "type": "command", "command": "make", "cwd": "/w" });
    let asked = question(&mut child, 70, command);
    let call = &asked["toolCall"];
    assert_eq!((&call["title"], &call["kind"]), (&json!("Run make?"), &json!("execute")));
    assert_eq!((&call["rawInput"]["command"], &call["content"]), (&json!("make"), &json!([piece("To build.")])));
    assert_eq!(asked["options"].as_array().unwrap().len(), 1, "a kind that is not known is left out");

    // The call that stands for the command is over when the question is.
    child.translate_to_child(json!({ "jsonrpc": "2.0", "id": 70, "result": {} }));
    let after = child.translate_from_child(update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 })));
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": "completed" });
    assert_eq!(after[0], update(done));
    assert_eq!(after.len(), 2);

    let call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Make", "kind": "execute" });
    updates(&mut child, call);
    let known = question(&mut child, 71, json!({ "type": "tool_call", "toolCall": { "toolCallId": "t" } }));
    assert_eq!(known["toolCall"]["toolCallId"], "t");
    assert!(known["toolCall"].get("title").is_none_or(Value::is_null), "the call keeps its title: {known}");
    let other = question(&mut child, 72, json!({ "type": "_deploy", "to": "mars" }));
    assert_eq!(other["toolCall"]["rawInput"]["to"], "mars");
    assert_eq!(question(&mut child, 73, Value::Null)["toolCall"]["title"], "Run make?");
}

#[test]
fn options_and_commands_of_version_2_have_the_names_of_version_1() {
    let mut child = SecondVersion::default();
    let commands = json!([
        { "type": "command", "name": "plan", "description": "", "input": { "type": "text", "hint": "what" } },
        { "type": "_x", "name": "y" },
        { "type": "command", "name": "z", "description": "", "input": { "type": "_form" } },
    ]);
    let opened = json!({ "configOptions": [{ "configId": "model" }], "availableCommands": commands });
    child.translate_to_child(json!({ "id": 1, "method": "session/resume", "params": { "sessionId": "s" } }));
    let opened = child.translate_from_child(json!({ "id": 1, "result": opened }));
    let offer = super::super::read_offer(&opened[0]["result"]);
    assert_eq!(offer.options, Some(json!([{ "id": "model" }])));
    assert_eq!(opened[1]["params"]["sessionId"], "s");
    let plan = json!({ "name": "plan", "description": "", "input": { "hint": "what" } });
    let commands = json!([plan, { "name": "z", "description": "" }]);
    assert_eq!(opened[1]["params"]["update"]["availableCommands"], commands);
    let changed = json!({ "sessionUpdate": "config_option_update", "configOptions": [{ "configId": "model" }] });
    assert_eq!(updates(&mut child, changed)[0]["configOptions"], json!([{ "id": "model" }]));

    let set = |params: Value| json!({ "id": 2, "method": "session/set_config_option", "params": params });
    let mut sent = |params: Value| child.translate_to_child(set(params))["params"]["type"].clone();
    assert_eq!(sent(json!({ "configId": "model", "value": "a" })), "id");
    assert_eq!(sent(json!({ "configId": "fast", "type": "boolean", "value": true })), "boolean");
    let servers = json!([{ "name": "a", "command": "/a" }, { "type": "http", "name": "b", "url": "http://b" }]);
    let new = json!({ "id": 3, "method": "session/new", "params": { "mcpServers": servers } });
    let new = child.translate_to_child(new);
    assert_eq!(new["params"]["mcpServers"][0]["type"], "stdio");
    assert_eq!(new["params"]["mcpServers"][1]["type"], "http");
}

#[test]
fn plans_and_notices_are_translated_and_other_updates_of_version_2_stay() {
    let mut child = prompted();
    let entries = json!([{ "content": "Look", "priority": "high", "status": "pending" }]);
    let plan = json!({ "type": "items", "planId": "p", "entries": entries });
    let plan = updates(&mut child, json!({ "sessionUpdate": "plan_update", "plan": plan }));
    assert_eq!(plan, [json!({ "sessionUpdate": "plan", "entries": entries })]);
    let notice = json!({ "sessionUpdate": "notice", "severity": "info", "title": "Slow", "description": "Wait." });
    assert_eq!(updates(&mut child, notice)[0]["content"]["text"], "Slow\nWait.");
    let compaction = json!({ "sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed" });
    for other in [compaction, json!({ "sessionUpdate": "_weather", "sky": "blue" })] {
        assert_eq!(updates(&mut child, other.clone()), [other]);
    }
}
