//! One session's log, translated for every kind of client that may see it.

use conformance::Version;
use domain::permission::{Access, Grant};
use domain::state::DelegatedCall;
use domain::tool::{Location, PlanStatus, Priority};
use domain::turn::FailureKind;
use domain::{
    Approval, Choice, ContentMetadata, Decision, ExtraSet, Millis, Mode, ModelId, Payload, PromptOrigin, ToolKind,
    TurnFailure,
};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::request::ClientCapabilities;

fn options_of(model: &str) -> SessionOptions {
    let info = domain::model::ModelInfo {
        id: model.into(),
        name: "Echo".to_owned(),
        window: 100,
        images: false,
        audio: false,
        thinks: false,
        patches: false,
        price: None,
    };
    SessionOptions {
        models: vec![info],
        mode: Mode::Full,
        approval: Approval::Ask,
        model: ModelId::from(model),
        thought: Default::default(),
        agent: None,
        hosted: None,
        switches: false,
        extras: ExtraSet::ALL,
    }
}

fn attach(connection: &str, head: u64) -> TranslatorStart {
    TranslatorStart {
        session: "s".into(),
        cwd: "/w".into(),
        next: 1,
        turn: None,
        background: Default::default(),
        viewer: Viewer {
            connection: connection.into(),
            bridge: None,
            with_positions: false,
            capabilities: ClientCapabilities::default(),
            extras: ExtraSet::ALL,
        },
        session_options: options_of("echo"),
        head,
        own_from: head + 1,
        open_calls: Vec::new(),
        delegated: BTreeMap::new(),
        open_questions: Vec::new(),
    }
}

fn log(kinds: Vec<EventKind>) -> Vec<Event> {
    let event = |(at, kind)| Event { life: 1, number: at as u64 + 1, at: Millis(1_735_689_600_000), kind };
    kinds.into_iter().enumerate().map(event).collect()
}

fn started(connection: &str) -> EventKind {
    let origin = PromptOrigin { connection: connection.into(), bridge: None, request: "1".to_owned() };
    EventKind::TurnStarted { turn: "t".into(), origin }
}

fn user(content: Vec<Content>) -> EventKind {
    EventKind::UserMessage {
        turn: "t".into(),
        message: "u".into(),
        content,
        aside: false,
        stands_for: None,
        context: Vec::new(),
        steering: None,
    }
}

fn ended(reason: StopReason) -> EventKind {
    EventKind::TurnEnded {
        turn: "t".into(),
        origin: None,
        message: Some("u".into()),
        reason,
        usage: Usage { input: 7, output: 2, ..Usage::default() },
        steering: Vec::new(),
    }
}

fn edit_card() -> ToolCard {
    ToolCard {
        tool: "edit_file".to_owned(),
        title: "Edit main.rs".to_owned(),
        kind: ToolKind::Edit,
        locations: vec![Location { path: "/w/main.rs".into(), line: Some(3) }],
        input: json!({"path": "main.rs"}),
        preview: vec![ToolContent::Diff { path: "/w/main.rs".into(), old: Some("a".to_owned()), new: "b".to_owned() }],
        access: Access::Ask { always: Some(Grant::Folder("/w".into())) },
    }
}

fn other_card() -> ToolCard {
    ToolCard {
        tool: "mcp__x__y".to_owned(),
        title: "y".to_owned(),
        kind: ToolKind::Other,
        locations: vec![],
        input: Value::Null,
        preview: vec![],
        access: Access::Ask { always: None },
    }
}

/// Everything that can happen, once.
fn story() -> Vec<Event> {
    let question = Question {
        id: "q".into(),
        call: "c".into(),
        always: Some(Grant::Folder("/w".into())),
        options: Vec::new(),
        inquiry: None,
    };
    let marked = Content {
        payload: Payload::TextResource { uri: "file:///a".to_owned(), mime: None, text: "A".to_owned() },
        metadata: ContentMetadata {
            annotations: Some(json!({"audience": ["user"], "bogus": 1})),
            meta: Some(json!({"k": "v"})),
            resource_meta: Some(json!({"r": 1})),
        },
    };
    let picture = ToolContent::Image { data: "aQ==".to_owned(), mime: "image/png".to_owned() };
    let entry = PlanEntry { content: "do it".to_owned(), priority: Priority::High, status: PlanStatus::InProgress };
    log(vec![
        EventKind::Created {
            cwd: "/w".into(),
            extra_roots: vec![],
            mode: Mode::Safe,
            approval: Approval::Ask,
            model: "echo".into(),
            agent: None,
        },
        started("me"),
        user(vec![Content::text("hi"), marked]),
        EventKind::AgentThought { message: "m".into(), text: "hm".to_owned() },
        EventKind::AgentText { message: "m".into(), text: "he\"llo\n".to_owned() },
        EventKind::ToolCalled { call: "c".into(), message: "m".into(), card: edit_card() },
        EventKind::PermissionAsked { question },
        EventKind::PermissionAnswered {
            question: "q".into(),
            call: "c".into(),
            decision: Decision::Chose(Choice::AllowOnce),
            by: "zed".to_owned(),
            words: None,
        },
        EventKind::ToolStarted { call: "c".into() },
        EventKind::ToolProgressed { call: "c".into(), content: vec![ToolContent::text("half"), picture] },
        EventKind::ToolEnded { call: "c".into(), outcome: Outcome::completed("done") },
        EventKind::ToolCalled { call: "d".into(), message: "m".into(), card: other_card() },
        EventKind::ToolEnded {
            call: "d".into(),
            outcome: Outcome::denied().showing(vec![ToolContent::text("no")]).with_raw(json!({"exit": 1})),
        },
        EventKind::Planned { call: "p".into(), message: "m".into(), entries: vec![entry] },
        EventKind::Used { usage: Usage::default(), window_used: 9, window: 100, cost: None, estimated: false },
        EventKind::Titled { title: "Hello".to_owned() },
        EventKind::Noticed { message: "n".into(), text: "the key expires soon".to_owned(), passing: false },
        EventKind::Compacted { summary: "short".to_owned(), kept_from: None, kept_of_user: 0, compaction: None },
        ended(StopReason::EndTurn),
        EventKind::Configured { setting: Setting::Mode(Mode::ReadOnly), automatic: false },
        EventKind::Configured { setting: Setting::Approval(Approval::Never), automatic: false },
        EventKind::Reopened,
    ])
}

fn translate_all(translator: &mut Translator, events: &[Event]) -> Vec<Outbound> {
    events.iter().flat_map(|event| translator.translate(event)).collect()
}

/// One line per outbound message. Updates are validated against the schema.
fn transcript(outbound: &[Outbound]) -> String {
    let line = |outbound: &Outbound| match outbound {
        Outbound::Update(message) => {
            let mut params = Version::V1.update(message).unwrap();
            assert_eq!(params["sessionId"], "s");
            let mut update = params["update"].take();
            // The options are long, and other tests show them whole. The chosen values suffice
            // here.
            if let Some(options) = update.get_mut("configOptions") {
                let chosen = options.as_array().unwrap().iter().map(|option| option["currentValue"].clone());
                *options = chosen.collect();
            }
            let at = params.get("_meta").map(|meta| format!(" at {}", meta["acpd"]["at"])).unwrap_or_default();
            format!("{update}{at}")
        }
        Outbound::Ask { question, params, .. } => {
            Version::V1.request("session/request_permission", params).unwrap();
            format!("ask {question} {params}")
        }
        Outbound::Settled { question } => format!("settled {question}"),
        Outbound::Inserted { prompt, joined } => {
            format!("inserted {prompt}{}", if *joined { " by joining" } else { "" })
        }
        Outbound::Answer { turn, answer: Ok(answer), .. } => {
            Version::V1.response("session/prompt", answer).unwrap();
            format!("over {turn} {answer}")
        }
        Outbound::Answer { turn, answer: Err(error), .. } => {
            format!("over {turn} {}", serde_json::to_string(error).unwrap())
        }
        Outbound::TurnOver { turn } => format!("over {turn}"),
    };
    let shown = outbound.iter().filter(|outbound| !matches!(outbound, Outbound::TurnOver { .. }));
    shown.map(|outbound| line(outbound) + "\n").collect()
}

fn check(outbound: &[Outbound], expected: &Expect) {
    expected.assert_eq(&transcript(outbound));
}

#[test]
fn a_watching_client_receives_every_update_in_order() {
    let mut translator = Translator::new(attach("other", 0));
    check(
        &translate_all(&mut translator, &story()),
        &expect![[r#"
        {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"u"}
        {"sessionUpdate":"user_message_chunk","content":{"type":"resource","annotations":{"audience":["user"]},"resource":{"text":"A","uri":"file:///a","_meta":{"r":1}},"_meta":{"k":"v"}},"messageId":"u"}
        {"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"},"messageId":"m"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"he\"llo\n"},"messageId":"m"}
        {"sessionUpdate":"tool_call","toolCallId":"c","kind":"edit","status":"pending","title":"Edit main.rs","name":"edit_file","content":[{"type":"diff","path":"/w/main.rs","oldText":"a","newText":"b"}],"locations":[{"path":"/w/main.rs","line":3}],"rawInput":{"path":"main.rs"}}
        ask q {"sessionId":"s","toolCall":{"toolCallId":"c","kind":"edit","status":"pending","title":"Edit main.rs","name":"edit_file","content":[{"type":"diff","path":"/w/main.rs","oldText":"a","newText":"b"}],"locations":[{"path":"/w/main.rs","line":3}],"rawInput":{"path":"main.rs"}},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow edits in /w","kind":"allow_always"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"},{"optionId":"reject_always","name":"Always reject edits in /w","kind":"reject_always"}]}
        settled q
        {"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"edit","status":"in_progress"}
        {"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"edit","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"half"}},{"type":"content","content":{"type":"image","data":"aQ==","mimeType":"image/png"}}]}
        {"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"edit","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}}],"rawOutput":{"text":"done"}}
        {"sessionUpdate":"tool_call","toolCallId":"d","kind":"other","status":"pending","title":"y","name":"mcp__x__y"}
        {"sessionUpdate":"tool_call_update","toolCallId":"d","kind":"other","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no"}}],"rawOutput":{"exit":1,"text":"Permission denied."}}
        {"sessionUpdate":"plan","entries":[{"content":"do it","priority":"high","status":"in_progress"}]}
        {"sessionUpdate":"usage_update","used":9,"size":100}
        {"sessionUpdate":"session_info_update","title":"Hello","updatedAt":"2025-01-01T00:00:00.000Z"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"the key expires soon"},"messageId":"n"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Older messages were replaced by a summary."},"messageId":"compaction-18"}
        over t {"stopReason":"end_turn","usage":{"totalTokens":9,"inputTokens":7,"outputTokens":2},"userMessageId":"u","_meta":{"acpd":{"userMessageId":"u"}}}
        {"sessionUpdate":"current_mode_update","currentModeId":"read-only"}
        {"sessionUpdate":"config_option_update","configOptions":["read-only","echo","ask"]}
        {"sessionUpdate":"config_option_update","configOptions":["read-only","echo","never"]}
    "#]],
    );
    assert_eq!(
        (translator.session_options().mode, translator.session_options().approval),
        (Mode::ReadOnly, Approval::Never)
    );
}

#[test]
fn the_sender_sees_its_own_prompt_only_on_load() {
    let shown = |head| {
        let outbound = translate_all(&mut Translator::new(attach("me", head)), &story());
        transcript(&outbound).lines().filter(|line| line.contains("user_message_chunk")).count()
    };
    assert_eq!((shown(0), shown(2), shown(3)), (0, 0, 2));
}

#[test]
fn a_load_replays_what_live_clients_saw_without_settled_questions() {
    let events = story();
    let live = translate_all(&mut Translator::new(attach("other", 0)), &events);
    let load = translate_all(&mut Translator::new(attach("other", events.len() as u64)), &events);
    let live: Vec<_> = live.into_iter().filter(|outbound| !matches!(outbound, Outbound::Ask { .. })).collect();
    assert_eq!(live, load);
}

#[test]
fn an_open_question_is_asked_of_later_clients_after_an_announced_call() {
    let question = Question { id: "q".into(), call: "d".into(), always: None, options: Vec::new(), inquiry: None };
    let events = log(vec![EventKind::PermissionAsked { question: question.clone() }]);
    let open = TranslatorStart {
        open_calls: vec![("d".into(), OpenCall::new(other_card()))],
        open_questions: vec![AskedQuestion { at: 1, question: question.clone() }],
        ..attach("other", 1)
    };
    check(
        &translate_all(&mut Translator::new(open), &events),
        &expect![[r#"
        ask q {"sessionId":"s","toolCall":{"toolCallId":"d","kind":"other","status":"pending","title":"y","name":"mcp__x__y"},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}]}
    "#]],
    );
    check(&translate_all(&mut Translator::new(attach("other", 1)), &events), &expect![[r#""#]]);
}

#[test]
fn a_client_that_attaches_midway_sees_no_calls_of_sub_agents() {
    let question = Question { id: "q".into(), call: "asked".into(), always: None, options: Vec::new(), inquiry: None };
    let events = log(vec![
        EventKind::ToolStarted { call: "hidden".into() },
        EventKind::ToolEnded { call: "hidden".into(), outcome: Outcome::completed("done") },
        EventKind::ToolEnded { call: "ended".into(), outcome: Outcome::completed("done") },
        EventKind::PermissionAsked { question },
    ]);
    let hidden = || DelegatedCall { within: "agent".into(), shown_from: None };
    let middle = || TranslatorStart {
        open_calls: ["asked", "hidden"].map(|id| (id.into(), OpenCall::new(other_card()))).into(),
        delegated: ["asked", "ended", "hidden"].map(|call| (CallId::from(call), hidden())).into(),
        ..attach("other", 0)
    };
    assert_eq!(Translator::new(middle()).catch_up(PriorView::Nothing, 1), []);
    check(
        &translate_all(&mut Translator::new(middle()), &events),
        &expect![[r#"
        {"sessionUpdate":"tool_call","toolCallId":"asked","kind":"other","status":"pending","title":"y","name":"mcp__x__y"}
        ask q {"sessionId":"s","toolCall":{"toolCallId":"asked","kind":"other","status":"pending","title":"y","name":"mcp__x__y"},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}]}
    "#]],
    );
}

#[test]
fn a_call_of_a_sub_agent_that_asks_while_it_runs_is_shown_as_running() {
    let question = Question { id: "q".into(), call: "c".into(), always: None, options: Vec::new(), inquiry: None };
    let events = log(vec![EventKind::ToolStarted { call: "c".into() }, EventKind::PermissionAsked { question }]);
    let hidden = DelegatedCall { within: "agent".into(), shown_from: None };
    let middle = TranslatorStart {
        open_calls: [("c".into(), OpenCall::new(other_card()))].into(),
        delegated: [(CallId::from("c"), hidden)].into(),
        ..attach("other", 0)
    };
    let updates = transcript(&translate_all(&mut Translator::new(middle), &events));
    let first = updates.lines().next().unwrap();
    assert!(first.contains(r#""toolCallId":"c""#) && first.contains(r#""status":"in_progress""#), "{updates}");
}

#[test]
fn notices_and_compaction_reach_supporting_clients_and_notices_are_not_replayed() {
    let events = log(vec![
        EventKind::Noticed { message: "n".into(), text: "trying again in 5 s".to_owned(), passing: true },
        EventKind::Noticed { message: "h".into(), text: "an answer".to_owned(), passing: false },
        EventKind::Compacted { summary: "short".to_owned(), kept_from: None, kept_of_user: 0, compaction: None },
    ]);
    let knows = |head| {
        let mut attach = attach("me", head);
        attach.viewer.capabilities =
            ClientCapabilities { notices: true, compaction: true, ..ClientCapabilities::default() };
        Translator::new(attach)
    };
    check(
        &translate_all(&mut knows(0), &events),
        &expect![[r#"
        {"sessionUpdate":"notice","severity":"info","title":"trying again in 5 s"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"an answer"},"messageId":"h"}
        {"sessionUpdate":"compaction_update","compactionId":"compaction-3","status":"completed","summary":[{"type":"text","text":"short"}]}
    "#]],
    );
    check(&translate_all(&mut knows(3), &events[..1]), &expect![[r#""#]]);
    check(
        &translate_all(&mut Translator::new(attach("me", 3)), &events),
        &expect![[r#"
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"trying again in 5 s"},"messageId":"n"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"an answer"},"messageId":"h"}
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Older messages were replaced by a summary."},"messageId":"compaction-3"}
    "#]],
    );
}

#[test]
fn without_extras_an_answer_has_no_usage() {
    let mut strict = attach("me", 0);
    strict.viewer.extras = ExtraSet::NONE;
    let events = log(vec![started("me"), ended(StopReason::EndTurn)]);
    check(
        &translate_all(&mut Translator::new(strict), &events),
        &expect![[r#"
        over t {"stopReason":"end_turn","_meta":{"acpd":{"userMessageId":"u"}}}
    "#]],
    );
}

#[test]
fn a_client_that_attaches_midway_sees_open_calls_and_questions() {
    let question = Question { id: "q".into(), call: "d".into(), always: None, options: Vec::new(), inquiry: None };
    let open = TranslatorStart {
        open_calls: vec![
            ("c".into(), OpenCall { started: true, ..OpenCall::new(other_card()) }),
            ("d".into(), OpenCall::new(other_card())),
        ],
        open_questions: vec![AskedQuestion { at: 4, question }],
        ..attach("other", 4)
    };
    let mut translator = Translator::new(open);
    check(
        &translator.catch_up(PriorView::Nothing, 5),
        &expect![[r#"
        {"sessionUpdate":"tool_call","toolCallId":"c","kind":"other","status":"in_progress","title":"y","name":"mcp__x__y"}
        {"sessionUpdate":"tool_call","toolCallId":"d","kind":"other","status":"pending","title":"y","name":"mcp__x__y"}
        ask q {"sessionId":"s","toolCall":{"toolCallId":"d","kind":"other","status":"pending","title":"y","name":"mcp__x__y"},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}]}
    "#]],
    );
    check(
        &translator.catch_up(PriorView::Everything, 5),
        &expect![[r#"
        ask q {"sessionId":"s","toolCall":{"toolCallId":"d","kind":"other","status":"pending","title":"y","name":"mcp__x__y"},"options":[{"optionId":"allow_once","name":"Allow","kind":"allow_once"},{"optionId":"reject_once","name":"Reject","kind":"reject_once"}]}
    "#]],
    );
    assert_eq!(translator.catch_up(PriorView::Everything, 4), vec![]);
}

#[test]
fn a_turn_that_failed_says_so_and_answers_with_an_error() {
    let failure = TurnFailure {
        kind: FailureKind::Authentication,
        message: "no key".to_owned(),
        data: json!({"provider": "anthropic"}),
    };
    let mut positions = attach("me", 0);
    positions.viewer.with_positions = true;
    let events = log(vec![started("me"), user(vec![Content::text("hi")]), ended(StopReason::Failed(failure))]);
    check(
        &translate_all(&mut Translator::new(positions), &events),
        &expect![[r#"
            inserted t
            {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"no key"},"messageId":"t"}
            over t {"code":-32000,"message":"no key","data":{"provider":"anthropic"}}
        "#]],
    );
}

#[test]
fn bridges_receive_the_position_with_the_last_update_of_each_event() {
    let mut positions = attach("other", 0);
    positions.viewer.with_positions = true;
    let events = log(vec![
        user(vec![Content::text("a"), Content::text("b")]),
        EventKind::AgentText { message: "m".into(), text: "c".to_owned() },
        EventKind::Configured { setting: Setting::Mode(Mode::Safe), automatic: false },
    ]);
    let outbound = translate_all(&mut Translator::new(positions), &events);
    check(
        &outbound,
        &expect![[r#"
        {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"},"messageId":"u"}
        {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"b"},"messageId":"u"} at [1,1]
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"c"},"messageId":"m"} at [1,2]
        {"sessionUpdate":"current_mode_update","currentModeId":"safe"}
        {"sessionUpdate":"config_option_update","configOptions":["safe","echo","ask"]} at [1,3]
    "#]],
    );
    let Outbound::Update(message) = outbound.last().unwrap() else { panic!() };
    assert_eq!(crate::envelope::Envelope::read(message).unwrap().at, Some((1, 3)));
}

#[test]
fn a_path_that_is_not_utf8_is_shown_lossily() {
    use std::os::unix::ffi::OsStringExt;
    let odd = std::path::PathBuf::from(std::ffi::OsString::from_vec(b"/w/\xff".to_vec()));
    let card = ToolCard { locations: vec![Location { path: odd, line: None }], ..other_card() };
    let events = log(vec![EventKind::ToolCalled { call: "c".into(), message: "m".into(), card }]);
    let outbound = transcript(&translate_all(&mut Translator::new(attach("other", 0)), &events));
    assert!(outbound.contains("/w/\u{fffd}"), "{outbound}");
}

proptest! {
    #[test]
    fn a_chunk_is_written_as_the_schema_crate_would(
        text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}",
        message in "[a-z0-9-]{1,36}",
        thought in any::<bool>(),
        positions in any::<bool>(),
    ) {
        let mut attach = attach("other", 0);
        attach.viewer.with_positions = positions;
        let block = acp::ContentBlock::Text(acp::TextContent::new(text.clone()));
        let chunk = acp::ContentChunk::new(block).message_id(acp::MessageId::new(message.as_str()));
        let (kind, update) = if thought {
            (EventKind::AgentThought { message: message.into(), text }, acp::SessionUpdate::AgentThoughtChunk(chunk))
        } else {
            (EventKind::AgentText { message: message.into(), text }, acp::SessionUpdate::AgentMessageChunk(chunk))
        };
        let meta = positions.then(|| encode::acpd_meta(json!({"at": [1, 1]})));
        let params = acp::SessionNotification::new("s", update).meta(meta);
        let expected = rpc::notification(method::SESSION_UPDATE, &params);
        let outbound = translate_all(&mut Translator::new(attach), &log(vec![kind]));
        prop_assert_eq!(outbound, vec![Outbound::Update(expected)]);
    }
}
