//! Calls that need the user's approval every time, whatever the session's approval setting: a
//! change of mode, and effects that cannot be undone.

use serde_json::json;
use testkit::Step;

use crate::project::Project;

async fn unasked(mode: &str, answers: Vec<Vec<Step>>) -> Project {
    tokio::time::pause();
    let mut at = Project::new(json!({}), &[("a.txt", "a\n")], answers, |_| {}).await;
    at.configure("approval", "never").await;
    at.configure("mode", mode).await;
    at
}

fn switch_then_write(mode: &str) -> Vec<Vec<Step>> {
    vec![
        vec![Step::call("switch_mode", json!({ "mode": mode, "reason": "to write" })), Step::end()],
        vec![Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" })), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]
}

#[actix::test]
async fn the_agent_changes_the_mode_only_with_the_users_approval() {
    let mut at = unasked("read-only", switch_then_write("safe")).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let question = at.zed.receive("session/request_permission").await;
    let options = question["params"]["options"].as_array().unwrap();
    let kinds: Vec<&str> = options.iter().map(|option| option["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    assert_eq!(question["params"]["toolCall"]["kind"], "switch_mode");
    at.zed.choose(&question, "allow_once").await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("b.txt"), "b\n");
    let transcript = at.transcript();
    assert!(transcript.contains(r#"{"sessionUpdate":"current_mode_update","currentModeId":"safe"}"#), "{transcript}");
    assert!(transcript.contains("results: The mode is `safe` now."), "{transcript}");
}

#[actix::test]
async fn a_mode_change_that_the_user_rejects_has_no_effect() {
    let mut at = unasked("read-only", switch_then_write("full")).await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.choose(&question, "reject_once").await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("b.txt").exists());
    let transcript = at.transcript();
    assert!(!transcript.contains("current_mode_update"), "{transcript}");
    assert!(transcript.contains("the session's mode `read-only` leaves out `write_file`"), "{transcript}");
}

#[actix::test]
async fn a_command_that_names_acpds_files_asks_under_every_approval_setting() {
    let answers =
        vec![vec![Step::call("bash", json!({ "command": "cat state/acpd/keys/one" })), Step::end()], vec![Step::end()]];
    tokio::time::pause();
    let place = |settings: &mut tools::ToolSettings| settings.protected_paths = vec!["/somewhere/state/acpd".into()];
    let mut at = Project::new(json!({}), &[], answers, place).await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "look").await;
    let question = at.zed.receive("session/request_permission").await;
    assert_eq!(question["params"]["options"].as_array().unwrap().len(), 2);
    at.zed.choose(&question, "reject_once").await;
    at.zed.answer(prompt).await;
}
