//! Extensions beyond the stable protocol, and the clients that do not receive them.

use domain::{Extra, ExtraSet};
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

fn answers() -> Vec<Vec<Step>> {
    let usage = domain::Usage { input: 3, output: 2, ..domain::Usage::default() };
    vec![vec![Step::text("Hello"), Step::Usage(usage), Step::end()]]
}

/// The extensions that a client of this name and version receives in a conversation.
async fn met(scene: &Scene, client: Value) -> Vec<&'static str> {
    let mut zed = scene.client("zed");
    let initialized = zed.call("initialize", json!({ "protocolVersion": 1, "clientInfo": client })).await;
    let opened = zed.call("session/new", json!({ "cwd": "/work" })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = zed.prompt(&session, "hi").await;
    let mut is_updated = false;
    let answer = loop {
        let message = zed.next().await.unwrap();
        is_updated |= message["params"]["update"]["sessionUpdate"] == "usage_update";
        if message["id"] == json!(prompt) {
            break message["result"].clone();
        }
    };
    let capabilities = &initialized["result"]["agentCapabilities"]["sessionCapabilities"];
    let has = [
        ("models", opened["result"].get("models").is_some()),
        ("usage", answer.get("usage").is_some()),
        ("user_message_id", answer.get("userMessageId").is_some()),
        ("usage_update", is_updated),
        ("fork", capabilities.get("fork").is_some()),
    ];
    has.into_iter().filter(|(_, is_met)| *is_met).map(|(name, _)| name).collect()
}

#[actix::test]
async fn clients_known_to_fail_on_extensions_do_not_receive_them() {
    let scene = Scene::new([answers(), answers(), answers(), answers()].concat());
    let all = ["models", "usage", "user_message_id", "usage_update", "fork"];
    assert_eq!(met(&scene, json!({ "name": "zed", "version": "1" })).await, all);
    assert_eq!(met(&scene, json!({ "name": "sacp", "version": "11.0.0" })).await, [""; 0]);
    assert_eq!(met(&scene, json!({ "name": "sacp", "version": "12.0.0" })).await, all);
    let sdk = met(&scene, json!({ "name": "@agentclientprotocol/sdk", "version": "0.12.0" })).await;
    assert_eq!(sdk, ["models", "usage", "user_message_id", "fork"]);
}

#[test]
fn the_configuration_leaves_out_each_extra_or_all() {
    let met_of = |offered: ExtraSet| {
        actix::System::new().block_on(async move {
            let scene = Scene::with(answers(), |settings| settings.extras.offered = offered);
            met(&scene, json!({ "name": "zed" })).await
        })
    };
    for extra in Extra::ALL {
        let left: Vec<&str> = Extra::ALL.into_iter().filter(|other| *other != extra).map(Extra::name).collect();
        assert_eq!(met_of(ExtraSet::ALL.without(extra)), left);
    }
    assert_eq!(met_of(ExtraSet::NONE), [""; 0]);
}

#[actix::test]
async fn answers_to_prompts_and_loads_name_message_and_session() {
    let scene = Scene::new(answers());
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    let answer = zed.answer(prompt).await;
    let id = &answer["result"]["userMessageId"];
    assert!(id.is_string() && *id == answer["result"]["_meta"]["acpd"]["userMessageId"], "{answer}");
    let mut vim = scene.editor("vim").await;
    for method in ["session/load", "session/resume", "session/resume"] {
        let opened = vim.call(method, json!({ "sessionId": session })).await;
        assert_eq!(opened["result"]["_meta"]["acpd"], json!({ "sessionId": session, "messages": 2 }), "{method}");
    }
}

#[actix::test]
async fn a_key_method_lists_the_fields_of_its_form() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.client("zed");
    let initialized = zed.initialize().await;
    expect![[r#"{"acpd":{"variables":[{"name":"SCRIPT_KEY","label":"Script key","secret":true,"optional":true,"link":"https://script.example/keys"}]}}"#]]
        .assert_eq(&initialized["result"]["authMethods"][0]["_meta"].to_string());
}
