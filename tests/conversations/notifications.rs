//! The operator's notification command, which runs when a session waits or is done and no client is
//! watching.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::Step;

use crate::project::Project;

async fn noticed(when: &str, answers: Vec<Vec<Step>>) -> Project {
    let command = "cat > notification";
    let at = Project::new(json!({}), &[], answers, |settings| {
        settings.notify = serde_json::from_value(json!({ "command": command, "when": when })).unwrap();
    })
    .await;
    // A pipe lets the test wait for the command itself instead of for a fixed time.
    assert!(Command::new("mkfifo").arg(at.folder.path().join("notification")).status().unwrap().success());
    at
}

impl Project {
    async fn notification(&self) -> Value {
        let pipe = self.folder.path().join("notification");
        let bytes = tokio::task::spawn_blocking(move || fs::read(pipe).unwrap()).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

fn write_then_done() -> Vec<Vec<Step>> {
    vec![
        vec![Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]
}

#[actix::test]
async fn unattended_questions_and_turn_ends_cause_notifications() {
    let mut at = noticed("unattended", write_then_done()).await;
    at.zed.prompt(&at.session, "write it").await;
    at.zed.receive("session/request_permission").await;
    at.zed.close().await;
    let (session, cwd) = (at.session.clone(), at.folder.path().to_owned());
    let waiting = json!({
        "event": "waiting", "about": "Create b.txt", "session": session, "title": "write it", "cwd": cwd, "attended": false,
    });
    assert_eq!(at.notification().await, waiting);
    let mut ctl = at.scene.client("ctl");
    ctl.call("_acpd/answer", json!({ "sessionId": session, "optionId": "allow_once" })).await;
    let ended = json!({
        "event": "turn_ended", "about": "end_turn", "session": session, "title": "write it", "cwd": cwd,
        "attended": false,
    });
    assert_eq!(at.notification().await, ended);
}

#[actix::test]
async fn attached_clients_cause_notifications_only_if_configured() {
    let answers = vec![vec![Step::text("Done."), Step::end()]];
    let mut at = noticed("always", answers).await;
    let prompt = at.zed.prompt(&at.session, "hello").await;
    at.zed.answer(prompt).await;
    let notification = at.notification().await;
    assert_eq!((&notification["event"], &notification["attended"]), (&json!("turn_ended"), &json!(true)));
}
