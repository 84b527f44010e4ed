//! Obtaining a key from the environment or by a login in the browser, and logging out.

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
    expect![[r#"
        zed    > 2 authenticate {"methodId":"env"}
        zed    < 2 error {"code":-32000,"message":"Authentication required","data":{"missing":["SCRIPT_KEY"],"advice":"set one of these variables in the environment that your editor is started from"}}
        zed    > 3 _acpd/hello {"version":"0","environment":{"SCRIPT_KEY":"secret"}}
        zed    < 3 = {"version":"0.1.0","pid":"...","frameLimit":67108864}
        zed    > 4 authenticate {"authMethodId":"env"}
        zed    < 4 = {}
        zed    > 5 authenticate {"methodId":"terminal"}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"methodId":"`terminal` is not a login method that acpd can carry out"}}
        zed    > 6 authenticate {"methodId":"nonsense"}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"methodId":"`nonsense` is not a login method that acpd can carry out"}}
        zed    > 7 authenticate {}
        zed    < 7 error {"code":-32602,"message":"Invalid params","data":{"methodId":"Required"}}
        zed    > 8 logout {}
        zed    < 8 = {}
    "#]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_login_opens_a_page_in_clients_that_support_it() {
    let scene = Scene::new(vec![]);
    let mut zed = client_that_can(&scene, json!({ "elicitation": { "url": {} } })).await;
    let login = zed.request("authenticate", json!({ "methodId": "github" })).await;
    let page = zed.receive("elicitation/create").await;
    zed.reply(&page, json!({ "action": "accept" })).await;
    zed.silence().await;
    scene.accounts.finish_login(Ok(()));
    zed.answer(login).await;
    expect![[r##"
        zed    > 2 authenticate {"methodId":"github"}
        zed    < "#1" elicitation/create {"mode":"url","requestId":2,"elicitationId":"#2","url":"https://login.example/device","message":"Type the code ABCD-1234 at the address that opens."}
        zed    > "#1" = {"action":"accept"}
        zed    < silence
        zed    < elicitation/complete {"elicitationId":"#2"}
        zed    < 2 = {}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn without_page_support_a_login_is_announced_in_an_open_session() {
    let scene = Scene::new(vec![]);
    let (mut zed, _session) = scene.editor_with_session("zed").await;
    let login = zed.request("authenticate", json!({ "methodId": "github" })).await;
    zed.update("agent_message_chunk").await;
    scene.accounts.finish_login(Err("the code expired".to_owned()));
    zed.answer(login).await;
    expect![[r##"
        zed    > 3 authenticate {"methodId":"github"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"To log in, open https://login.example/device and type the code ABCD-1234."},"messageId":"#2"}
        zed    < 3 error {"code":-32000,"message":"Authentication required","data":{"reason":"the code expired","advice":"try again, or set a key in the environment"}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn without_pages_and_sessions_the_error_names_the_login_address() {
    let scene = Scene::new(vec![]);
    let mut zed = client_that_can(&scene, json!({})).await;
    zed.call("authenticate", json!({ "methodId": "github" })).await;
    scene.accounts.finish_login(Ok(()));
    expect![[r#"
        zed    > 2 authenticate {"methodId":"github"}
        zed    < 2 error {"code":-32000,"message":"Authentication required","data":{"address":"https://login.example/device","code":"ABCD-1234","advice":"open the address, type the code, then try again"}}
    "#]].assert_eq(&scene.transcript.take());
}
