//! The protocol's own SDK as an editor: an independent client that starts the bridge as it starts
//! any agent.

use std::fs;
use std::future::Future;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, SessionUpdate,
    StopReason, TextContent,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};

use agent_client_protocol::v2;
use serde_json::json;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::harness::{DEADLINE, Home};
use crate::providers;

/// Starts the bridge through `env`, with only the variables of the home, because the SDK passes on
/// its own environment.
fn bridge(home: &Home) -> AcpAgent {
    let command = home.acpd(&["acp"]);
    let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
    let variables = command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", text(name), text(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(text);
    // The key of the provider that some of the tests configure.
    AcpAgent::new(AcpAgentConfig::new("env").arg("-i").args(variables).arg("FAKE_KEY=sk-sdk-0123456789").args(words))
}

#[test]
fn the_official_sdk_drives_a_turn_with_a_permission() {
    let home = Home::new();
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let (updates, questions) = (received.clone(), received.clone());
    let work = home.work();
    let talk = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                updates.lock().unwrap().push(brief(&notification.update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: RequestPermissionRequest, responder, _| {
                questions
                    .lock()
                    .unwrap()
                    .push(format!("asked about {}", asked.tool_call.fields.title.unwrap_or_default()));
                let allow = asked.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce).unwrap();
                let chosen = SelectedPermissionOutcome::new(allow.option_id.clone());
                responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(bridge(&home), |agent: ConnectionTo<Agent>| async move {
            let hello = agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            assert_eq!(hello.protocol_version, ProtocolVersion::V1);
            assert_eq!(hello.agent_info.unwrap().name, "acpd");
            let session = agent.send_request(NewSessionRequest::new(work)).block_task().await?.session_id;
            let text = ContentBlock::Text(TextContent::new("write hello.txt with Hello"));
            let answer = agent.send_request(PromptRequest::new(session, vec![text])).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            Ok(())
        });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(DEADLINE, talk).await });
    let received = received.lock().unwrap();
    ended.unwrap_or_else(|_| panic!("the turn did not end: {received:#?}")).unwrap();
    assert_eq!(fs::read_to_string(home.work().join("hello.txt")).unwrap().trim_end(), "Hello");
    let at = |what: &str| {
        received.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {received:#?}"))
    };
    let order = [
        at("commands"),
        at("call Pending"),
        at("asked about"),
        at("call InProgress"),
        at("call Completed"),
        at("says"),
    ];
    assert!(order.is_sorted(), "{received:#?}");
}

fn brief(update: &SessionUpdate) -> String {
    match update {
        SessionUpdate::AvailableCommandsUpdate(_) => "commands".to_owned(),
        SessionUpdate::ToolCall(call) => format!("call {:?}", call.status),
        SessionUpdate::ToolCallUpdate(update) => format!("call {:?}", update.fields.status.unwrap_or_default()),
        SessionUpdate::AgentMessageChunk(chunk) => format!("says {:?}", chunk.content),
        other => format!("{other:?}"),
    }
}

/// Reads updates until one is wanted.
async fn until<T>(
    updates: &mut UnboundedReceiver<v2::schema::SessionUpdate>,
    wanted: impl Fn(&v2::schema::SessionUpdate) -> Option<T>,
) -> T {
    loop {
        let update = updates.recv().await.expect("the agent stays");
        if let Some(found) = wanted(&update) {
            return found;
        }
    }
}

fn idle(update: &v2::schema::SessionUpdate) -> Option<v2::schema::IdleStateUpdate> {
    match update {
        v2::schema::SessionUpdate::StateUpdate(v2::schema::StateUpdate::Idle(idle)) => Some(idle.clone()),
        _ => None,
    }
}

/// The terminals that a state lists as running in the background.
fn background(idle: &v2::schema::IdleStateUpdate) -> Vec<String> {
    let terminal = |work: &v2::schema::BackgroundWork| match work {
        v2::schema::BackgroundWork::Terminal(terminal) => terminal.terminal_id.to_string(),
        other => panic!("other work: {other:?}"),
    };
    idle.background.iter().flatten().map(terminal).collect()
}

/// Connects a client of version 2, which allows whatever it is asked, and lets it talk.
fn converse<F>(
    home: &Home,
    talk: impl FnOnce(v2::ConnectionTo<Agent>, UnboundedReceiver<v2::schema::SessionUpdate>) -> F,
) where
    F: Future<Output = Result<(), agent_client_protocol::Error>> + Send,
{
    let (sender, updates): (UnboundedSender<v2::schema::SessionUpdate>, _) = unbounded_channel();
    let client = Client
        .v2()
        .name("sdk")
        .on_receive_notification(
            async move |notification: v2::schema::UpdateSessionNotification, _: v2::ConnectionTo<Agent>| {
                sender.send(notification.update).map_err(agent_client_protocol::Error::into_internal_error)
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: v2::schema::RequestPermissionRequest,
                        responder: v2::Responder<v2::schema::RequestPermissionResponse>,
                        _: v2::ConnectionTo<Agent>| {
                assert!(matches!(asked.subject, Some(v2::schema::RequestPermissionSubject::Command(_))), "{asked:?}");
                let is_once =
                    |option: &&v2::schema::PermissionOption| option.kind == v2::schema::PermissionOptionKind::AllowOnce;
                let allow = asked.options.iter().find(is_once).unwrap();
                let chosen = v2::schema::SelectedPermissionOutcome::new(allow.option_id.clone());
                let outcome = v2::schema::RequestPermissionOutcome::Selected(chosen);
                responder.respond(v2::schema::RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(bridge(home), |agent: v2::ConnectionTo<Agent>| talk(agent, updates));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, client).await }).expect("the talk ends").unwrap();
}

async fn initialize(agent: &v2::ConnectionTo<Agent>) -> Result<(), agent_client_protocol::Error> {
    let info = v2::schema::Implementation::new("sdk", "1");
    let hello = agent.send_request(v2::schema::InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
    assert_eq!(hello.protocol_version, ProtocolVersion::V2);
    assert!(hello.capabilities.session.is_some());
    Ok(())
}

fn prompt(session: &v2::schema::SessionId, text: &str) -> v2::schema::PromptRequest {
    let text = v2::schema::ContentBlock::Text(v2::schema::TextContent::new(text));
    v2::schema::PromptRequest::new(session.clone(), vec![text])
}

#[test]
fn the_rust_sdk_of_version_2_works_with_the_daemon() {
    let serve = json!({ "command": "echo up; sleep 1000", "background": true });
    let waiting = ModelAnswer::text("I wait for something.").sse(Dialect::Chat);
    let server = Server::script(vec![
        Reply::stream(&[&ModelAnswer::new(vec![AnswerPart::Call("bash", serve)]).sse(Dialect::Chat)]),
        Reply::stream(&[&ModelAnswer::text("Started.").sse(Dialect::Chat)]),
        Reply::begun(&[&waiting[..waiting.len() / 2]]).then(Action::UntilClosed),
    ]);
    let home = providers::home("openai", &server);
    let work = home.work();
    let opened: Arc<Mutex<Option<(v2::schema::SessionId, String)>>> = Arc::default();
    let open = opened.clone();
    converse(&home, |agent, mut updates| async move {
        initialize(&agent).await?;
        let request = v2::schema::NewSessionRequest::new(work);
        let session = agent.send_request(request).block_task().await?.session_id;
        let inserted = agent.send_request(prompt(&session, "start it")).block_task().await?;
        let shown = until(&mut updates, |update| match update {
            v2::schema::SessionUpdate::UserMessage(message) => Some(message.message_id.clone()),
            _ => None,
        });
        assert_eq!(shown.await, inserted.message_id);
        let ended = until(&mut updates, idle).await;
        assert!(matches!(ended.stop_reason, Some(v2::schema::StopReason::EndTurn)), "{ended:?}");
        let [terminal] = background(&ended).try_into().expect("one command in the background");
        agent.send_request(prompt(&session, "wait")).block_task().await?;
        until(&mut updates, |update| matches!(update, v2::schema::SessionUpdate::AgentMessageChunk(_)).then_some(()))
            .await;
        agent.send_notification(v2::schema::CancelSessionNotification::new(session.clone()))?;
        let ended = until(&mut updates, idle).await;
        assert!(matches!(ended.stop_reason, Some(v2::schema::StopReason::Cancelled)), "{ended:?}");
        *open.lock().unwrap() = Some((session, terminal));
        Ok(())
    });
    // Another bridge, as an editor that was restarted: the command still runs.
    let (session, terminal) = opened.lock().unwrap().clone().unwrap();
    let work = home.work();
    converse(&home, |agent, mut updates| async move {
        initialize(&agent).await?;
        let start = v2::schema::ReplayFrom::Start(v2::schema::ReplayFromStart::new());
        let resume = v2::schema::ResumeSessionRequest::new(session.clone(), work).replay_from(start);
        agent.send_request(resume).block_task().await?;
        let state = until(&mut updates, idle).await;
        assert_eq!(background(&state), std::slice::from_ref(&terminal));
        let stop = v2::schema::CancelTerminalRequest::new(session.clone(), terminal);
        agent.send_request(stop).block_task().await?;
        assert_eq!(background(&until(&mut updates, idle).await), [""; 0]);
        agent.send_request(v2::schema::CloseSessionRequest::new(session)).block_task().await?;
        Ok(())
    });
}
