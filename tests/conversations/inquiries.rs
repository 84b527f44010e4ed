//! The model asks the user: by a form where the client shows forms, as a question with options
//! elsewhere, and through `ctl`; the answer is the outcome of the call. Plans are approved in the
//! same way, and words that come with a rejection reach the model.

use serde_json::{Value, json};
use testkit::{Editor, Step};

use crate::project::Project;

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn ask(input: Value) -> Vec<Vec<Step>> {
    vec![vec![Step::call("ask_user", input), Step::end()], vec![Step::text("Thanks."), Step::end()]]
}

fn colours(free_text: bool) -> Value {
    let choices = json!([{ "label": "Red", "description": "like roses" }, "Blue"]);
    json!({ "question": "Which colour?", "choices": choices, "free_text": free_text })
}

async fn asked(offers: Value, answers: Vec<Vec<Step>>) -> (Project, u64) {
    let mut at = Project::new(offers, &[("a.txt", "a\n")], answers, |_| {}).await;
    at.configure("approval", "never").await;
    let prompt = at.zed.prompt(&at.session, "paint it").await;
    (at, prompt)
}

/// The results that the model received last.
fn results(at: &Project) -> String {
    let transcript = at.transcript();
    let last = transcript.lines().rfind(|line| line.contains("model  <")).unwrap_or_default();
    last.rsplit_once("results: ").map(|(_, text)| text.to_owned()).unwrap_or(transcript)
}

#[actix::test]
async fn a_client_with_forms_gets_a_form_and_the_model_its_answer() {
    tokio::time::pause();
    for (action, expected) in [
        (json!({ "action": "accept", "content": { "choice": "choice_2" } }), "The user chose: Blue"),
        (
            json!({ "action": "accept", "content": { "choice": "choice_1", "text": "dark" } }),
            "The user chose: Red The user wrote: dark",
        ),
        (json!({ "action": "accept", "content": { "text": "Green" } }), "The user answered: Green"),
        (
            json!({ "action": "accept", "content": {} }),
            "The user closed the question without answering or declining it.",
        ),
        (json!({ "action": "decline" }), "The user declined to answer."),
        (json!({ "action": "cancel" }), "The user closed the question without answering or declining it."),
    ] {
        let (mut at, prompt) = asked(forms(), ask(colours(true))).await;
        let form = at.zed.receive("elicitation/create").await;
        assert_eq!(form["params"]["message"], "Which colour?");
        let choice = &form["params"]["requestedSchema"]["properties"]["choice"];
        assert_eq!(choice["oneOf"][0], json!({ "const": "choice_1", "title": "Red", "description": "like roses" }));
        at.zed.reply(&form, action).await;
        let answer = at.zed.answer(prompt).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        assert_eq!(results(&at), expected);
    }
}

#[actix::test]
async fn a_client_without_forms_gets_options_and_a_word_about_free_text() {
    tokio::time::pause();
    let (mut at, prompt) = asked(json!({}), ask(colours(true))).await;
    let question = at.zed.receive("session/request_permission").await;
    let options = question["params"]["options"].as_array().unwrap();
    let names: Vec<&str> = options.iter().map(|option| option["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Red", "Blue", "Decline to answer"]);
    let shown = question["params"]["toolCall"]["content"].to_string();
    assert!(shown.contains("Which colour?") && shown.contains("Red: like roses"), "{shown}");
    assert!(shown.contains("An answer in your own words cannot be given here"), "{shown}");
    at.zed.choose(&question, "choice_1").await;
    at.zed.answer(prompt).await;
    assert_eq!(results(&at), "The user chose: Red");
}

#[actix::test]
async fn an_answer_that_names_no_option_declines_and_a_cancelled_question_ends_the_turn() {
    tokio::time::pause();
    let (mut at, prompt) = asked(json!({}), ask(colours(false))).await;
    let question = at.zed.receive("session/request_permission").await;
    assert!(!question["params"].to_string().contains("own words"), "{question}");
    at.zed.choose(&question, "allow_once").await;
    at.zed.answer(prompt).await;
    assert_eq!(results(&at), "The user declined to answer.");
    let (mut at, prompt) = asked(json!({}), ask(colours(false))).await;
    let question = at.zed.receive("session/request_permission").await;
    at.zed.reply(&question, json!({ "outcome": { "outcome": "cancelled" } })).await;
    assert_eq!(at.zed.answer(prompt).await["result"]["stopReason"], "cancelled");
}

#[actix::test]
async fn version_2_gets_the_form_or_the_options_too() {
    tokio::time::pause();
    for (capabilities, method) in [(forms(), "elicitation/create"), (json!({}), "session/request_permission")] {
        let (mut at, prompt) = asked(json!({}), ask(colours(true))).await;
        at.zed.receive("session/request_permission").await;
        let mut vim = at.scene.client("vim");
        let info = json!({ "name": "vim", "version": "1" });
        vim.call("initialize", json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities })).await;
        let load = json!({ "sessionId": at.session, "cwd": at.folder.path(), "mcpServers": [] });
        vim.request("session/resume", load).await;
        let question = vim.receive(method).await;
        let reply = match method {
            "elicitation/create" => json!({ "action": "accept", "content": { "text": "Green" } }),
            _ => json!({ "outcome": { "outcome": "selected", "optionId": "choice_2" } }),
        };
        vim.reply(&question, reply).await;
        // The question is withdrawn from the other client.
        at.zed.receive("$/cancel_request").await;
        at.zed.answer(prompt).await;
        let result = results(&at);
        assert!(["The user answered: Green", "The user chose: Blue"].contains(&result.as_str()), "{result}");
    }
}

async fn ctl(at: &Project) -> Editor {
    let mut ctl = at.scene.client("ctl");
    ctl.initialize().await;
    ctl
}

#[actix::test]
async fn ctl_sees_the_question_and_answers_it_with_a_choice_or_in_words() {
    tokio::time::pause();
    for (answer, expected) in [
        (json!({ "optionId": "choice_2" }), "The user chose: Blue"),
        (json!({ "optionId": "own_words", "words": "Green" }), "The user answered: Green"),
        (
            json!({ "optionId": "reject_once", "words": "ask Ann" }),
            "The user declined to answer. The user wrote: ask Ann",
        ),
    ] {
        let (mut at, prompt) = asked(forms(), ask(colours(true))).await;
        at.zed.receive("elicitation/create").await;
        let mut ctl = ctl(&at).await;
        let listed = ctl.call("_acpd/sessions", json!({})).await;
        let session = &listed["result"]["sessions"][0];
        assert_eq!(session["state"], "waiting");
        assert_eq!(session["questions"][0]["inquiry"]["choices"][1]["label"], "Blue");
        // Permission alone does not answer an inquiry.
        for option in ["allow_once", "choice_9", "own_words"] {
            let params = json!({ "sessionId": at.session, "optionId": option });
            assert_eq!(ctl.call("_acpd/answer", params).await["error"]["code"], -32602, "{option}");
        }
        let mut params = answer.clone();
        params["sessionId"] = json!(at.session);
        assert_eq!(ctl.call("_acpd/answer", params).await["result"], json!({}));
        at.zed.receive("$/cancel_request").await;
        at.zed.answer(prompt).await;
        assert_eq!(results(&at), expected);
    }
}

#[actix::test]
async fn a_question_waits_without_clients_and_survives_a_crash() {
    tokio::time::pause();
    let (at, _) = asked(forms(), ask(colours(true))).await;
    let Project { folder, scene, mut zed, session } = at;
    zed.receive("elicitation/create").await;
    drop(zed);
    scene.crash().await;
    let mut vim = scene.client("vim");
    vim.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": forms() })).await;
    let load = json!({ "sessionId": session, "cwd": folder.path(), "mcpServers": [] });
    vim.request("session/load", load).await;
    let form = vim.receive("elicitation/create").await;
    assert_eq!(form["params"]["message"], "Which colour?");
    vim.reply(&form, json!({ "action": "accept", "content": { "choice": "choice_2" } })).await;
    vim.until(|message| message.to_string().contains("Thanks.")).await;
    let transcript = scene.transcript.take();
    assert!(transcript.contains("results: The user chose: Blue"), "{transcript}");
}

#[actix::test]
async fn a_question_for_a_secret_is_not_asked() {
    tokio::time::pause();
    let (mut at, prompt) = asked(forms(), ask(json!({ "question": "What is your API key?" }))).await;
    at.zed.answer(prompt).await;
    let transcript = at.transcript();
    assert!(!transcript.contains("elicitation/create"), "{transcript}");
    assert!(transcript.contains("a secret must not be asked for"), "{transcript}");
}

#[actix::test]
async fn words_with_a_rejection_reach_the_model() {
    tokio::time::pause();
    let write = Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" }));
    let answers = vec![vec![write, Step::end()], vec![Step::text("Then not."), Step::end()]];
    for by_ctl in [false, true] {
        let mut at = Project::new(json!({}), &[], answers.clone(), |_| {}).await;
        let prompt = at.zed.prompt(&at.session, "write it").await;
        let question = at.zed.receive("session/request_permission").await;
        if by_ctl {
            let params = json!({ "sessionId": at.session, "optionId": "reject_once", "words": " put it into c.txt " });
            ctl(&at).await.call("_acpd/answer", params).await;
        } else {
            let outcome = json!({ "outcome": "selected", "optionId": "reject_once" });
            let meta = json!({ "acpd": { "words": "put it into c.txt" } });
            at.zed.reply(&question, json!({ "outcome": outcome, "_meta": meta })).await;
        }
        at.zed.answer(prompt).await;
        let expected = "Permission denied: the user declined this call. The user wrote: put it into c.txt";
        assert_eq!(results(&at), expected);
        assert!(!at.folder.path().join("b.txt").exists());
    }
}

fn plan_then_write() -> Vec<Vec<Step>> {
    let write = || Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" }));
    vec![
        vec![write(), Step::end()],
        vec![Step::call("propose_plan", json!({ "plan": "# Plan\n\n1. Write b.txt" })), Step::end()],
        vec![write(), Step::end()],
        vec![Step::text("Done."), Step::end()],
    ]
}

async fn planning(offers: Value) -> (Project, u64) {
    let mut at = Project::new(offers, &[], plan_then_write(), |_| {}).await;
    at.configure("approval", "never").await;
    at.configure("mode", "plan").await;
    let prompt = at.zed.prompt(&at.session, "write it").await;
    (at, prompt)
}

#[actix::test]
async fn plan_mode_reads_only_until_the_plan_is_approved() {
    tokio::time::pause();
    let (mut at, prompt) = planning(json!({})).await;
    let question = at.zed.receive("session/request_permission").await;
    assert!(!at.folder.path().join("b.txt").exists());
    let shown = question["params"]["toolCall"]["content"].to_string();
    assert!(shown.contains("1. Write b.txt"), "{shown}");
    let options = question["params"]["options"].as_array().unwrap();
    let ids: Vec<&str> = options.iter().map(|option| option["optionId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["full", "safe", "sandbox", "decline"]);
    at.zed.choose(&question, "safe").await;
    at.zed.answer(prompt).await;
    assert_eq!(at.text("b.txt"), "b\n");
    let transcript = at.transcript();
    assert!(transcript.contains("the session's mode `plan` leaves out `write_file`"), "{transcript}");
    assert!(transcript.contains(r#"{"sessionUpdate":"current_mode_update","currentModeId":"safe"}"#), "{transcript}");
    assert!(transcript.contains("The user approved the plan. The mode is `safe` now"), "{transcript}");
}

#[actix::test]
async fn a_plan_that_is_not_approved_changes_nothing_and_the_words_reach_the_model() {
    tokio::time::pause();
    let (mut at, prompt) = planning(forms()).await;
    let form = at.zed.receive("elicitation/create").await;
    assert_eq!(form["params"]["message"], "# Plan\n\n1. Write b.txt");
    at.zed.reply(&form, json!({ "action": "accept", "content": { "text": "write c.txt too" } })).await;
    at.zed.answer(prompt).await;
    assert!(!at.folder.path().join("b.txt").exists());
    let transcript = at.transcript();
    assert!(transcript.contains("wants to keep planning. The mode is still `plan`. The user wrote: write c.txt too"));
    assert!(!transcript.contains("current_mode_update"), "{transcript}");
}

#[actix::test]
async fn a_late_answer_to_a_plan_leaves_the_mode_that_the_user_has_set_meanwhile() {
    tokio::time::pause();
    for (option, expected) in [
        ("safe", "The user approved the plan, and has set the mode `read-only` meanwhile"),
        ("decline", "wants to keep planning. The mode is `read-only`."),
    ] {
        let (mut at, prompt) = planning(json!({})).await;
        let question = at.zed.receive("session/request_permission").await;
        at.configure("mode", "read-only").await;
        at.zed.choose(&question, option).await;
        at.zed.answer(prompt).await;
        assert!(!at.folder.path().join("b.txt").exists());
        let transcript = at.transcript();
        assert!(transcript.contains(expected), "{transcript}");
        assert!(!transcript.contains(r#""currentModeId":"safe""#), "{transcript}");
    }
}

#[actix::test]
async fn a_call_that_was_asked_about_in_another_mode_does_not_run_when_it_is_allowed() {
    tokio::time::pause();
    let write = Step::call("write_file", json!({ "path": "b.txt", "content": "b\n" }));
    let answers = || vec![vec![write.clone(), Step::end()], vec![Step::text("Done."), Step::end()]];
    for (mode, runs) in [("plan", false), ("sandbox", false), ("full", true)] {
        let mut at = Project::new(json!({}), &[], answers(), |_| {}).await;
        at.configure("mode", if mode == "full" { "safe" } else { "full" }).await;
        let prompt = at.zed.prompt(&at.session, "write it").await;
        let question = at.zed.receive("session/request_permission").await;
        at.configure("mode", mode).await;
        at.zed.choose(&question, "allow_once").await;
        at.zed.answer(prompt).await;
        assert_eq!(at.folder.path().join("b.txt").exists(), runs, "{mode}");
        let denied = format!("Permission denied: the user has set the mode `{mode}` since");
        assert_eq!(at.transcript().contains(&denied), !runs, "{mode}");
    }
}
