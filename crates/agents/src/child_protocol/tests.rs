//! Tests of the protocol without pipes: messages and requests go in, messages and reports come out.

use domain::editor::{
    EditorCapabilities, EditorError, Elicitation, Elicited, LineRange, TerminalExit, TerminalId, TerminalOutput,
    TerminalRequest,
};
use domain::hosted::{AgentLaunch, AgentLink, AgentReport, AgentSetting, Offer, OfferPart};
use domain::mcp::{McpServer, McpTransport};
use futures_util::FutureExt;
use futures_util::stream::StreamExt;
use process::Launcher;
use tokio::time::advance;

use super::*;
use crate::hosts::AgentHostSettings;
use crate::link::Link;
use crate::services::ServiceContext;

fn launch(earlier: Option<&str>) -> AgentLaunch {
    AgentLaunch {
        agent: "child".to_owned(),
        session: "s".into(),
        cwd: "/work".into(),
        extra_roots: Vec::new(),
        environment: Default::default(),
        servers: Vec::new(),
        earlier: earlier.map(str::to_owned),
        chosen: Offer { modes: Some(json!({ "currentModeId": "code", "availableModes": [] })), ..Offer::default() },
        summary: Some("Before this: x".to_owned()),
    }
}

fn protocol(earlier: Option<&str>) -> ChildProtocol {
    protocol_for(launch(earlier), 1)
}

fn protocol_for(launch: AgentLaunch, version: i64) -> ChildProtocol {
    let settings = AgentHostSettings::new(Launcher::new("/bin/false"));
    let services = Services::new(ServiceContext::new(&launch, &settings, false));
    let timeouts = AgentTimeouts { start: Duration::from_secs(5), cancel: Duration::from_secs(5) };
    ChildProtocol::new(launch, version, timeouts, services)
}

impl ChildProtocol {
    /// Returns what was sent since the last call: the methods of requests, and complete responses.
    fn sent(&mut self) -> Vec<String> {
        let read = |message: Vec<u8>| serde_json::from_slice::<Value>(&message).unwrap();
        let brief = |message: Value| match message["method"].as_str() {
            Some(method) => method.to_owned(),
            None => message.get("result").or(message.get("error")).unwrap().to_string(),
        };
        self.outgoing.drain(..).map(read).map(brief).collect()
    }

    fn answered(&mut self, result: Value) {
        let id = self.last_id;
        self.take(json!({ "jsonrpc": "2.0", "id": id, "result": result })).unwrap();
    }

    fn refused(&mut self, code: i32) -> Result<(), AgentFailure> {
        let id = self.last_id;
        self.take(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } }))
    }

    fn reported(&mut self) -> Vec<AgentReport> {
        self.reports.drain(..).collect()
    }
}

fn capable(load: bool, resume: bool) -> Value {
    let sessions = if resume { json!({ "resume": {} }) } else { json!({}) };
    json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": load, "sessionCapabilities": sessions } })
}

#[tokio::test]
async fn a_session_is_resumed_or_loaded_or_replaced_with_a_summary() {
    let transport = McpTransport::Http { url: "http://127.0.0.1:9/".to_owned(), headers: Vec::new() };
    let servers = vec![McpServer { name: "web".to_owned(), transport }];
    let mut child = protocol_for(AgentLaunch { servers: servers.clone(), ..launch(Some("old")) }, 1);
    child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("hi")], editor: None });
    child.answered(capable(true, true));
    child.refused(-32602).unwrap();
    child.refused(-32602).unwrap();
    assert_eq!(child.sent(), ["initialize", "session/resume", "session/load", "session/new"]);
    let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask" }, { "id": "code" }] });
    child.answered(json!({ "sessionId": "new", "modes": modes }));
    // The earlier setting is applied again, and the prompt begins with the summary that the child
    // does not know.
    let prompt: Value = serde_json::from_slice(&child.outgoing[1]).unwrap();
    assert_eq!(prompt["params"]["prompt"][0]["text"], "Before this: x");
    assert_eq!(child.sent(), ["session/set_mode", "session/prompt"]);
    // The first prompt of the session has named the server that the child cannot use.
    let reports = child.reported();
    assert!(matches!(&reports[..], [AgentReport::Opened { session, fresh: true, .. }] if session == "new"));

    let mut child = protocol(Some("old"));
    child.answered(capable(true, true));
    child.answered(json!({}));
    assert_eq!(child.sent(), ["initialize", "session/resume"]);
    let reports = child.reported();
    assert!(matches!(&reports[..], [AgentReport::Opened { session, fresh: false, .. }] if session == "old"));
}

#[tokio::test]
async fn the_servers_that_a_child_cannot_use_are_named_once_with_the_first_prompt() {
    let transport = McpTransport::Http { url: "http://127.0.0.1:9/".to_owned(), headers: Vec::new() };
    let servers = vec![McpServer { name: "web".to_owned(), transport }];
    // The child is new, or is started again and loses its session before the first prompt.
    for (earlier, refusals) in [(None, 0), (Some("old"), 2)] {
        let mut child = protocol_for(AgentLaunch { servers: servers.clone(), summary: None, ..launch(earlier) }, 1);
        child.answered(capable(true, true));
        (0..refusals).for_each(|_| child.refused(-32602).unwrap());
        child.answered(json!({ "sessionId": "new" }));
        assert!(matches!(&child.reported()[..], [AgentReport::Opened { .. }]));
        child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("hi")], editor: None });
        let named = child.reported();
        assert!(matches!(&named[..], [AgentReport::Notice(text)] if text.contains(": web.")), "{named:?}");
        child.answered(json!({ "stopReason": "end_turn" }));
        child.reported();
        child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("again")], editor: None });
        assert_eq!(child.reported(), []);
    }
}

#[tokio::test]
async fn updates_that_a_child_replays_are_dropped() {
    let mut child = protocol(Some("old"));
    child.answered(capable(true, false));
    let update = |child: &mut ChildProtocol, text: &str| {
        let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": "old", "update": chunk });
        child.take(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).unwrap();
    };
    let load = child.last_id;
    update(&mut child, "old news");
    child.take(json!({ "jsonrpc": "2.0", "id": load, "result": {} })).unwrap();
    update(&mut child, "news");
    let texts: Vec<_> = child.reported().into_iter().filter(|report| report.work_weight().is_some()).collect();
    assert!(matches!(&texts[..], [AgentReport::Text { text, .. }] if text == "news"));
}

#[tokio::test]
async fn a_child_that_wants_a_login_fails_with_its_methods() {
    let mut child = protocol(None);
    child.answered(json!({ "protocolVersion": 1, "authMethods": [{ "id": "browser", "name": "Browser" }] }));
    let failure = child.refused(-32000).unwrap_err();
    assert_eq!(failure.kind, AgentFailureKind::Authentication);
    assert_eq!(failure.data["authMethods"][0]["id"], "browser");
}

#[tokio::test]
async fn another_version_of_the_protocol_is_refused() {
    let mut child = protocol(None);
    let id = child.last_id;
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "protocolVersion": 7 } });
    assert!(child.take(answer).unwrap_err().message.contains("version 7"));
}

#[tokio::test]
async fn a_child_that_refuses_a_version_is_offered_the_other_one_once() {
    let offered = |child: &mut ChildProtocol| -> Vec<Value> {
        let read = |message: Vec<u8>| serde_json::from_slice::<Value>(&message).unwrap();
        child.outgoing.drain(..).map(read).map(|message| message["params"]["protocolVersion"].clone()).collect()
    };
    for (version, code) in [(1, -32022), (2, -32022), (2, -32602)] {
        let mut child = protocol_for(launch(None), version);
        child.refused(code).unwrap();
        assert_eq!(offered(&mut child), [json!(version), json!(3 - version)]);
        assert!(child.refused(code).is_err());
    }
    let mut child = protocol_for(launch(None), 1);
    assert!(child.refused(-32603).is_err(), "the version is not the reason");
}

fn second() -> Value {
    json!({ "protocolVersion": 2, "info": { "name": "second", "version": "1" }, "capabilities": { "session": {} } })
}

#[tokio::test]
async fn a_child_is_spoken_to_in_the_version_that_it_answers() {
    let mut child = protocol_for(launch(None), 2);
    child.answered(second());
    child.answered(json!({ "sessionId": "c1", "configOptions": [{ "configId": "model", "name": "Model" }] }));
    child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("hi")], editor: None });
    assert_eq!(child.sent(), ["initialize", "session/new", "session/prompt"]);
    let opened = child.reported();
    assert!(
        matches!(&opened[..], [AgentReport::Opened { offer, .. }] if offer.options.as_ref().unwrap()[0]["id"] == "model")
    );
    child.answered(json!({ "messageId": "u1" }));
    assert_eq!(child.reported(), [], "the prompt is inserted, and not over");
    let update = |child: &mut ChildProtocol, update: Value| {
        let params = json!({ "sessionId": "c1", "update": update });
        child.take(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).unwrap();
    };
    update(&mut child, json!({ "sessionUpdate": "_weather", "sky": "blue" }));
    assert!(matches!(&child.reported()[..], [AgentReport::Relayed { version: 2, .. }]));
    ask(&mut child, 70);
    child.reported();
    child.take(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 70 } })).unwrap();
    assert_eq!(child.sent(), [r#"{"outcome":{"outcome":"cancelled"}}"#], "in version 2 it has an outcome");
    child.reported();
    update(&mut child, json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" }));
    let ended = child.reported();
    assert!(matches!(ended.last(), Some(AgentReport::Ended { reason: StopReason::EndTurn, .. })), "{ended:?}");

    // It was offered version 2, and speaks version 1.
    let mut child = protocol_for(launch(None), 2);
    child.answered(capable(false, false));
    assert!(child.second.is_none());
}

fn working() -> ChildProtocol {
    working_in("/work".into())
}

fn working_in(cwd: std::path::PathBuf) -> ChildProtocol {
    let mut child = protocol_for(AgentLaunch { cwd, ..launch(None) }, 1);
    child.answered(capable(false, false));
    child.answered(json!({ "sessionId": "c1" }));
    child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("hi")], editor: None });
    child.sent();
    child.reported();
    child
}

fn ask(child: &mut ChildProtocol, id: u64) {
    let option = json!({ "optionId": "yes", "name": "Yes", "kind": "allow_once" });
    let params = json!({ "sessionId": "c1", "toolCall": { "toolCallId": "t", "title": "T" }, "options": [option] });
    child
        .take(json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params }))
        .unwrap();
}

#[tokio::test]
async fn a_question_is_answered_with_the_childs_own_option_or_cancelled_with_the_turn() {
    let mut child = working();
    ask(&mut child, 7);
    let [AgentReport::Called { first: true, .. }, AgentReport::Asked { question, options, .. }] = &child.reported()[..]
    else {
        panic!("no question")
    };
    assert_eq!(options[0].id, "yes");
    child.handle_session_request(SessionRequest::Answer { question: question.clone(), option: Some("yes".to_owned()) });
    assert_eq!(child.sent(), [r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#]);
    ask(&mut child, 8);
    child.handle_session_request(SessionRequest::Cancel);
    assert_eq!(child.sent(), ["session/cancel", r#"{"outcome":{"outcome":"cancelled"}}"#]);
    assert!(child.deadline.is_some(), "a child that does not end its turn is ended");
    child.reported();
    child.answered(json!({ "stopReason": "cancelled" }));
    assert_eq!(child.reported(), [AgentReport::Ended { reason: StopReason::Cancelled, usage: None }]);
    assert!(child.deadline.is_none());
}

#[tokio::test(start_paused = true)]
async fn cancelling_again_does_not_give_a_child_more_time() {
    let mut child = working();
    child.handle_session_request(SessionRequest::Cancel);
    let deadline = child.deadline.as_ref().unwrap().at;
    assert_eq!(child.sent(), ["session/cancel"]);
    advance(Duration::from_secs(3)).await;
    child.handle_session_request(SessionRequest::Cancel);
    assert_eq!(child.deadline.as_ref().unwrap().at, deadline);
    assert_eq!(child.sent(), [] as [&str; 0]);
    // The next prompt has its own deadline.
    child.answered(json!({ "stopReason": "cancelled" }));
    child.handle_session_request(SessionRequest::Prompt { content: vec![Content::text("go on")], editor: None });
    child.handle_session_request(SessionRequest::Cancel);
    assert_eq!(child.sent(), ["session/prompt", "session/cancel"]);
    assert!(child.deadline.as_ref().unwrap().at > deadline);
}

#[tokio::test]
async fn a_question_that_the_child_withdraws_is_closed() {
    let mut child = working();
    ask(&mut child, 7);
    child.reported();
    child.take(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 7 } })).unwrap();
    assert!(matches!(&child.reported()[..], [AgentReport::Withdrew(_)]));
    assert!(child.sent()[0].contains("-32800"));
}

/// An editor that shows forms and never answers them.
struct FormEditor;

impl Editor for FormEditor {
    fn capabilities(&self) -> EditorCapabilities {
        EditorCapabilities { forms: true, ..EditorCapabilities::default() }
    }

    fn connection(&self) -> domain::ConnectionId {
        domain::ConnectionId::new()
    }

    fn read_text(
        &self,
        _: std::path::PathBuf,
        _: Option<LineRange>,
    ) -> BoxFuture<'static, Result<String, EditorError>> {
        unreachable!()
    }

    fn write_text(&self, _: std::path::PathBuf, _: String) -> BoxFuture<'static, Result<(), EditorError>> {
        unreachable!()
    }

    fn open_terminal(&self, _: TerminalRequest) -> BoxFuture<'static, Result<TerminalId, EditorError>> {
        unreachable!()
    }

    fn terminal_output(&self, _: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>> {
        unreachable!()
    }

    fn terminal_exit(&self, _: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>> {
        unreachable!()
    }

    fn kill_terminal(&self, _: TerminalId) -> BoxFuture<'static, Result<(), EditorError>> {
        unreachable!()
    }

    fn release_terminal(&self, _: TerminalId) {}

    fn elicit(&self, _: Elicitation) -> BoxFuture<'static, Result<Elicited, EditorError>> {
        Box::pin(std::future::pending())
    }
}

fn prompt_with_forms(child: &mut ChildProtocol) {
    child.handle_session_request(SessionRequest::Prompt {
        content: vec![Content::text("hi")],
        editor: Some(Arc::new(FormEditor)),
    });
    child.sent();
}

fn show_form(child: &mut ChildProtocol, id: u64) {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let params = json!({ "sessionId": "c1", "message": "Name?", "mode": "form", "requestedSchema": schema });
    child.take(json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })).unwrap();
}

/// Answers the child's requests whose results are ready.
fn finish_served(child: &mut ChildProtocol) {
    while let Some(Some((id, result))) = child.open.served.next().now_or_never() {
        child.finish(&id, result);
    }
}

#[tokio::test]
async fn a_form_that_the_child_withdraws_is_closed() {
    for (is_second, answer) in [(false, "-32800"), (true, r#"{"action":"cancel"}"#)] {
        let mut child = protocol(None);
        child.answered(if is_second { second() } else { capable(false, false) });
        child.answered(json!({ "sessionId": "c1" }));
        prompt_with_forms(&mut child);
        child.reported();
        show_form(&mut child, 7);
        show_form(&mut child, 8);
        assert_eq!(child.reported(), [AgentReport::Waits(true)]);
        let withdraw =
            |id: u64| json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } });
        child.take(withdraw(7)).unwrap();
        finish_served(&mut child);
        assert_eq!(child.reported(), [], "another form is open");
        assert!(matches!(&child.sent()[..], [sent] if sent.contains(answer)));
        child.take(withdraw(8)).unwrap();
        finish_served(&mut child);
        assert_eq!(child.reported(), [AgentReport::Waits(false)]);
        assert!(matches!(&child.sent()[..], [sent] if sent.contains(answer)));
    }
}

#[tokio::test]
async fn a_form_that_comes_after_the_cancellation_is_cancelled_at_once() {
    let mut child = working();
    child.answered(json!({ "stopReason": "end_turn" }));
    prompt_with_forms(&mut child);
    show_form(&mut child, 7);
    child.reported();
    child.handle_session_request(SessionRequest::Cancel);
    assert_eq!(child.reported(), [AgentReport::Waits(false)]);
    finish_served(&mut child);
    assert_eq!(child.sent(), ["session/cancel", r#"{"action":"cancel"}"#]);
    show_form(&mut child, 8);
    assert_eq!(child.sent(), [r#"{"action":"cancel"}"#]);
    assert_eq!(child.reported(), []);
}

#[tokio::test]
async fn a_form_of_the_next_prompt_waits_although_the_last_prompt_left_one_open() {
    let mut child = working();
    child.answered(json!({ "stopReason": "end_turn" }));
    prompt_with_forms(&mut child);
    show_form(&mut child, 7);
    child.reported();
    child.answered(json!({ "stopReason": "end_turn" }));
    prompt_with_forms(&mut child);
    child.reported();
    show_form(&mut child, 8);
    assert_eq!(child.reported(), [AgentReport::Waits(true)]);
    finish_served(&mut child);
    assert_eq!(child.sent(), [r#"{"action":"cancel"}"#], "the first form is answered late");
    assert_eq!(child.reported(), [], "and the second one is still open");
}

#[tokio::test]
async fn a_setting_is_reported_when_the_child_has_accepted_it() {
    let mut child = working();
    let (link, mut requests) = Link::new();
    let mut answer = link.configure(AgentSetting::Mode("code".to_owned()));
    child.handle_session_request(requests.try_recv().unwrap());
    assert_eq!(child.sent(), ["session/set_mode"]);
    assert_eq!((&mut answer).now_or_never(), None);
    child.answered(json!({}));
    assert_eq!(answer.await, Ok(Some(OfferPart::Mode("code".to_owned()))));
    assert_eq!(child.reported(), []);
}

#[tokio::test]
async fn more_requests_than_the_limit_are_refused() {
    let mut child = working();
    for id in 0..100 {
        ask(&mut child, 1000 + id);
    }
    assert_eq!(child.open.questions.len(), SERVED);
    assert_eq!(child.sent().len(), 100 - SERVED);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_reads_late_gets_all_answers_and_until_then_few_are_held() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("large"), "x".repeat(4 << 20)).unwrap();
    let mut child = working_in(folder.path().to_owned());
    for id in 0..SERVED {
        let params = json!({ "sessionId": "c1", "path": folder.path().join("large") });
        let request = json!({ "jsonrpc": "2.0", "id": 1000 + id, "method": "fs/read_text_file", "params": params });
        child.take(request).unwrap();
    }
    let (ours, theirs) = tokio::io::duplex(1024);
    let (from_child, to_child) = tokio::io::split(ours);
    let (_link, mut requests) = Link::new();
    let (reports, _reports) = tokio::sync::mpsc::channel(1);
    let pipes = Pipes { from_child, to_child };
    let mut running = Box::pin(run(child, pipes, &mut requests, &reports));
    // The paused clock advances only when every task is idle. The responses together exceed what
    // may wait for a child.
    let early = tokio::time::timeout(Duration::from_secs(1), &mut running).await;
    assert!(early.is_err(), "it was given up: {early:?}");
    let count = async {
        let mut lines = tokio::io::BufReader::new(theirs);
        for _ in 0..SERVED {
            let mut line = String::new();
            tokio::io::AsyncBufReadExt::read_line(&mut lines, &mut line).await.unwrap();
            assert!(line.len() > 4 << 20, "{}", &line[..200]);
        }
    };
    tokio::select! {
        () = count => {}
        failure = &mut running => panic!("{failure:?}"),
    }
}
