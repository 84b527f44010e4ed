//! Tests of the bridge's state, message by message.

use super::*;

fn frame(message: Value) -> Bytes {
    message.to_string().into()
}

fn request(id: u64, method: &str, params: Value) -> Bytes {
    frame(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn answer(id: impl Into<Value>, result: Value) -> Bytes {
    frame(json!({ "jsonrpc": "2.0", "id": id.into(), "result": result }))
}

fn update(session: &str, at: [u64; 2]) -> Bytes {
    let meta = json!({ "acpd": { "at": at } });
    frame(json!({ "method": "session/update", "params": { "sessionId": session, "update": {}, "_meta": meta } }))
}

fn raw(ids: &[Id]) -> Vec<&str> {
    ids.iter().map(Id::raw).collect()
}

/// Returns a bridge whose editor has initialized, opened session `s` and received its event 7.
fn with_session() -> BridgeState {
    let mut state = BridgeState::default();
    state.editor_frame(&request(1, "initialize", json!({ "protocolVersion": 1 })));
    state.daemon_frame(&answer(1, json!({})));
    state.editor_frame(&request(2, "session/new", json!({ "cwd": "/work" })));
    state.daemon_frame(&answer(2, json!({ "sessionId": "s", "_meta": { "acpd": { "at": [1, 1] } } })));
    state.daemon_frame(&update("s", [1, 7]));
    state
}

fn introduction(state: &mut BridgeState) -> Vec<Value> {
    state.introduction().iter().map(|message| serde_json::from_slice(message).unwrap()).collect()
}

#[test]
fn a_session_is_resumed_after_the_last_position_that_the_editor_received() {
    let mut state = with_session();
    state.link_lost();
    let [initialize, resume] = introduction(&mut state).try_into().unwrap();
    assert_eq!(initialize["method"], "initialize");
    assert_eq!(resume["params"], json!({ "cwd": "/work", "sessionId": "s", "after": [1, 7] }));
}

#[test]
fn the_version_that_was_agreed_on_is_kept_for_the_next_daemon() {
    let mut state = BridgeState::default();
    state.editor_frame(&request(1, "initialize", json!({ "protocolVersion": 9, "info": { "name": "zed" } })));
    state.daemon_frame(&answer(1, json!({ "protocolVersion": 2 })));
    state.link_lost();
    let [initialize] = introduction(&mut state).try_into().unwrap();
    assert_eq!(initialize["params"], json!({ "protocolVersion": 2, "info": { "name": "zed" } }));
}

#[test]
fn a_session_without_updates_is_resumed_after_the_position_in_its_answer() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/resume", json!({ "sessionId": "t" })));
    state.daemon_frame(&answer(3, json!({ "_meta": { "acpd": { "at": [2, 90] } } })));
    state.link_lost();
    assert_eq!(introduction(&mut state)[2]["params"]["after"], json!([2, 90]));
}

#[test]
fn an_unanswered_load_is_refused_if_begun_and_resent_otherwise() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/load", json!({ "sessionId": "s" })));
    assert!(state.link_lost().unknown.is_empty());
    let methods: Vec<Value> = introduction(&mut state).iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "session/load"]);
    state.editor_frame(&request(4, "session/load", json!({ "sessionId": "t" })));
    state.daemon_frame(&update("t", [1, 3]));
    assert_eq!(raw(&state.link_lost().unknown), ["3", "4"]);
}

#[test]
fn a_prompt_is_held_only_if_the_daemon_will_answer_it() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.editor_frame(&request(4, "session/prompt", json!({ "sessionId": "s" })));
    assert!(state.link_lost().unknown.is_empty());
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": ["3"] }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["4"], vec![]));
    assert!(!state.is_resuming());
    assert_eq!(state.daemon_frame(&answer(3, json!({ "stopReason": "end_turn" }))), FrameVerdict::Pass);
    assert_eq!(state.daemon_frame(&answer(3, json!({ "stopReason": "end_turn" }))), FrameVerdict::Drop);
    assert!(state.is_quiet());
}

#[test]
fn a_prompt_the_daemon_did_not_accept_is_resent_once_if_final() {
    let mut state = with_session();
    let prompt = request(3, "session/prompt", json!({ "sessionId": "s" }));
    state.editor_frame(&prompt);
    state.editor_frame(&request(4, "session/prompt", json!({ "sessionId": "s" })));
    state.link_lost();
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": ["4"], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec![], vec![prompt]));
    state.link_lost();
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//2", json!({ "pending": ["4"], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["3"], vec![]));
}

#[test]
fn a_prompt_that_is_too_long_to_be_kept_is_refused() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s", "x": "x".repeat(KEPT_PROMPT) })));
    state.link_lost();
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["3"], vec![]));
}

#[test]
fn frames_for_a_resuming_session_wait_and_others_pass() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.link_lost();
    introduction(&mut state);
    assert_eq!(raw(&state.give_up_resuming()), ["3"]);
    let prompt = request(5, "session/prompt", json!({ "sessionId": "s" }));
    let cancel = frame(json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    assert_eq!(state.editor_frame(&prompt), FrameVerdict::Hold);
    assert_eq!(state.editor_frame(&request(6, "session/list", json!({}))), FrameVerdict::Pass);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": ["3"], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec![], vec![prompt]));
    assert_eq!(state.editor_frame(&cancel), FrameVerdict::Pass);
    // The prompt was cancelled, so it must not be sent again if this connection dies, too.
    state.link_lost();
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//2", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["5"], vec![]));
}

fn withdrawal(id: u64) -> Bytes {
    frame(json!({ "method": "$/cancel_request", "params": { "requestId": id } }))
}

#[test]
fn a_request_withdrawn_before_the_daemon_died_is_not_resent() {
    let mut state = with_session();
    let kept = request(4, "session/prompt", json!({ "sessionId": "s" }));
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.editor_frame(&kept);
    state.editor_frame(&request(5, "session/list", json!({})));
    assert_eq!(state.editor_frame(&withdrawal(3)), FrameVerdict::Pass);
    assert_eq!(state.editor_frame(&withdrawal(5)), FrameVerdict::Pass);
    assert_eq!(raw(&state.link_lost().unknown), ["5"]);
    introduction(&mut state);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["3"], vec![kept]));
}

#[test]
fn a_withdrawn_held_request_is_answered_as_cancelled_and_never_sent() {
    let mut state = with_session();
    state.link_lost();
    introduction(&mut state);
    let kept = request(5, "session/prompt", json!({ "sessionId": "s" }));
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.editor_frame(&request(4, "session/set_mode", json!({ "sessionId": "s", "modeId": "safe" })));
    state.editor_frame(&kept);
    let mut withdraw = |id| match state.editor_frame(&withdrawal(id)) {
        FrameVerdict::Withdraw(answers) => {
            answers.iter().map(|answer| serde_json::from_slice(answer).unwrap()).collect()
        }
        other => panic!("{other:?}"),
    };
    let [prompt]: [Value; 1] = Vec::try_into(withdraw(3)).unwrap();
    assert_eq!((&prompt["id"], &prompt["result"]), (&json!(3), &json!({ "stopReason": "cancelled" })));
    let [mode]: [Value; 1] = Vec::try_into(withdraw(4)).unwrap();
    assert_eq!((&mode["id"], &mode["error"]["code"]), (&json!(4), &json!(-32800)));
    assert_eq!(state.editor_frame(&withdrawal(3)), FrameVerdict::Pass);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec![], vec![kept]));
}

#[test]
fn a_cancel_for_a_resuming_session_ends_the_prompts_before_it() {
    let mut state = BridgeState { limits: HeldLimits { held: 200, ..HeldLimits::default() }, ..with_session() };
    state.link_lost();
    introduction(&mut state);
    let prompt = |id| request(id, "session/prompt", json!({ "sessionId": "s" }));
    let cancel = frame(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } }));
    assert_eq!(state.editor_frame(&prompt(3)), FrameVerdict::Hold);
    assert_eq!(state.editor_frame(&prompt(4)), FrameVerdict::Hold);
    assert!(matches!(state.editor_frame(&prompt(5)), FrameVerdict::Refuse(_)), "the limit is reached");
    let FrameVerdict::Cancel { answers, resume: None } = state.editor_frame(&cancel) else { panic!("it is not held") };
    let ids: Vec<Value> =
        answers.iter().map(|answer| serde_json::from_slice::<Value>(answer).unwrap()["id"].take()).collect();
    assert_eq!(ids, [json!(3), json!(4)]);
    // A second cancellation replaces the first, so their number is bounded.
    assert_eq!(state.editor_frame(&cancel), FrameVerdict::Cancel { answers: Vec::new(), resume: None });
    assert_eq!(state.editor_frame(&prompt(6)), FrameVerdict::Hold);
    let back = state.own_answer(&answer("acpd-bridge//1", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec![], vec![cancel, prompt(6)]));
}

#[test]
fn a_held_prompt_that_was_sent_once_is_resent_once() {
    let mut state = with_session();
    state.link_lost();
    introduction(&mut state);
    let prompt = request(5, "session/prompt", json!({ "sessionId": "s" }));
    assert_eq!(state.editor_frame(&prompt), FrameVerdict::Hold);
    for resume in ["acpd-bridge//1", "acpd-bridge//2"] {
        let back = state.own_answer(&answer(resume, json!({ "pending": [], "final": true }))).unwrap();
        assert_eq!((raw(&back.lost), back.send), (vec![], vec![prompt.clone()]));
        state.link_lost();
        introduction(&mut state);
    }
    let back = state.own_answer(&answer("acpd-bridge//3", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec!["5"], vec![]));
}

#[test]
fn a_session_that_fails_to_resume_is_tried_again_with_its_next_message() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.link_lost();
    introduction(&mut state);
    let failed = frame(json!({ "id": "acpd-bridge//1", "error": { "code": -32603, "message": "no space" } }));
    let back = state.own_answer(&failed).unwrap();
    assert_eq!((raw(&back.lost), &back.why.data.unwrap()["reason"]), (vec!["3"], &json!("no space")));
    let prompt = request(4, "session/prompt", json!({ "sessionId": "s" }));
    let FrameVerdict::Resume(resume) = state.editor_frame(&prompt) else { panic!("it is brought back first") };
    assert_eq!(serde_json::from_slice::<Value>(&resume).unwrap()["params"]["after"], json!([1, 7]));
    assert!(!state.is_quiet());
    let back = state.own_answer(&answer("acpd-bridge//2", json!({ "pending": [], "final": true }))).unwrap();
    assert_eq!((raw(&back.lost), back.send), (vec![], vec![prompt]));
}

#[test]
fn held_frames_are_given_up_with_their_session() {
    let mut state = with_session();
    state.link_lost();
    introduction(&mut state);
    state.editor_frame(&request(4, "session/prompt", json!({ "sessionId": "s" })));
    assert_eq!(raw(&state.give_up()), ["4"]);
    assert!(state.is_quiet());
}

#[test]
fn the_bridge_resends_requests_without_effects_and_refuses_others() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/list", json!({})));
    state.editor_frame(&request(4, "session/set_mode", json!({ "sessionId": "s", "modeId": "safe" })));
    state.editor_frame(&request(5, "session/new", json!({ "cwd": "/work" })));
    state.editor_frame(&request(6, "session/load", json!({ "sessionId": "t" })));
    assert_eq!(raw(&state.link_lost().unknown), ["4", "5"]);
    let methods: Vec<Value> = introduction(&mut state).iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "session/list", "session/load", "_acpd/resume"]);
}

#[test]
fn a_request_resent_in_vain_is_refused_at_the_next_disconnect() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/list", json!({})));
    state.editor_frame(&request(4, "session/load", json!({ "sessionId": "t" })));
    assert!(state.link_lost().unknown.is_empty());
    assert_eq!(introduction(&mut state).len(), 4);
    assert_eq!(raw(&state.link_lost().unknown), ["3", "4"]);
    assert_eq!(introduction(&mut state).len(), 2);
}

#[test]
fn an_error_without_an_id_reaches_an_editor_that_waits() {
    let mut state = with_session();
    let complaint = frame(json!({ "id": null, "error": { "code": -32600, "message": "too long" } }));
    assert_eq!(state.daemon_frame(&complaint), FrameVerdict::Drop);
    state.editor_frame(&request(3, "session/list", json!({})));
    assert_eq!(state.daemon_frame(&complaint), FrameVerdict::Pass);
    assert!(!state.is_quiet(), "the request itself is still to be answered");
}

#[test]
fn a_question_of_a_dead_daemon_is_withdrawn_and_its_late_answer_dropped() {
    let mut state = with_session();
    let question = frame(json!({ "id": "q", "method": "session/request_permission", "params": { "sessionId": "s" } }));
    assert_eq!(state.daemon_frame(&question), FrameVerdict::Pass);
    assert_eq!(raw(&state.link_lost().withdrawn), ["\"q\""]);
    assert_eq!(state.editor_frame(&answer("q", json!({ "outcome": {} }))), FrameVerdict::Drop);
    assert_eq!(state.editor_frame(&answer("other", json!({ "outcome": {} }))), FrameVerdict::Pass);
}

#[test]
fn a_session_that_does_not_resume_is_forgotten_with_its_prompts() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/prompt", json!({ "sessionId": "s" })));
    state.link_lost();
    introduction(&mut state);
    let refused = frame(json!({ "id": "acpd-bridge//1", "error": { "code": -32602, "message": "gone" } }));
    assert_eq!(raw(&state.own_answer(&refused).unwrap().lost), ["3"]);
    state.link_lost();
    assert_eq!(introduction(&mut state).len(), 1);
}

#[test]
fn a_closed_session_is_not_resumed() {
    let mut state = with_session();
    state.editor_frame(&request(3, "session/close", json!({ "sessionId": "s" })));
    state.daemon_frame(&answer(3, json!({})));
    state.link_lost();
    assert_eq!(introduction(&mut state).len(), 1);
}

#[test]
fn an_initialize_that_was_never_answered_is_sent_again_as_it_was() {
    let mut state = BridgeState::default();
    state.editor_frame(&request(1, "initialize", json!({ "protocolVersion": 1 })));
    state.link_lost();
    let [initialize] = introduction(&mut state).try_into().unwrap();
    assert_eq!(initialize["id"], 1);
    assert_eq!(state.daemon_frame(&answer(1, json!({}))), FrameVerdict::Pass);
}

#[test]
fn requests_and_invalid_messages_are_owed_an_answer() {
    let owed = |text: &str| owed_answer(text.as_bytes()).map(|id| id.raw().to_owned());
    assert_eq!(owed(r#"{"id":1.0,"method":"m"}"#).as_deref(), Some("1.0"));
    assert_eq!(owed(r#"{"id":{},"method":"m"}"#).as_deref(), Some("null"));
    assert_eq!(owed(r#"{"method":"m"}"#), None);
    assert_eq!(owed(r#"{"id":1,"result":{}}"#), None);
    assert_eq!(owed(r#"{"id":1}"#).as_deref(), Some("1"));
    assert_eq!(owed(r#"{"id":1,"method":5}"#).as_deref(), Some("1"));
    assert_eq!(owed(r#"{"id":1,"method":null}"#).as_deref(), Some("1"));
    assert_eq!(owed(r#"{"id":1,"method":"\ud800"}"#).as_deref(), Some("1"));
    assert_eq!(owed(r#"{"id":1,"error":null}"#).as_deref(), Some("1"));
    assert_eq!(owed(r#"{"id":[1],"result":1}"#).as_deref(), Some("null"));
    assert_eq!(owed("[]").as_deref(), Some("null"));
    assert_eq!(owed(r#"{"id":1,"met"#).as_deref(), Some("null"));
}
