//! Getting a key: from the environment, by a login in the browser, and forgetting it.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Editor, Scene};

async fn client_that_can(scene: &Scene, can: Value) -> Editor {
    let mut zed = scene.client("zed");
    zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can })).await;
    scene.transcript.take();
    zed
}

#[actix::test]
async fn the_methods_on_offer_are_those_that_the_client_can_use() {
    let scene = Scene::new(vec![]);
    let offered = |answer: &Value| -> Vec<String> {
        let methods = answer["result"]["authMethods"].as_array().unwrap();
        methods.iter().map(|method| method["id"].as_str().unwrap().to_owned()).collect()
    };
    let plain = scene.client("vim").initialize().await;
    assert_eq!(offered(&plain), ["env", "github"]);
    let params = json!({ "protocolVersion": 1, "clientCapabilities": { "auth": { "terminal": true } } });
    let able = scene.client("zed").call("initialize", params).await;
    assert_eq!(offered(&able), ["env", "github", "terminal"]);
}

#[actix::test]
async fn a_key_in_the_environment_authenticates_and_a_missing_one_is_named() {
    let scene = Scene::new(vec![]);
    let mut zed = client_that_can(&scene, json!({})).await;
    zed.call("authenticate", json!({ "methodId": "env" })).await;
    zed.call("_acpd/hello", json!({ "version": "0", "environment": { "SCRIPT_KEY": "secret" } })).await;
    zed.call("authenticate", json!({ "authMethodId": "env" })).await;
    zed.call("authenticate", json!({ "methodId": "terminal" })).await;
    zed.call("authenticate", json!({ "methodId": "nonsense" })).await;
    zed.call("authenticate", json!({})).await;
    zed.call("logout", json!({})).await;
    expect![[r#""#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_login_opens_a_page_where_the_client_can_and_ends_with_it() {
    let scene = Scene::new(vec![]);
    let mut zed = client_that_can(&scene, json!({ "elicitation": { "url": {} } })).await;
    let login = zed.request("authenticate", json!({ "methodId": "github" })).await;
    let page = zed.hear("elicitation/create").await;
    zed.reply(&page, json!({ "action": "accept" })).await;
    zed.silence().await;
    scene.wallet.finish_login(Ok(()));
    zed.answer(login).await;
    expect![[r#""#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn without_pages_a_login_is_told_in_an_open_session() {
    let scene = Scene::new(vec![]);
    let (mut zed, _session) = scene.editor_with_session("zed").await;
    let login = zed.request("authenticate", json!({ "methodId": "github" })).await;
    zed.update("agent_message_chunk").await;
    scene.wallet.finish_login(Err("the code expired".to_owned()));
    zed.answer(login).await;
    expect![[r#""#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn with_neither_the_answer_says_where_to_log_in() {
    let scene = Scene::new(vec![]);
    let mut zed = client_that_can(&scene, json!({})).await;
    zed.call("authenticate", json!({ "methodId": "github" })).await;
    scene.wallet.finish_login(Ok(()));
    expect![[r#""#]].assert_eq(&scene.transcript.take());
}
