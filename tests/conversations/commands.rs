//! The built-in slash commands, and the summary of older messages.

use domain::Usage;
use domain::model::ModelError;
use domain::turn::FailureKind;
use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

#[actix::test]
async fn commands_are_answered_without_the_model_and_it_does_not_see_them() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["/help", "/mode", "/mode reckless", "/mode safe", "/model nobody", "/compact", "/etc/passwd?"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    let shown = scene.transcript.take().replace("\\n", "\n");
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/help"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"- `/help`: Show these commands
        - `/status`: Show the session, its model, mode and usage
        - `/mode [full | read-only | safe | sandbox | plan]`: Show or set the mode
        - `/model [the model's id]`: Show or set the model
        - `/compact`: Replace older messages by a summary
        - `/mcp`: Show the MCP servers, their tools and prompts
        - `/skills`: Show the skills and custom agents that can be used here
        - `/undo`: Put files back to what they were before the last turn that changed any
        - `/redo`: Make the changes again that were undone last
        - `/worktree [a name | status | merge | leave | remove [name] [--ignored]]`: Move the session into its own git worktree, or merge or remove that worktree"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/mode"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"The mode is `full`. There are `full`, `read-only`, `safe`, `sandbox`, `plan`."},"messageId":"#4"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#5"}}}
        zed    > 5 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/mode reckless"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is no mode `reckless`. The mode is `full`. There are `full`, `read-only`, `safe`, `sandbox`, `plan`."},"messageId":"#6"}
        zed    < 5 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#7"}}}
        zed    > 6 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/mode safe"}]}
        zed    < update {"sessionUpdate":"current_mode_update","currentModeId":"safe"}
        zed    < update {"sessionUpdate":"config_option_update","configOptions":["mode=safe","model=script","approval=ask","thought_level=medium"]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"The mode is now safe: File tools only: no commands, no sub-agents, no MCP tools that may write."},"messageId":"#8"}
        zed    < 6 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#9"}}}
        zed    > 7 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/model nobody"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is no model `nobody`. The model is `script`. There are `script`, `panicky`."},"messageId":"#10"}
        zed    < 7 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#11"}}}
        zed    > 8 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/compact"}]}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"There is nothing to compact yet."},"messageId":"#12"}
        zed    < 8 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#13"}}}
        zed    > 9 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"/etc/passwd?"}]}
        model  < user: /etc/passwd?
        zed    < update {"sessionUpdate":"session_info_update","title":"/etc/passwd?","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#14"}
        zed    < 9 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#15"}}}
    "##]].assert_eq(&shown);
}

#[actix::test]
async fn an_unknown_slash_command_suggests_similar_ones_and_paths_are_prompts() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut said = String::new();
    for text in ["/bogus", "/modle safe", "/usr/bin/x is broken", "/tmp is full"] {
        let prompt = zed.prompt(&session, text).await;
        let answer = zed.update("agent_message_chunk").await;
        said.push_str(&format!("{text}: {}\n", answer["params"]["update"]["content"]["text"].as_str().unwrap()));
        zed.answer(prompt).await;
    }
    expect![[r#"
        /bogus: There is no command `/bogus`. `/help` lists all of them; nothing was sent to the model.
        /modle safe: There is no command `/modle`. Did you mean `/mode` or `/model`? `/help` lists all of them; nothing was sent to the model.
        /usr/bin/x is broken: Hello
        /tmp is full: Hello
    "#]].assert_eq(&said);
}

#[actix::test]
async fn a_session_is_named_after_its_first_prompt_while_the_turn_runs() {
    let scene = Scene::new(vec![vec![Step::Hold]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "Mend the parser\nand test it").await;
    let titled = zed.update("session_info_update").await;
    assert_eq!(titled["params"]["update"]["title"], "Mend the parser");
    let live = zed.call("_acpd/sessions", json!({})).await;
    assert_eq!(live["result"]["sessions"][0]["title"], "Mend the parser");
    zed.notify("session/cancel", json!({ "sessionId": session })).await;
    zed.answer(prompt).await;
}

#[actix::test]
async fn status_describes_the_session() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "/status").await;
    let said = zed.update("agent_message_chunk").await;
    zed.answer(prompt).await;
    let text = said["params"]["update"]["content"]["text"].as_str().unwrap().replace(&session, "SESSION");
    expect![[r#"
        - session: `SESSION`
        - folder: `/work`
        - model: `script`, thinking: medium
        - mode: full, approval: ask
        - messages: 1
        - tokens: 0 in, 0 out; the window holds 0 now
        - cache: 0 of the input tokens read (0 %), 0 written"#]]
    .assert_eq(&text);
}

#[actix::test]
async fn status_shows_how_much_of_the_input_came_from_the_cache() {
    let usage = Usage { input: 120, output: 30, cached_read: 90, cached_write: 10, thought: 0 };
    let scene = Scene::new(vec![vec![Step::text("Hello"), Step::Usage(usage), Step::end()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let prompt = zed.prompt(&session, "/status").await;
    zed.answer(prompt).await;
    let shown = scene.transcript.take();
    assert!(shown.contains("- tokens: 120 in, 30 out;"), "{shown}");
    assert!(shown.contains("- cache: 90 of the input tokens read (75 %), 10 written"), "{shown}");
}

#[actix::test]
async fn compact_replaces_older_messages_by_a_summary_and_history_keeps_them() {
    let scene =
        Scene::new(vec![hello(), hello(), vec![Step::text("They said "), Step::text("hello."), Step::end()], hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["one", "two", "/compact", "three"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    let transcript = scene.transcript.take();
    zed.call("session/load", json!({ "sessionId": session })).await;
    let loaded = scene.transcript.take();
    assert!(loaded.contains("\"text\":\"one\""), "{loaded}");
    let models: Vec<&str> = transcript.lines().filter(|line| line.starts_with("model")).collect();
    expect![[r#"
        model  < user: one
        model  < user: one | agent: Hello | user: two
        model  < user: one | agent: Hello | user: two | agent: Hello | user: Summarise the conversation so far. Your summary will replace it, because it has become too long, and you will continue the task from the summary. The user's messages, the plan and the last messages stay. Do not call tools. Use these sections, and write "none" where there is nothing to say:
        model  < user: one | user: What happened so far, in short:"#]]
    .assert_eq(&models.join("\n"));
}

#[actix::test]
async fn a_window_that_is_nearly_full_is_compacted_before_the_next_request() {
    let usage = Step::Usage(Usage { input: 170_000, output: 1, ..Usage::default() });
    let scene = Scene::new(vec![
        vec![Step::text("Hello"), usage, Step::end()],
        vec![Step::text("A greeting."), Step::end()],
        hello(),
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["one", "two"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"usage_update","used":170001,"size":200000}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":170001,"inputTokens":170000,"outputTokens":1},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        model  < user: one | agent: Hello | user: two | user: Summarise the conversation so far. Your summary will replace it, because it has become too long, and you will continue the task from the summary. The user's messages, the plan and the last messages stay. Do not call tools. Use these sections, and write "none" where there is nothing to say:

        ## Goal
        What the user wants, and how much of it is done.
        ## Constraints
        Every requirement, preference and prohibition of the user, in the user's own words.
        ## Decisions
        What was decided and why, with the approaches that were tried and given up.
        ## Files
        Each file that matters: its path, what is in it, and what was changed.
        ## Commands
        Each command that matters, and its result.
        ## Errors
        Errors that occurred, their causes, and whether they are solved.
        ## Next step
        What you were doing, and exactly what comes next.

        Be exact with names, paths, numbers and messages. Write nothing but the summary.
        model  < user: one | user: What happened so far, in short:

        A greeting.

        [acpd wrote this message in place of older ones. The user's own messages before it are unchanged.] | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Older messages were replaced by a summary."},"messageId":"#4"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#5"}
        zed    < 4 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#6"}}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_proven_overflow_is_compacted_and_tried_again_once() {
    let overflow =
        || Step::Fail(ModelError { kind: FailureKind::Overflow, message: "too long".into(), data: Value::Null });
    let scene =
        Scene::new(vec![hello(), vec![overflow()], vec![Step::text("A greeting."), Step::end()], vec![overflow()]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "two").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        model  < user: one | agent: Hello | user: two
        model  < user: <conversation>
        User: one

        Agent: Hello
        </conversation>

        Summarise the conversation so far. Your summary will replace it, because it has become too long, and you will continue the task from the summary. The user's messages, the plan and the last messages stay. Do not call tools. Use these sections, and write "none" where there is nothing to say:

        ## Goal
        What the user wants, and how much of it is done.
        ## Constraints
        Every requirement, preference and prohibition of the user, in the user's own words.
        ## Decisions
        What was decided and why, with the approaches that were tried and given up.
        ## Files
        Each file that matters: its path, what is in it, and what was changed.
        ## Commands
        Each command that matters, and its result.
        ## Errors
        Errors that occurred, their causes, and whether they are solved.
        ## Next step
        What you were doing, and exactly what comes next.

        Be exact with names, paths, numbers and messages. Write nothing but the summary.
        model  < user: one | user: What happened so far, in short:

        A greeting.

        [acpd wrote this message in place of older ones. The user's own messages before it are unchanged.] | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Older messages were replaced by a summary."},"messageId":"#4"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"too long"},"messageId":"#5"}
        zed    < 4 error {"code":-32603,"message":"too long","data":{"advice":"send the prompt again; if it fails again, see the daemon's log"}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_first_prompt_that_overflows_says_what_fills_the_window() {
    let data = json!({ "provider": "local", "advice": "compact the conversation" });
    let overflow = Step::Fail(ModelError { kind: FailureKind::Overflow, message: "too long".into(), data });
    let scene = Scene::new(vec![vec![overflow]]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    scene.transcript.take();
    let prompt = zed.prompt(&session, "one").await;
    zed.answer(prompt).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"too long"},"messageId":"#2"}
        zed    < 3 error {"code":-32603,"message":"too long","data":{"provider":"local","advice":"choose a model with a larger window, or load this one with a larger window: acpd's instructions and tools take about 200 tokens, and the conversation about 100"}}
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_call_that_fails_three_times_is_not_run_again() {
    let mut answers: Vec<Vec<Step>> = (0..4).map(|_| vec![Step::call("refuse", json!({})), Step::end()]).collect();
    answers.push(vec![Step::text("I give up."), Step::end()]);
    let scene = Scene::new(answers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "go").await;
    zed.answer(prompt).await;
    let transcript = scene.transcript.take();
    assert_eq!(transcript.matches("\"status\":\"failed\"").count(), 4, "{transcript}");
    assert_eq!(
        transcript.lines().filter(|line| line.contains("has failed 3 times with the same input")).count(),
        2,
        "{transcript}"
    );
}

#[actix::test]
async fn a_call_that_failed_may_be_tried_again_after_something_was_changed() {
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(vec![Step::call("refuse", json!({})), Step::end()]);
        answers.push(vec![Step::call("crash", json!({})), Step::call("look", json!({})), Step::end()]);
        answers.push(vec![Step::call("touch", json!({})), Step::end()]);
    }
    answers.push(vec![Step::text("Done."), Step::end()]);
    let scene = Scene::new(answers);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.call("session/set_config_option", json!({ "sessionId": session, "configId": "approval", "value": "never" }))
        .await;
    let prompt = zed.prompt(&session, "go").await;
    zed.answer(prompt).await;
    let transcript = scene.transcript.take();
    assert!(!transcript.contains("It was not run again"), "{transcript}");
}

#[actix::test]
async fn a_blank_summary_replaces_nothing() {
    let scene = Scene::new(vec![hello(), hello(), vec![Step::text(" "), Step::end()], vec![Step::end()], hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["one", "two", "/compact", "three"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    let transcript = scene.transcript.take();
    assert!(transcript.contains("the model gave no summary"), "{transcript}");
    assert!(
        transcript.contains("model  < user: one | agent: Hello | user: two | agent: Hello | user: three"),
        "{transcript}"
    );
}

#[actix::test]
async fn a_model_failure_appears_in_the_conversation_and_in_the_error() {
    let failure =
        |kind| ModelError { kind, message: "overloaded".into(), data: json!({ "provider": "p", "status": 529 }) };
    let scene = Scene::new(vec![
        vec![Step::text("On"), Step::Fail(failure(FailureKind::Model))],
        vec![Step::Fail(failure(FailureKind::Authentication))],
    ]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for text in ["one", "two"] {
        let prompt = zed.prompt(&session, text).await;
        zed.answer(prompt).await;
    }
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"one"}]}
        model  < user: one
        zed    < update {"sessionUpdate":"session_info_update","title":"one","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"On"},"messageId":"#2"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"overloaded"},"messageId":"#3"}
        zed    < 3 error {"code":-32603,"message":"overloaded","data":{"provider":"p","status":529}}
        zed    > 4 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"two"}]}
        model  < user: one | agent: On | user: two
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"overloaded"},"messageId":"#4"}
        zed    < 4 error {"code":-32000,"message":"overloaded","data":{"provider":"p","status":529}}
    "##]].assert_eq(&scene.transcript.take());
}
