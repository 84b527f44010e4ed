//! A switch of the model or thought level in the middle of a turn takes effect with its next
//! request.

use std::sync::Arc;

use domain::ThoughtLevel;
use domain::model::ModelInfo;
use serde_json::json;
use testkit::ModelList;
use testkit::{Editor, Scene, Script, Step};
use tools::Registry;

/// Two models, of which the first is the default.
fn two_models(first: Vec<Vec<Step>>, second: Vec<Vec<Step>>) -> (Script, Script, Arc<ModelList>) {
    let (first, second) = (Script::new("first", first), Script::new("second", second));
    let shelf = ModelList::new(vec![Arc::new(first.clone()), Arc::new(second.clone())], "first");
    (first, second, Arc::new(shelf))
}

async fn set(zed: &mut Editor, session: &str, option: &str, value: &str) {
    let params = json!({ "sessionId": session, "configId": option, "value": value });
    let answer = zed.call("session/set_config_option", params).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[actix::test]
async fn a_changed_model_or_thought_level_applies_from_the_next_request() {
    let touch = || vec![Step::call("touch", json!({})), Step::end()];
    let (first, second, shelf) = two_models(vec![touch()], vec![touch(), vec![Step::text("Done."), Step::end()]]);
    let scene = Scene::adjusted(|ports| ports.models = shelf);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    let question = zed.receive("session/request_permission").await;
    set(&mut zed, &session, "model", "second").await;
    set(&mut zed, &session, "thought_level", "high").await;
    zed.choose(&question, "allow_once").await;
    let question = zed.receive("session/request_permission").await;
    set(&mut zed, &session, "thought_level", "low").await;
    zed.choose(&question, "allow_once").await;
    assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    let thoughts = |script: &Script| script.requests().iter().map(|request| request.thought).collect::<Vec<_>>();
    assert_eq!(thoughts(&first), [ThoughtLevel::Medium]);
    assert_eq!(thoughts(&second), [ThoughtLevel::High, ThoughtLevel::Low]);
}

#[actix::test]
async fn only_a_model_that_is_trained_on_patches_gets_the_tool_for_them() {
    let look = || vec![Step::call("list_files", json!({ "path": "." })), Step::end()];
    let first = Script::new("first", vec![]);
    let patching = ModelInfo { patches: true, ..first.info().clone() };
    let first = Script::described(patching, vec![look()]);
    let second = Script::new("second", vec![]);
    let shelf = ModelList::new(vec![Arc::new(first.clone()), Arc::new(second.clone())], "first");
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::adjusted(|ports| {
        ports.models = Arc::new(shelf);
        ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
    });
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    for (prompt, script) in [("one", &first), ("two", &second)] {
        script.push(vec![Step::text("Done."), Step::end()]);
        let prompt = zed.prompt(&session, prompt).await;
        zed.answer(prompt).await;
        set(&mut zed, &session, "model", "second").await;
    }
    let offers = |script: &Script| {
        let requests = script.requests();
        assert!(requests.iter().all(|request| request.tools.iter().any(|tool| tool.name == "edit_file")));
        requests.iter().map(|request| request.tools.iter().any(|tool| tool.name == "apply_patch")).collect::<Vec<_>>()
    };
    assert_eq!((offers(&first), offers(&second)), (vec![true, true], vec![false]));
}

#[actix::test]
async fn a_sub_agent_without_its_own_model_follows_the_sessions_model() {
    let report = || vec![Step::text("Read."), Step::end()];
    for (given, to_second) in [(json!({}), 2), (json!({ "model": "first" }), 1)] {
        let folder = tempfile::tempdir().unwrap();
        let mut input = json!({ "task": "Write a file.", "tools": "all" });
        input.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        let write = Step::call("write_file", json!({ "path": "a.txt", "content": "a" }));
        let first = vec![vec![Step::call("agent", input), Step::end()], vec![write, Step::end()], report()];
        let (first, second, shelf) = two_models(first, vec![report(), report()]);
        let scene = Scene::adjusted(|ports| {
            ports.models = shelf;
            ports.toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
        });
        let mut zed = scene.editor("zed").await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        let prompt = zed.prompt(&session, "go").await;
        let may_delegate = zed.receive("session/request_permission").await;
        zed.choose(&may_delegate, "allow_once").await;
        let may_write = zed.receive("session/request_permission").await;
        set(&mut zed, &session, "model", "second").await;
        zed.choose(&may_write, "allow_once").await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
        assert_eq!((first.requests().len(), second.requests().len()), (4 - to_second, to_second), "{given}");
    }
}
