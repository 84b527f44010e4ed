//! Loads that are withdrawn or repeated, closes that are repeated, and lists of many pages.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

/// A session with far more in it than can be sent to a client that does not read.
async fn long_session(scene: &Scene) -> String {
    let mut answer: Vec<Step> = Vec::new();
    for piece in 0..200 {
        answer.push(Step::text(format!("{piece:<2000}")));
        answer.push(Step::thought("hm"));
    }
    answer.push(Step::end());
    scene.script.push(answer);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "talk").await;
    zed.answer(prompt).await;
    scene.transcript.take();
    session
}

#[actix::test]
async fn a_load_that_is_withdrawn_ends_and_leaves_the_session_unopened() {
    let scene = Scene::with(vec![], |settings| settings.outbox_limit = 4000);
    let session = long_session(&scene).await;
    let mut vim = scene.client_over(1000, "vim");
    vim.initialize().await;
    let params = json!({ "sessionId": session });
    vim.say(&format!(r#"{{"jsonrpc":"2.0","id":"\u0061","method":"session/load","params":{params}}}"#)).await;
    vim.update("user_message_chunk").await;
    vim.notify("$/cancel_request", json!({ "requestId": "a" })).await;
    scene.transcript.take();
    vim.until(|message| message["id"] == "a").await;
    let transcript = scene.transcript.take();
    assert!(transcript.lines().count() < 300, "the replay went on");
    vim.silence().await;
    vim.prompt(&session, "more").await;
    vim.silence().await;
    let answered = transcript.lines().last().unwrap_or_default();
    expect![[r##"
        vim    < "\u0061" error {"code":-32800,"message":"Request cancelled","data":{"advice":"it had no effect"}}
        vim    < silence
        vim    > 2 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"more"}]}
        vim    < 2 error {"code":-32602,"message":"Invalid params","data":{"session_id":"Session not found"}}
        vim    < silence
    "##]]
    .assert_eq(&format!("{answered}\n{}", scene.transcript.take()));
}

#[actix::test]
async fn a_withdrawn_load_does_not_take_a_prompts_answer_with_it() {
    let scene = Scene::with(vec![], |settings| settings.outbox_limit = 4000);
    let session = long_session(&scene).await;
    scene.script.push(vec![Step::Hold, Step::text("Done"), Step::end()]);
    let mut vim = scene.client_over(1000, "vim");
    vim.initialize().await;
    vim.call("session/resume", json!({ "sessionId": session })).await;
    let prompt = vim.prompt(&session, "more").await;
    scene.script.until_held(1).await;
    let load = vim.request("session/load", json!({ "sessionId": session })).await;
    vim.update("user_message_chunk").await;
    vim.notify("$/cancel_request", json!({ "requestId": load })).await;
    scene.script.release();
    assert_eq!(vim.answer(load).await["error"]["code"], -32800);
    assert_eq!(vim.answer(prompt).await["result"]["stopReason"], "end_turn");
}

#[actix::test]
async fn two_loads_at_once_are_both_answered_after_a_whole_replay() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.prompt(&session, "hi").await;
    zed.answer(prompt).await;
    let mut vim = scene.editor("vim").await;
    scene.transcript.take();
    for method in ["session/load", "session/load", "session/resume"] {
        vim.request(method, json!({ "sessionId": session })).await;
    }
    vim.silence().await;
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.contains("available_commands_update")).collect();
    expect![[r##"
        vim    > 2 session/load {"sessionId":"#1"}
        vim    > 3 session/load {"sessionId":"#1"}
        vim    > 4 session/resume {"sessionId":"#1"}
        vim    < 4 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"#3"}
        vim    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        vim    < 2 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < 3 = {"modes":"...","configOptions":"...","models":"..."}
        vim    < silence"##]].assert_eq(&transcript.join("\n"));
}

#[actix::test]
async fn two_loads_of_a_slow_client_are_both_answered() {
    let scene = Scene::with(vec![], |settings| settings.outbox_limit = 4000);
    let session = long_session(&scene).await;
    let mut vim = scene.client_over(1000, "vim");
    vim.initialize().await;
    for method in ["session/load", "session/load", "session/resume", "session/load"] {
        vim.request(method, json!({ "sessionId": session })).await;
    }
    vim.silence().await;
    assert_eq!(vim.unanswered(), []);
}

#[actix::test]
async fn repeated_closes_and_deletes_are_each_answered() {
    let scene = Scene::new(vec![vec![Step::text("One"), Step::Hold], hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    for method in ["session/close", "session/close", "session/delete", "session/close"] {
        zed.request(method, json!({ "sessionId": session })).await;
    }
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"count"}]}
        model  < user: count
        zed    < update {"sessionUpdate":"session_info_update","title":"count","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"One"},"messageId":"#2"}
        zed    > 4 session/close {"sessionId":"#1"}
        zed    > 5 session/close {"sessionId":"#1"}
        zed    > 6 session/delete {"sessionId":"#1"}
        zed    > 7 session/close {"sessionId":"#1"}
        zed    < 3 = {"stopReason":"cancelled","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"#3"}}}
        zed    < 7 = {}
        zed    < 5 = {}
        zed    < 4 = {}
        zed    < 6 = {}
        zed    < silence
    "##]].assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_prompt_a_close_and_a_load_at_once_are_each_answered() {
    let scene = Scene::new(vec![hello(), hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for _ in 0..2 {
        let block = json!([{ "type": "text", "text": "hi" }]);
        zed.request("session/prompt", json!({ "sessionId": session, "prompt": block })).await;
        zed.request("session/close", json!({ "sessionId": session })).await;
        zed.request("session/load", json!({ "sessionId": session })).await;
        zed.request("session/resume", json!({ "sessionId": session })).await;
    }
    zed.silence().await;
    assert_eq!(zed.unanswered(), []);
}

#[actix::test]
async fn a_session_may_be_opened_in_its_folder_by_another_name() {
    let scene = Scene::new(vec![hello()]);
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": "/linked" })).await;
    let session = opened["result"]["sessionId"].clone();
    scene.transcript.take();
    for method in ["session/load", "session/resume", "session/fork"] {
        for cwd in [json!("/work"), json!("/linked"), Value::Null, json!("/work/sub"), json!("/nowhere"), json!("work")]
        {
            zed.call(method, json!({ "sessionId": session, "cwd": cwd })).await;
        }
    }
    let transcript = scene.transcript.take();
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.contains("< update")).collect();
    expect![[r##"
        zed    > 3 session/load {"sessionId":"#1","cwd":"/work"}
        zed    < 3 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 4 session/load {"sessionId":"#1","cwd":"/linked"}
        zed    < 4 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 5 session/load {"sessionId":"#1","cwd":null}
        zed    < 5 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 6 session/load {"sessionId":"#1","cwd":"/work/sub"}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"cwd":"the session works in /linked"}}
        zed    > 7 session/load {"sessionId":"#1","cwd":"/nowhere"}
        zed    < 7 error {"code":-32602,"message":"Invalid params","data":{"cwd":"/nowhere is not a folder"}}
        zed    > 8 session/load {"sessionId":"#1","cwd":"work"}
        zed    < 8 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}
        zed    > 9 session/resume {"sessionId":"#1","cwd":"/work"}
        zed    < 9 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 10 session/resume {"sessionId":"#1","cwd":"/linked"}
        zed    < 10 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 11 session/resume {"sessionId":"#1","cwd":null}
        zed    < 11 = {"modes":"...","configOptions":"...","models":"..."}
        zed    > 12 session/resume {"sessionId":"#1","cwd":"/work/sub"}
        zed    < 12 error {"code":-32602,"message":"Invalid params","data":{"cwd":"the session works in /linked"}}
        zed    > 13 session/resume {"sessionId":"#1","cwd":"/nowhere"}
        zed    < 13 error {"code":-32602,"message":"Invalid params","data":{"cwd":"/nowhere is not a folder"}}
        zed    > 14 session/resume {"sessionId":"#1","cwd":"work"}
        zed    < 14 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}
        zed    > 15 session/fork {"sessionId":"#1","cwd":"/work"}
        zed    < 15 = {"sessionId":"#2","modes":"...","configOptions":"...","models":"..."}
        zed    > 16 session/fork {"sessionId":"#1","cwd":"/linked"}
        zed    < 16 = {"sessionId":"#3","modes":"...","configOptions":"...","models":"..."}
        zed    > 17 session/fork {"sessionId":"#1","cwd":null}
        zed    < 17 = {"sessionId":"#4","modes":"...","configOptions":"...","models":"..."}
        zed    > 18 session/fork {"sessionId":"#1","cwd":"/work/sub"}
        zed    < 18 = {"sessionId":"#5","modes":"...","configOptions":"...","models":"..."}
        zed    > 19 session/fork {"sessionId":"#1","cwd":"/nowhere"}
        zed    < 19 error {"code":-32602,"message":"Invalid params","data":{"cwd":"/nowhere is not a folder"}}
        zed    > 20 session/fork {"sessionId":"#1","cwd":"work"}
        zed    < 20 error {"code":-32602,"message":"Invalid params","data":{"cwd":"Must be an absolute path"}}"##]]
    .assert_eq(&transcript.join("\n"));
}

#[actix::test]
async fn a_list_is_read_page_by_page_newest_first() {
    let scene = Scene::with(vec![], |settings| settings.page = 2);
    let mut zed = scene.editor("zed").await;
    for (title, cwd) in
        [("one", "/work"), ("two", "/work"), ("three", "/work/sub"), ("four", "/work"), ("five", "/work")]
    {
        scene.script.push(hello());
        let opened = zed.call("session/new", json!({ "cwd": cwd, "additionalDirectories": ["/work/more"] })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), title).await;
        zed.answer(prompt).await;
    }
    let mut transcript = String::new();
    for cwd in [Value::Null, json!("/work"), json!("/work/sub"), json!("/nowhere")] {
        transcript += &format!("{cwd}:");
        let mut cursor = Value::Null;
        loop {
            let page = zed.call("session/list", json!({ "cwd": cwd, "cursor": cursor })).await;
            let sessions = page["result"]["sessions"].as_array().unwrap();
            let titles: Vec<&str> = sessions.iter().map(|session| session["title"].as_str().unwrap()).collect();
            transcript += &format!(" {titles:?}");
            cursor = page["result"]["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        transcript += "\n";
    }
    scene.transcript.take();
    for cursor in [json!("nonsense"), json!(7)] {
        zed.call("sessions/list", json!({ "cursor": cursor })).await;
    }
    zed.call("sessions/list", json!({ "cwd": "/work/sub" })).await;
    expect![[r##"
        null: ["five", "four"] ["three", "two"] ["one"]
        "/work": ["five", "four"] ["two", "one"]
        "/work/sub": ["three"]
        "/nowhere": []
        zed    > 19 sessions/list {"cursor":"nonsense"}
        zed    < 19 error {"code":-32602,"message":"Invalid params","data":{"cursor":"unknown cursor"}}
        zed    > 20 sessions/list {"cursor":7}
        zed    < 20 error {"code":-32602,"message":"Invalid params","data":{"cursor":"Must be a string"}}
        zed    > 21 sessions/list {"cwd":"/work/sub"}
        zed    < 21 = {"sessions":[{"sessionId":"#7","cwd":"/work/sub","additionalDirectories":["/work/more"],"title":"three","updatedAt":"T","_meta":{"acpd":{"createdAt":"T","state":"idle","messageCount":1}}}]}
    "##]].assert_eq(&format!("{transcript}{}", scene.transcript.take()));
}

#[actix::test]
async fn a_list_finds_the_sessions_of_a_folder_by_any_of_its_paths() {
    let scene = Scene::new(vec![]);
    let mut zed = scene.editor("zed").await;
    for (title, cwd) in [("real", "/work"), ("linked", "/linked"), ("below", "/work/sub")] {
        scene.script.push(hello());
        let opened = zed.call("session/new", json!({ "cwd": cwd })).await;
        let prompt = zed.prompt(opened["result"]["sessionId"].as_str().unwrap(), title).await;
        zed.answer(prompt).await;
    }
    // An evicted session is still listed under its folder when it comes back.
    let first = zed.call("session/list", json!({})).await["result"]["sessions"][1]["sessionId"].clone();
    zed.call("session/close", json!({ "sessionId": first })).await;
    zed.call("session/load", json!({ "sessionId": first, "cwd": "/work" })).await;
    let fork = zed.call("session/fork", json!({ "sessionId": first })).await["result"]["sessionId"].clone();
    scene.script.push(hello());
    let prompt = zed.prompt(fork.as_str().unwrap(), "again").await;
    zed.answer(prompt).await;
    for cwd in ["/work", "/linked"] {
        let listed = zed.call("session/list", json!({ "cwd": cwd })).await;
        let sessions = listed["result"]["sessions"].as_array().unwrap().iter();
        let mut found: Vec<String> =
            sessions.map(|session| format!("{} {}", session["title"], session["cwd"])).collect();
        found.sort();
        assert_eq!(found, [r#""linked (fork)" "/linked""#, r#""linked" "/linked""#, r#""real" "/work""#], "{cwd}");
    }
}

#[actix::test]
async fn forking_a_session_names_its_missing_folder() {
    let scene = Scene::new(vec![hello()]);
    let mut zed = scene.editor("zed").await;
    let folder = tempfile::TempDir::with_prefix("a b").unwrap();
    let (path, uri) = (folder.path().to_owned(), folder.path().display().to_string().replace(' ', "%20"));
    let opened = zed.call("session/new", json!({ "cwd": path })).await;
    let session = opened["result"]["sessionId"].clone();
    let prompt = zed.prompt(session.as_str().unwrap(), "hi").await;
    zed.answer(prompt).await;
    drop(folder);
    scene.transcript.take();
    zed.call("session/fork", json!({ "sessionId": session })).await;
    // A path that the client names is a wrong parameter, and the conversation can still be read.
    zed.call("session/fork", json!({ "sessionId": session, "cwd": path })).await;
    assert!(zed.call("session/load", json!({ "sessionId": session })).await.get("result").is_some());
    assert!(zed.call("session/fork", json!({ "sessionId": session, "cwd": "/work" })).await.get("result").is_some());
    let transcript = scene.transcript.take().replace(&uri, "URI").replace(&path.display().to_string(), "DIR");
    let transcript: Vec<&str> = transcript.lines().filter(|line| line.contains(" error ")).collect();
    expect![[r#"
        zed    < 4 error {"code":-32002,"message":"Resource not found","data":{"uri":"file://URI","advice":"DIR is not a folder; name another folder as `cwd`"}}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"cwd":"DIR is not a folder"}}"#]].assert_eq(&transcript.join("\n"));
}

#[actix::test]
async fn a_client_whose_input_ended_stays_detached_after_its_last_prompt() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut ctl = scene.client("ctl");
    ctl.call("_acpd/close", json!({ "sessionId": session })).await;
    zed.silence().await;
    scene.transcript.take();
    // The prompt would open the session again, and no client could answer its questions.
    zed.prompt(&session, "hi").await;
    zed.close().await;
    zed.silence().await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","prompt":[{"type":"text","text":"hi"}]}
        zed    > end of file
        zed    < 3 error {"code":-32603,"message":"the client's input ended before the session was open again","data":{"advice":"keep the input open until the request is answered"}}
        zed    < end of file
    "##]]
    .assert_eq(&scene.transcript.take());
}

#[actix::test]
async fn a_bridge_that_resumes_twice_gets_each_answer_once() {
    let scene = Scene::new(vec![hello(), vec![Step::text("One"), Step::Hold, Step::end()]]);
    let hello = json!({ "version": "0", "bridge": "bridge-1" });
    let mut zed = scene.client("zed");
    zed.call("_acpd/hello", hello.clone()).await;
    zed.initialize().await;
    let session = zed.new_session().await;
    let first = zed.prompt(&session, "hi").await;
    zed.answer(first).await;
    // On the connection that sent the requests, nothing needs to be answered again.
    zed.call("_acpd/resume", json!({ "sessionId": session, "after": [1, 1] })).await;
    let second = zed.prompt(&session, "count").await;
    zed.update("agent_message_chunk").await;
    drop(zed);
    scene.script.release();
    let mut again = scene.client("zed");
    again.call("_acpd/hello", hello).await;
    again.initialize().await;
    for prompt in [first, second] {
        again.expect(prompt, "session/prompt");
    }
    for _ in 0..2 {
        again.request("_acpd/resume", json!({ "sessionId": session, "after": [1, 1] })).await;
    }
    again.silence().await;
    assert_eq!(again.unanswered(), []);
}
