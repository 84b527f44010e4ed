//! The protocol's own SDK as an editor: an independent client that starts the bridge as it starts
//! any agent.

use std::fs;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, SessionUpdate,
    StopReason, TextContent,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};

use crate::harness::{DEADLINE, Home};

/// Starts the bridge through `env`, with only the variables of the home, because the SDK passes on
/// its own environment.
fn bridge(home: &Home) -> AcpAgent {
    let command = home.acpd(&["acp"]);
    let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
    let variables = command.get_envs().filter_map(|(name, value)| Some(format!("{}={}", text(name), text(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(text);
    AcpAgent::new(AcpAgentConfig::new("env").arg("-i").args(variables).args(words))
}

#[test]
fn the_official_sdk_drives_a_turn_with_a_permission() {
    let home = Home::new();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (updates, questions) = (heard.clone(), heard.clone());
    let work = home.work();
    let talk = Client
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _| {
                updates.lock().unwrap().push(brief(&told.update));
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
    let heard = heard.lock().unwrap();
    ended.unwrap_or_else(|_| panic!("the turn did not end: {heard:#?}")).unwrap();
    assert_eq!(fs::read_to_string(home.work().join("hello.txt")).unwrap().trim_end(), "Hello");
    let at = |what: &str| {
        heard.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {heard:#?}"))
    };
    let order = [
        at("commands"),
        at("call Pending"),
        at("asked about"),
        at("call InProgress"),
        at("call Completed"),
        at("says"),
    ];
    assert!(order.is_sorted(), "{heard:#?}");
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
