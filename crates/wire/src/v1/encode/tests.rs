//! Tests of whole answers, which are validated against the schema.

use std::path::PathBuf;

use conformance::Version;
use domain::model::ModelInfo;
use domain::{Approval, Millis, Mode, ModelId, ThoughtLevel};
use expect_test::{Expect, expect};

use domain::account::KeyVariable;

use super::*;
use crate::answer_data::SessionOptions;

fn model(id: &str) -> ModelInfo {
    ModelInfo {
        id: id.into(),
        name: id.to_uppercase(),
        window: 100,
        images: false,
        audio: false,
        thinks: false,
        patches: false,
        price: None,
    }
}

fn session_options(models: &[&str], chosen: &str) -> SessionOptions {
    SessionOptions {
        models: models.iter().map(|id| model(id)).collect(),
        mode: Mode::Full,
        approval: Approval::Ask,
        model: ModelId::from(chosen),
        thought: ThoughtLevel::Medium,
        agent: None,
        hosted: None,
        switches: false,
        extras: ExtraSet::ALL,
    }
}

fn check(said: &Value, expected: &Expect) {
    expected.assert_eq(&serde_json::to_string_pretty(said).unwrap());
}

#[test]
fn initialize_reports_the_true_capabilities_of_this_build() {
    let said = initialized(&AgentInfo {
        images: true,
        audio: false,
        version: "0.1.0",
        versions: vec![1, 2],
        extras: ExtraSet::ALL,
        key_variables: vec![KeyVariable::new("A_KEY", "A key", Some("https://a.example/keys"))],
        terminal_login: true,
    });
    Version::V1.response("initialize", &said).unwrap();
    check(
        &said,
        &expect![[r#"
            {
              "protocolVersion": 1,
              "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {
                  "image": true,
                  "audio": false,
                  "embeddedContext": true
                },
                "mcpCapabilities": {
                  "http": true,
                  "sse": true
                },
                "sessionCapabilities": {
                  "list": {},
                  "delete": {},
                  "additionalDirectories": {},
                  "fork": {},
                  "resume": {},
                  "close": {}
                },
                "auth": {
                  "logout": {}
                },
                "_meta": {
                  "acpd": {
                    "extensions": [
                      "_acpd/hello",
                      "_acpd/sessions",
                      "_acpd/connections",
                      "_acpd/status",
                      "_acpd/stop",
                      "_acpd/restart",
                      "_acpd/reload",
                      "_acpd/resume",
                      "_acpd/cancel",
                      "_acpd/answer",
                      "_acpd/close",
                      "_acpd/delete",
                      "_acpd/rename",
                      "_acpd/export",
                      "_acpd/import",
                      "_acpd/wait",
                      "_acpd/mcp",
                      "_acpd/permissions",
                      "_acpd/undo",
                      "_acpd/session",
                      "_acpd/models"
                    ],
                    "versions": [
                      1,
                      2
                    ]
                  }
                }
              },
              "authMethods": [
                {
                  "id": "env",
                  "name": "A key in the environment",
                  "description": "One of A_KEY",
                  "_meta": {
                    "acpd": {
                      "variables": [
                        {
                          "name": "A_KEY",
                          "label": "A key",
                          "secret": true,
                          "optional": true,
                          "link": "https://a.example/keys"
                        }
                      ]
                    }
                  }
                },
                {
                  "id": "github",
                  "name": "Log in to GitHub",
                  "description": "For the models that GitHub offers; opens a page in the browser"
                },
                {
                  "type": "terminal",
                  "id": "terminal",
                  "name": "Store a key",
                  "description": "Asks for a provider and its key in a terminal",
                  "args": [
                    "--login"
                  ]
                }
              ],
              "agentInfo": {
                "name": "acpd",
                "title": "acpd",
                "version": "0.1.0"
              },
              "_meta": {
                "steering": {
                  "supported": true
                }
              }
            }"#]],
    );
}

#[test]
fn a_new_session_shows_modes_models_and_options() {
    let said = session_opened(Some(&"s".into()), &session_options(&["built-in"], "built-in"));
    check(
        &said,
        &expect![[r#"
        {
          "sessionId": "s",
          "modes": {
            "currentModeId": "full",
            "availableModes": [
              {
                "id": "full",
                "name": "Full access",
                "description": "All tools"
              },
              {
                "id": "read-only",
                "name": "Read only",
                "description": "No writing and no commands"
              },
              {
                "id": "safe",
                "name": "Safe",
                "description": "File tools only: no commands, no sub-agents, no MCP tools that may write"
              },
              {
                "id": "sandbox",
                "name": "Sandbox",
                "description": "Commands run in a kernel sandbox without network; file tools are not sandboxed, but stay inside the session's folders"
              },
              {
                "id": "plan",
                "name": "Plan",
                "description": "Reading only, until you approve a plan and choose the mode in which it is carried out"
              }
            ]
          },
          "configOptions": [
            {
              "id": "mode",
              "name": "Mode",
              "description": "Which tools there are",
              "category": "mode",
              "type": "select",
              "currentValue": "full",
              "options": [
                {
                  "value": "full",
                  "name": "Full access",
                  "description": "All tools"
                },
                {
                  "value": "read-only",
                  "name": "Read only",
                  "description": "No writing and no commands"
                },
                {
                  "value": "safe",
                  "name": "Safe",
                  "description": "File tools only: no commands, no sub-agents, no MCP tools that may write"
                },
                {
                  "value": "sandbox",
                  "name": "Sandbox",
                  "description": "Commands run in a kernel sandbox without network; file tools are not sandboxed, but stay inside the session's folders"
                },
                {
                  "value": "plan",
                  "name": "Plan",
                  "description": "Reading only, until you approve a plan and choose the mode in which it is carried out"
                }
              ]
            },
            {
              "id": "model",
              "name": "Model",
              "description": "Who answers",
              "category": "model",
              "type": "select",
              "currentValue": "built-in",
              "options": [
                {
                  "value": "built-in",
                  "name": "BUILT-IN"
                }
              ]
            },
            {
              "id": "approval",
              "name": "Approval",
              "description": "When to ask before a tool runs",
              "category": "_approval",
              "type": "select",
              "currentValue": "ask",
              "options": [
                {
                  "value": "ask",
                  "name": "Ask first",
                  "description": "Ask before writing and before running commands"
                },
                {
                  "value": "accept-edits",
                  "name": "Accept edits",
                  "description": "Edit files without asking; ask before running commands"
                },
                {
                  "value": "never",
                  "name": "Never ask",
                  "description": "Do everything without asking"
                }
              ]
            }
          ],
          "models": {
            "availableModels": [
              {
                "modelId": "built-in",
                "name": "BUILT-IN"
              }
            ],
            "currentModelId": "built-in"
          }
        }"#]],
    );
    assert!(said["models"].is_object());
    Version::V1.response("session/new", &said).unwrap();
    Version::V1.response("session/fork", &said).unwrap();
}

#[test]
fn a_loaded_session_is_answered_without_its_id() {
    let said = session_opened(None, &session_options(&["a/x"], "a/x"));
    assert!(said["models"].is_object());
    Version::V1.response("session/load", &said).unwrap();
    Version::V1.response("session/resume", &said).unwrap();
}

#[test]
fn models_are_grouped_by_provider_and_the_chosen_one_is_always_there() {
    let said = config_options(&session_options(&["a/x", "b/y", "a/z", "echo"], "gone/m"));
    Version::V1.response("session/set_config_option", &json!({ "configOptions": said })).unwrap();
    let model = &said[1];
    check(
        model,
        &expect![[r#"
        {
          "id": "model",
          "name": "Model",
          "description": "Who answers",
          "category": "model",
          "type": "select",
          "currentValue": "gone/m",
          "options": [
            {
              "group": "a",
              "name": "a",
              "options": [
                {
                  "value": "a/x",
                  "name": "A/X"
                },
                {
                  "value": "a/z",
                  "name": "A/Z"
                }
              ]
            },
            {
              "group": "b",
              "name": "b",
              "options": [
                {
                  "value": "b/y",
                  "name": "B/Y"
                }
              ]
            },
            {
              "group": "built-in",
              "name": "Built-in",
              "options": [
                {
                  "value": "echo",
                  "name": "ECHO"
                }
              ]
            },
            {
              "group": "gone",
              "name": "gone",
              "options": [
                {
                  "value": "gone/m",
                  "name": "gone/m"
                }
              ]
            }
          ]
        }"#]],
    );
}

#[test]
fn a_list_shows_the_time_and_state_of_each_session() {
    let meta = SessionMeta {
        id: "s".into(),
        cwd: PathBuf::from("/work"),
        worktree: None,
        real_cwd: None,
        extra_roots: vec![PathBuf::from("/more")],
        title: Some("Tidy up".to_owned()),
        created: Millis(0),
        updated: Millis(1_735_689_600_123),
        agent: None,
        messages: 4,
        last: 9,
        life: 1,
        waiting: false,
        clean: true,
    };
    let bare = SessionMeta { id: "t".into(), extra_roots: vec![], title: None, ..meta.clone() };
    let page = Page { sessions: vec![meta, bare], next: Some("c".to_owned()) };
    let said = session_list(&page, |id| if id.as_str() == "s" { ActivityCard::Waiting } else { ActivityCard::Idle });
    Version::V1.response("session/list", &said).unwrap();
    check(
        &said,
        &expect![[r#"
        {
          "sessions": [
            {
              "sessionId": "s",
              "cwd": "/work",
              "additionalDirectories": [
                "/more"
              ],
              "title": "Tidy up",
              "updatedAt": "2025-01-01T00:00:00.123Z",
              "_meta": {
                "acpd": {
                  "createdAt": "1970-01-01T00:00:00.000Z",
                  "state": "waiting",
                  "messageCount": 4
                }
              }
            },
            {
              "sessionId": "t",
              "cwd": "/work",
              "updatedAt": "2025-01-01T00:00:00.123Z",
              "_meta": {
                "acpd": {
                  "createdAt": "1970-01-01T00:00:00.000Z",
                  "state": "idle",
                  "messageCount": 4
                }
              }
            }
          ],
          "nextCursor": "c"
        }"#]],
    );
}

#[test]
fn a_prompt_is_answered_with_its_reason_or_with_an_error() {
    let usage = Usage { input: 10, output: 5, cached_read: 3, cached_write: 0, thought: 0 };
    let failed = |kind| {
        let data = json!({"provider": "p"});
        StopReason::Failed(TurnFailure { kind, message: "it\nbroke".to_owned(), data })
    };
    let mut said = String::new();
    for reason in [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::MaxTurnRequests,
        StopReason::Refusal,
        StopReason::Cancelled,
        StopReason::Interrupted,
        failed(FailureKind::Model),
        failed(FailureKind::Authentication),
    ] {
        match prompt_answer(&reason, Some(&usage)) {
            Ok(answer) => {
                Version::V1.response("session/prompt", &answer).unwrap();
                said += &format!("{answer}\n");
            }
            Err(error) => said += &format!("{}\n", serde_json::to_string(&error).unwrap()),
        }
    }
    expect![[r#"
        {"stopReason":"end_turn","usage":{"totalTokens":15,"inputTokens":10,"outputTokens":5,"cachedReadTokens":3}}
        {"stopReason":"max_tokens","usage":{"totalTokens":15,"inputTokens":10,"outputTokens":5,"cachedReadTokens":3}}
        {"stopReason":"max_turn_requests","usage":{"totalTokens":15,"inputTokens":10,"outputTokens":5,"cachedReadTokens":3}}
        {"stopReason":"refusal","usage":{"totalTokens":15,"inputTokens":10,"outputTokens":5,"cachedReadTokens":3}}
        {"stopReason":"cancelled","usage":{"totalTokens":15,"inputTokens":10,"outputTokens":5,"cachedReadTokens":3}}
        {"code":-32603,"message":"The daemon ended before the turn did","data":{"retry":true}}
        {"code":-32603,"message":"it broke","data":{"provider":"p"}}
        {"code":-32000,"message":"it broke","data":{"provider":"p"}}
    "#]].assert_eq(&said);
}

#[test]
fn slash_commands_are_listed_in_one_update() {
    let params = Version::V1.update(&commands(&"s".into(), &[])).unwrap();
    assert_eq!(params["update"]["availableCommands"], json!([]));
    let one =
        SlashCommandCard { name: "model".into(), description: "Choose a model".into(), hint: Some("name".into()) };
    let params =
        Version::V1.update(&commands(&"s".into(), &[one.clone(), SlashCommandCard { hint: None, ..one }])).unwrap();
    expect![[r#"{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"model","description":"Choose a model","input":{"hint":"name"}},{"name":"model","description":"Choose a model"}]}}"#]].assert_eq(&params.to_string());
}
