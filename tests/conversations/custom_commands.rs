//! Custom slash commands of the project and of its user.

use std::fs;
use std::sync::Arc;

use domain::ModelId;
use domain::instructions::{Expansion, Instructions, SlashCommandCard, SystemPrompt, TypedSlashCommand, Workspace};
use expect_test::expect;
use futures_util::future::BoxFuture;
use project::Notes;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Editor, Scene, Step};

const REVIEW: &str = "---\ndescription: Review a file\nargument-hint: [file]\n---\nReview $1 with care.\n";

/// Notes without the facts that change, which would be in every message.
struct LastingNotes(Notes);

impl Instructions for LastingNotes {
    fn system_prompt(&self, workspace: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt> {
        self.0.system_prompt(workspace, model)
    }

    fn commands(&self, workspace: Workspace) -> BoxFuture<'static, Vec<SlashCommandCard>> {
        self.0.commands(workspace)
    }

    fn expand(&self, workspace: Workspace, call: TypedSlashCommand) -> BoxFuture<'static, Option<Expansion>> {
        self.0.expand(workspace, call)
    }
}

/// A project folder with a custom command in it, and a command of the user.
async fn place() -> (TempDir, Scene, Editor, String, Value) {
    let home = TempDir::new().unwrap();
    let (project, own) = (home.path().join("project"), home.path().join("own"));
    fs::create_dir_all(project.join(".acpd/commands")).unwrap();
    fs::create_dir_all(own.join("commands")).unwrap();
    fs::write(project.join(".acpd/commands/review.md"), REVIEW).unwrap();
    fs::write(project.join(".acpd/commands/help.md"), "Not the real help.").unwrap();
    fs::write(own.join("commands/greet.md"), "# Greet everybody\n").unwrap();
    let notes = Notes { own: Some(own.join("AGENTS.md")), ..Notes::default() };
    let scene = Scene::adjusted(|ports| ports.instructions = Arc::new(LastingNotes(notes)));
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": project })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let offered = zed.update("available_commands_update").await["params"]["update"]["availableCommands"].clone();
    scene.transcript.take();
    (home, scene, zed, session, offered)
}

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

#[actix::test]
async fn commands_of_the_project_and_of_the_user_are_offered_beside_ours() {
    let (_home, _scene, mut zed, session, offered) = place().await;
    let theirs: Vec<&Value> = offered.as_array().unwrap().iter().rev().take(2).collect();
    expect![[r#"
        [
          {
            "name": "review",
            "description": "Review a file",
            "input": {
              "hint": "[file]"
            }
          },
          {
            "name": "greet",
            "description": "Greet everybody"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&theirs).unwrap());
    let helps = offered.as_array().unwrap().iter().filter(|command| command["name"] == "help");
    assert_eq!(helps.count(), 1, "nobody takes our own names");
    let prompt = zed.prompt(&session, "/help").await;
    let said = zed.update("agent_message_chunk").await["params"]["update"]["content"]["text"].clone();
    zed.answer(prompt).await;
    let said = said.as_str().unwrap();
    assert!(said.ends_with("\n- `/greet`: Greet everybody\n- `/review [[file]]`: Review a file"), "{said}");
    assert!(said.starts_with("- `/help`: Show these commands\n"), "{said}");
}

#[actix::test]
async fn the_model_receives_an_expanded_command_and_clients_see_the_typed_one() {
    let (_home, scene, mut zed, session, _) = place().await;
    for _ in 0..3 {
        scene.script.push(hello());
    }
    let link = json!({ "type": "resource_link", "uri": "file:///elsewhere/b.rs", "name": "b.rs" });
    let typed = json!({ "type": "text", "text": "/review src/a.rs now" });
    zed.call("session/prompt", json!({ "sessionId": session, "prompt": [typed, link] })).await;
    for text in ["/greet", "/nobody is here"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| line.starts_with("model")).collect();
    expect![[r#"
        model  < user: Review src/a.rs with care. [file: /elsewhere/b.rs; not read yet, read_file reads it]
        model  < user: Review src/a.rs with care. [file: /elsewhere/b.rs; not read yet, read_file reads it] | agent: Hello | user: # Greet everybody"#]].assert_eq(&transcript.join("\n"));
    let mut vim = scene.editor("vim").await;
    scene.transcript.take();
    vim.call("session/load", json!({ "sessionId": session })).await;
    let shown = scene.transcript.take();
    let shown: Vec<&str> = shown.lines().filter(|line| line.contains("user_message_chunk")).collect();
    expect![[r##"
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"/review src/a.rs now"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"resource_link","name":"b.rs","uri":"file:///elsewhere/b.rs"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"/greet"},"messageId":"#5"}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"/nobody is here"},"messageId":"#7"}"##]].assert_eq(&shown.join("\n"));
}

#[actix::test]
async fn a_changed_command_file_applies_from_the_next_prompt_on() {
    let (home, scene, mut zed, session, _) = place().await;
    let file = home.path().join("project/.acpd/commands/review.md");
    for text in ["First.", "Then: $ARGUMENTS"] {
        scene.script.push(hello());
        fs::write(&file, text).unwrap();
        let prompt = zed.prompt(&session, "/review it").await;
        zed.answer(prompt).await;
    }
    fs::remove_file(&file).unwrap();
    zed.call("session/close", json!({ "sessionId": session })).await;
    zed.call("session/load", json!({ "sessionId": session })).await;
    scene.script.push(hello());
    scene.transcript.take();
    // The command is unknown now, and is not sent to the model.
    for text in ["/review it", "Go on."] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    let transcript = scene.transcript.take();
    let transcript = transcript[transcript.find("\nmodel").unwrap() + 1..].split("\nzed").next().unwrap_or_default();
    expect![[r#"
        model  < user: First.

        it | agent: Hello | user: Then: it | agent: Hello | user: Go on."#]]
    .assert_eq(transcript);
}

#[actix::test]
async fn a_prompt_can_be_cancelled_while_its_command_is_read() {
    let (home, scene, mut zed, session, _) = place().await;
    // Whether or not the file has been read by then, the turn ends as cancelled and the next one
    // works.
    let file = home.path().join("project/.acpd/commands/review.md");
    fs::write(&file, "x".repeat(60_000)).unwrap();
    scene.script.push(vec![Step::Hold]);
    for _ in 0..20 {
        let prompt = zed.prompt(&session, "/review it").await;
        zed.notify("session/cancel", json!({ "sessionId": session })).await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "cancelled");
        scene.script.push(vec![Step::Hold]);
    }
    let events = scene.history.events(&session);
    let messages = events.iter().filter(|event| event.kind.name() == "user_message").count();
    assert_eq!(messages, 20, "every prompt is in the log");
}
