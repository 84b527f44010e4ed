//! `acpd models` with a scripted provider: the list, the details, and the result of each test.

use serde_json::{Value, json};
use testkit::answers::{Answer, Dialect};
use testkit::provider::{Reply, Server};

use crate::harness::{Home, finish};

fn provider() -> Server {
    Server::with(|seen, _| match (seen.method.as_str(), seen.body.contains("broken")) {
        ("GET", _) => Reply::json(200, &json!({ "data": [{ "id": "scripted-instruct" }, { "id": "gpt-4.1" }] })),
        (_, true) => Reply::json(400, &json!({ "error": { "message": "it is out of order" } })),
        (_, false) => Reply::stream(&[&Answer::text("Hello").sse(Dialect::Chat)]),
    })
}

fn acpd_models(home: &Home, server: &Server, args: &[&str]) -> std::process::Output {
    let mut command = home.acpd(&["models"]);
    command.args(args).env("ACPD__MODELS__LOCAL__PROBE", "false").env("OPENAI_API_KEY", "sk-hush");
    command.env("OPENAI_BASE_URL", format!("{}/v1", server.address));
    let output = finish(command);
    assert!(!format!("{output:?}").contains("sk-hush"), "{output:?}");
    output
}

#[test]
fn models_are_listed_filtered_and_said_to_be_guessed_where_they_are() {
    let (home, server) = (Home::new(), provider());
    let output = acpd_models(&home, &server, &["list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let brief =
        |model: &Value| (model["id"].as_str().unwrap().to_owned(), model["window"].clone(), model["guessed"] == true);
    let models: Vec<_> = list["models"].as_array().unwrap().iter().map(brief).collect();
    assert_eq!(
        models,
        [
            ("openai/scripted-instruct".to_owned(), json!(32_768), true),
            ("openai/gpt-4.1".to_owned(), json!(1_047_576), false),
        ]
    );
    let output = acpd_models(&home, &server, &["list", "INSTRUCT"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("32,768 tokens, guessed from an unknown name"), "{said}");
    assert!(!acpd_models(&home, &server, &["list", "nothing-like-it"]).status.success());
}

#[test]
fn each_model_that_is_tested_has_a_true_line() {
    let (home, server) = (Home::new(), provider());
    let output = acpd_models(&home, &server, &["test"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("ok    openai/gpt-4.1: \"Hello\" after "), "{said}");
    assert!(said.contains("120 tokens in, 30 out, 0.0"), "{said}");
    let output = acpd_models(&home, &server, &["test", "openai/broken"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success());
    assert_eq!(said, "fail  openai/broken: openai: the request was refused (400): it is out of order\n");
}
