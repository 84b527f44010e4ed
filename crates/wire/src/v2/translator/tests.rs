//! Tests of one session's log as clients of version 2 see it, compared with what version 1 makes of
//! it.

mod attaching;
mod story;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::Version;
use domain::permission::{Access, Grant};
use domain::turn::FailureKind;
use domain::{
    Approval, Decision, ExtraSet, Millis, Mode, ModelId, Outcome, Payload, PlanEntry, ToolContent, ToolKind,
    TurnFailure, Usage,
};
use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::request::ClientCapabilities;
use crate::rpc::RpcError;

fn attach(head: u64) -> TranslatorStart {
    TranslatorStart {
        session: "s".into(),
        cwd: "/w".into(),
        next: 1,
        turn: None,
        background: BTreeMap::new(),
        viewer: Viewer {
            connection: "c".into(),
            bridge: None,
            with_positions: false,
            capabilities: ClientCapabilities { notices: true, compaction: true, ..ClientCapabilities::default() },
            extras: ExtraSet::ALL,
        },
        session_options: SessionOptions {
            models: Vec::new(),
            mode: Mode::Full,
            approval: Approval::Ask,
            model: ModelId::from("echo"),
            thought: Default::default(),
            agent: None,
            hosted: None,
            switches: true,
            extras: ExtraSet::ALL,
        },
        head,
        own_from: head + 1,
        open_calls: Vec::new(),
        delegated: BTreeMap::new(),
        open_questions: Vec::new(),
    }
}

fn log(kinds: Vec<EventKind>) -> Vec<Event> {
    let event = |(kind, number)| Event { life: 1, number, at: Millis(1_735_689_600_000), kind };
    kinds.into_iter().zip(1..).map(event).collect()
}

fn started() -> EventKind {
    let origin = PromptOrigin { connection: "c".into(), bridge: None, request: "1".to_owned() };
    EventKind::TurnStarted { turn: "t".into(), origin }
}

fn user(message: &str, text: &str) -> EventKind {
    let content = vec![Content { payload: Payload::Text { text: text.to_owned() }, metadata: Default::default() }];
    serde_json::from_value(json!({
        "event": "user_message", "turn": "t", "message": message, "content": content,
    }))
    .unwrap()
}

fn ended(reason: StopReason) -> EventKind {
    serde_json::from_value(json!({
        "event": "turn_ended", "turn": "t", "reason": reason, "usage": Usage::default(),
    }))
    .unwrap()
}

fn bash(command: &str) -> ToolCard {
    ToolCard {
        tool: "bash".to_owned(),
        title: format!("Run {command}"),
        kind: ToolKind::Execute,
        locations: vec![],
        input: json!({ "command": command }),
        preview: vec![ToolContent::text(command)],
        access: Access::Ask { always: None },
    }
}

fn edit() -> ToolCard {
    ToolCard {
        tool: "edit_file".to_owned(),
        title: "Edit a".to_owned(),
        kind: ToolKind::Edit,
        locations: vec![domain::tool::Location { path: "/w/a".into(), line: Some(3) }],
        input: json!({ "path": "a" }),
        preview: vec![ToolContent::Diff { path: "/w/a".into(), old: Some("a\n".to_owned()), new: "b\n".to_owned() }],
        access: Access::Ask { always: Some(Grant::Folder("/w".into())) },
    }
}

fn called(call: &str, card: ToolCard) -> EventKind {
    EventKind::ToolCalled { call: call.into(), message: "m".into(), card }
}

fn asked(call: &str) -> EventKind {
    EventKind::PermissionAsked {
        question: Question {
            id: format!("q{call}").into(),
            call: call.into(),
            always: None,
            options: Vec::new(),
            inquiry: None,
        },
    }
}

fn answered(call: &str) -> EventKind {
    EventKind::PermissionAnswered {
        question: format!("q{call}").into(),
        call: call.into(),
        decision: Decision::Chose(Choice::AllowOnce),
        by: "zed".to_owned(),
        words: None,
    }
}

fn tool_started(call: &str) -> EventKind {
    EventKind::ToolStarted { call: call.into() }
}

fn tool_ended(call: &str, outcome: Outcome) -> EventKind {
    EventKind::ToolEnded { call: call.into(), outcome }
}

/// The update of a notification, which must conform to the schema.
fn update(message: &[u8]) -> Value {
    Version::V2.update(message).unwrap()["update"].take()
}

/// What a client receives, in lines. Every update is validated against the schema.
fn translated(translator: &mut Translator, events: &[Event]) -> Vec<String> {
    let outbound = events.iter().flat_map(|event| translator.translate(event)).collect::<Vec<_>>();
    outbound.into_iter().map(line).collect()
}

fn line(outbound: Outbound) -> String {
    match outbound {
        Outbound::Update(message) => update(&message).to_string(),
        Outbound::Ask { question, params, .. } => {
            Version::V2.request("session/request_permission", &params).unwrap();
            format!("ask {question} {params}")
        }
        Outbound::Settled { question } => format!("settled {question}"),
        Outbound::Answer { answer: Ok(answer), .. } => format!("answer {answer}"),
        Outbound::Answer { answer: Err(error), .. } => format!("answer {}", error.code),
        Outbound::TurnOver { .. } => "turn over".to_owned(),
        #[allow(unreachable_patterns)]
        other => format!("{other:?}"),
    }
}

#[test]
fn a_turn_with_a_question_and_a_command() {
    let events = log(vec![
        started(),
        user("u", "run it"),
        EventKind::AgentText { message: "m".into(), text: "I run it.".to_owned() },
        called("c", bash("make")),
        asked("c"),
        answered("c"),
        tool_started("c"),
        EventKind::ToolProgressed { call: "c".into(), content: vec![ToolContent::text("one\n")] },
        EventKind::ToolProgressed { call: "c".into(), content: vec![ToolContent::text("one\ntwo\n")] },
        tool_ended("c", Outcome::completed("one\ntwo\n").with_raw(json!({ "exitCode": 0, "signal": null }))),
        ended(StopReason::EndTurn),
    ]);
    let translated = translated(&mut Translator::new(attach(0)), &events);
    expect![[r#"
        {"sessionUpdate":"state_update","background":[],"state":"running"}
        answer {"messageId":"u"}
        {"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"run it"}]}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I run it."},"messageId":"m"}
        {"toolCallId":"c","title":"Run make","name":"bash","kind":"execute","status":"pending","content":[{"type":"content","content":{"type":"text","text":"make"}}],"rawInput":{"command":"make"},"sessionUpdate":"tool_call_update"}
        {"sessionUpdate":"state_update","background":[],"state":"requires_action"}
        ask qc {"sessionId":"s","title":"Run make","options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}],"description":"Runs a command in /w","subject":{"type":"command","command":"make","cwd":"/w","toolCallId":"c"}}
        {"sessionUpdate":"state_update","background":[],"state":"running"}
        settled qc
        {"sessionUpdate":"terminal_update","terminalId":"c","command":"make","cwd":"/w","capabilities":{"cancel":{}}}
        {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","capabilities":{"cancel":{}},"content":[{"type":"terminal","terminalId":"c"}]}
        {"sessionUpdate":"terminal_output_chunk","terminalId":"c","data":"b25lCg=="}
        {"sessionUpdate":"terminal_output_chunk","terminalId":"c","data":"dHdvCg=="}
        {"sessionUpdate":"terminal_update","terminalId":"c","exitStatus":{"exitCode":0},"capabilities":null}
        {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawOutput":{"exitCode":0,"signal":null,"text":"one\ntwo\n"},"capabilities":null,"content":[{"type":"terminal","terminalId":"c"}]}
        {"sessionUpdate":"state_update","background":[],"state":"idle","stopReason":"end_turn"}
        turn over"#]]
    .assert_eq(&translated.join("\n"));
}

#[test]
fn a_command_goes_on_in_the_background_after_the_turn() {
    let left = Outcome { background: Some("bg1".to_owned()), ..Outcome::completed("Started.") };
    let events = log(vec![
        started(),
        user("u", "serve"),
        called("c", bash("serve")),
        tool_started("c"),
        tool_ended("c", left),
        ended(StopReason::EndTurn),
        EventKind::BackgroundOutput { handle: "bg1".to_owned(), text: "up\n".to_owned() },
        EventKind::BackgroundEnded { handle: "bg1".to_owned(), exit_code: None, signal: Some(15) },
    ]);
    let shown = translated(&mut Translator::new(attach(0)), &events);
    expect![[r#"
        {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawOutput":{"text":"Started."},"capabilities":null,"content":[{"type":"terminal","terminalId":"c"},{"type":"content","content":{"type":"text","text":"Started."}}]}
        {"sessionUpdate":"state_update","background":[{"type":"terminal","terminalId":"c"}],"state":"running"}
        {"sessionUpdate":"state_update","background":[{"type":"terminal","terminalId":"c"}],"state":"idle","stopReason":"end_turn"}
        turn over
        {"sessionUpdate":"terminal_output_chunk","terminalId":"c","data":"dXAK"}
        {"sessionUpdate":"terminal_update","terminalId":"c","exitStatus":{"signal":"SIGTERM"},"capabilities":null}
        {"sessionUpdate":"state_update","background":[],"state":"idle","stopReason":"end_turn"}"#]]
    .assert_eq(&shown[shown.len() - 7..].join("\n"));
    // A client that attaches at this point finds the terminal and its output.
    let mut state = domain::SessionState::new("s".into());
    events[..7].iter().for_each(|event| state.apply(event));
    let mut later = TranslatorStart { next: 8, background: state.open.background.clone(), ..attach(7) };
    later.own_from = 8;
    let mut later = Translator::new(later);
    let [terminal, state] = later.preface().try_into().unwrap();
    let (terminal, state) = (update(&terminal), update(&state));
    assert_eq!(terminal["output"]["data"], STANDARD.encode("up\n"));
    assert_eq!(terminal["command"], "serve");
    assert_eq!(state["background"], json!([{ "type": "terminal", "terminalId": "c" }]));
}

#[test]
fn a_v2_replay_omits_old_states_and_ends_with_the_current_one() {
    let events = log(vec![
        started(),
        user("u", "hi"),
        EventKind::Noticed { message: "n".into(), text: "a retry".to_owned(), passing: true },
        ended(StopReason::Cancelled),
        started(),
    ]);
    let mut translator = Translator::new(attach(5));
    let translated = translated(&mut translator, &events);
    assert!(!translated.iter().any(|line| line.contains("state_update") || line.contains("notice")), "{translated:?}");
    let [state] = translator.preface().try_into().unwrap();
    assert_eq!(update(&state)["state"], "running");
}

#[test]
fn an_uninserted_prompt_is_an_error_and_a_failed_turn_is_shown() {
    let failed =
        StopReason::Failed(TurnFailure { kind: FailureKind::Model, message: "it broke".to_owned(), data: Value::Null });
    let shown = translated(&mut Translator::new(attach(0)), &log(vec![started(), ended(StopReason::Cancelled)]));
    assert_eq!(shown[1], "answer -32800");
    let shown = translated(&mut Translator::new(attach(0)), &log(vec![started(), user("u", "hi"), ended(failed)]));
    assert!(shown.iter().any(|line| line.contains("agent_message") && line.contains("it broke")), "{shown:?}");
    let idle = shown.iter().find(|line| line.contains("idle")).unwrap();
    assert!(idle.contains(r#""stopReason":"error""#) && idle.contains("-32603"), "{idle}");
}

#[test]
fn a_question_beside_a_running_call_does_not_block_the_turn() {
    let events = log(vec![
        started(),
        user("u", "both"),
        called("a", bash("sleep 9")),
        tool_started("a"),
        called("b", edit()),
        asked("b"),
    ]);
    let mut translator = Translator::new(attach(0));
    let shown = translated(&mut translator, &events);
    assert!(!shown.iter().any(|line| line.contains("requires_action")), "{shown:?}");
    let ended = Event { life: 1, number: 7, at: Millis(1), kind: tool_ended("a", Outcome::completed("")) };
    let shown: Vec<String> = translator.translate(&ended).into_iter().map(line).collect();
    assert!(shown.iter().any(|line| line.contains("requires_action")), "{shown:?}");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(blocks: &Value) -> String {
    blocks.as_array().into_iter().flatten().map(|block| text(&block["text"])).collect()
}

/// Any piece of a turn.
fn piece() -> impl Strategy<Value = Vec<EventKind>> {
    let text = "[a-z\\n]{1,8}";
    let verdict = prop_oneof![
        Just(Outcome::completed("")),
        Just(Outcome::failed("")),
        Just(Outcome::denied()),
        Just(Outcome::cancelled()),
    ];
    let call = (0..1000_u32, any::<bool>(), any::<bool>(), any::<bool>(), verdict, text, text);
    let call = call.prop_map(|(id, is_shell, asks, starts, outcome, output, more)| {
        let id = format!("call{id}");
        let card = if is_shell { bash("make") } else { edit() };
        let mut kinds = vec![called(&id, card)];
        if asks {
            kinds.extend([asked(&id), answered(&id)]);
        }
        if starts {
            kinds.push(tool_started(&id));
            let shown = |text: &str| vec![ToolContent::text(text)];
            kinds.push(EventKind::ToolProgressed { call: id.as_str().into(), content: shown(&output) });
            kinds.push(EventKind::ToolProgressed { call: id.as_str().into(), content: shown(&more) });
        }
        kinds.push(tool_ended(&id, Outcome { text: format!("{output}{more}"), ..outcome }));
        kinds
    });
    let entry = || PlanEntry {
        content: "do it".to_owned(),
        priority: domain::tool::Priority::High,
        status: domain::tool::PlanStatus::Pending,
    };
    prop_oneof![
        text.prop_map(|text| vec![EventKind::AgentText { message: "m".into(), text }]),
        text.prop_map(|text| vec![EventKind::AgentThought { message: "m".into(), text }]),
        text.prop_map(|text| vec![EventKind::Noticed { message: "n".into(), text, passing: false }]),
        text.prop_map(|text| vec![user("u", &text)]),
        Just(vec![EventKind::Planned { call: "p".into(), message: "m".into(), entries: vec![entry()] }]),
        Just(vec![EventKind::Titled { title: "t".to_owned() }]),
        (text, any::<bool>()).prop_map(|(summary, is_completed)| {
            let compaction = domain::MessageId::from("k");
            let piece = |text: &str| EventKind::Compacting { compaction: compaction.clone(), text: text.to_owned() };
            let mut kinds = vec![piece(""), piece(&summary)];
            if is_completed {
                let compaction = Some(compaction.clone());
                kinds.push(EventKind::Compacted { summary, kept_from: None, kept_of_user: 0, compaction });
            }
            kinds
        }),
        text.prop_map(|text| vec![EventKind::Noticed { message: "n".into(), text, passing: true }]),
        proptest::sample::select(Mode::ALL.to_vec())
            .prop_map(|mode| vec![EventKind::Configured { setting: Setting::Mode(mode), automatic: false }]),
        call,
    ]
}

#[test]
fn an_error_of_the_log_is_in_the_words_of_the_protocol() {
    assert_eq!(encode::prompt_dropped(&StopReason::Interrupted).code, RpcError::INTERNAL);
    assert_eq!(encode::prompt_dropped(&StopReason::EndTurn).code, RpcError::CANCELLED);
}
