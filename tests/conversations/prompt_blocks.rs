//! The contents of a prompt: every kind of block, in the protocol's form and in those of other
//! clients, and the updates that come back.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::{Scene, Step};

fn hello() -> Vec<Step> {
    vec![Step::text("Hello"), Step::end()]
}

/// What another editor receives of these blocks.
async fn shown(blocks: Value) -> String {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let prompt = zed.request("session/prompt", json!({ "sessionId": session, "prompt": blocks })).await;
    zed.answer(prompt).await;
    let talk = scene.transcript.take();
    let model = talk.find("model  <").map_or("", |at| &talk[at..]);
    let mut shown = model.split_inclusive("\nzed").next().unwrap_or_default().trim_end_matches("zed").to_owned();
    let mut vim = scene.editor("vim").await;
    let load = vim.request("session/load", json!({ "sessionId": session })).await;
    loop {
        let message = vim.next().await.unwrap();
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "user_message_chunk" {
            shown += &format!("{}\n", update["content"]);
        }
        if message["id"] == json!(load) {
            return shown;
        }
    }
}

#[actix::test]
async fn every_kind_of_block_reaches_the_model_and_is_replayed_unchanged() {
    let blocks = json!([
        { "type": "text", "text": "Look:" },
        { "type": "resource_link", "uri": "file:///work/a.rs", "name": "a.rs", "title": "A", "description": "a file", "mimeType": "text/rust", "size": 7 },
        { "type": "resource", "resource": { "uri": "file:///work/b.rs", "text": "fn b() {}", "mimeType": "text/rust" } },
        { "type": "resource", "resource": { "uri": "file:///work/c.bin", "blob": "AAAA", "mimeType": "application/zip" } },
        { "type": "image", "data": "AAAA", "mimeType": "image/png", "uri": "file:///work/d.png" },
        { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
    ]);
    expect![[r#"
        model  < user: Look: [file: a.rs ("A", a file, text/rust, 7 bytes); not read yet, read_file reads it] <resource uri="file:///work/b.rs">
        fn b() {}
        </resource> [resource: application/zip file:///work/c.bin] [image: image/png] [audio: audio/wav]
        {"type":"text","text":"Look:"}
        {"type":"resource_link","description":"a file","mimeType":"text/rust","name":"a.rs","size":7,"title":"A","uri":"file:///work/a.rs"}
        {"type":"resource","resource":{"mimeType":"text/rust","text":"fn b() {}","uri":"file:///work/b.rs"}}
        {"type":"resource","resource":{"blob":"AAAA","mimeType":"application/zip","uri":"file:///work/c.bin"}}
        {"type":"image","data":"AAAA","mimeType":"image/png","uri":"file:///work/d.png"}
        {"type":"audio","data":"AAAA","mimeType":"audio/wav"}
    "#]].assert_eq(&shown(blocks).await);
}

#[actix::test]
async fn blocks_of_other_dialects_are_made_whole() {
    let blocks = json!([
        { "type": "image", "data": "AAAA" },
        { "type": "image", "imageData": "BBBB", "imageMime": "image/png" },
        { "type": "image", "imageUrl": "https://example.com/pictures/e.png?size=big" },
        { "type": "audio", "audioData": "CCCC" },
        { "type": "audio", "audioUrl": "https://example.com/f.mp3", "audioMime": "audio/mpeg" },
        { "type": "resource_link", "uri": "file:///work/src/g.rs" },
        { "type": "resource_link", "uri": "https://example.com/", "name": "" },
        { "type": "resource", "resource": { "text": { "uri": "file:///work/h.rs", "text": "h" } } },
        { "type": "resource", "resource": { "blob": { "uri": "file:///work/i.bin", "blob": "DDDD" } } },
    ]);
    expect![[r#"
        model  < user: [image: application/octet-stream] [image: image/png] [link: e.png https://example.com/pictures/e.png?size=big] [audio: application/octet-stream] [link: f.mp3 https://example.com/f.mp3 (audio/mpeg)] [file: src/g.rs; not read yet, read_file reads it] [link: example.com https://example.com/] <resource uri="file:///work/h.rs">
        h
        </resource> [resource: application/octet-stream file:///work/i.bin]
        {"type":"image","data":"AAAA","mimeType":"application/octet-stream"}
        {"type":"image","data":"BBBB","mimeType":"image/png"}
        {"type":"resource_link","name":"e.png","uri":"https://example.com/pictures/e.png?size=big"}
        {"type":"audio","data":"CCCC","mimeType":"application/octet-stream"}
        {"type":"resource_link","mimeType":"audio/mpeg","name":"f.mp3","uri":"https://example.com/f.mp3"}
        {"type":"resource_link","name":"g.rs","uri":"file:///work/src/g.rs"}
        {"type":"resource_link","name":"example.com","uri":"https://example.com/"}
        {"type":"resource","resource":{"text":"h","uri":"file:///work/h.rs"}}
        {"type":"resource","resource":{"blob":"DDDD","uri":"file:///work/i.bin"}}
    "#]].assert_eq(&shown(blocks).await);
}

#[actix::test]
async fn annotations_and_meta_survive_a_load() {
    let trace = json!({ "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "mine": [1, null] });
    let notes = json!({ "audience": ["user", "assistant"], "priority": 0.5 });
    let blocks = json!([
        { "type": "text", "text": "a", "annotations": notes, "_meta": trace },
        { "type": "resource_link", "uri": "file:///work/b", "name": "b", "annotations": notes, "_meta": trace },
        { "type": "resource", "resource": { "uri": "file:///work/c", "text": "c", "_meta": trace }, "_meta": { "outer": true } },
        { "type": "image", "data": "AAAA", "mimeType": "image/png", "_meta": trace },
        { "type": "text", "text": "odd notes are left out", "annotations": 7, "_meta": "no" },
    ]);
    expect![[r#"
        model  < user: a [file: b; not read yet, read_file reads it] <resource uri="file:///work/c">
        c
        </resource> [image: image/png] odd notes are left out
        {"type":"text","annotations":{"audience":["user","assistant"],"priority":0.5},"text":"a","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","mine":[1,null]}}
        {"type":"resource_link","annotations":{"audience":["user","assistant"],"priority":0.5},"name":"b","uri":"file:///work/b","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","mine":[1,null]}}
        {"type":"resource","resource":{"text":"c","uri":"file:///work/c","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","mine":[1,null]}},"_meta":{"outer":true}}
        {"type":"image","data":"AAAA","mimeType":"image/png","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","mine":[1,null]}}
        {"type":"text","text":"odd notes are left out"}
    "#]].assert_eq(&shown(blocks).await);
}

#[actix::test]
async fn annotations_and_meta_survive_the_store_and_reach_other_editors() {
    let scene = Scene::new(vec![hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/resume", json!({ "sessionId": session })).await;
    let blocks = json!([
        { "type": "text", "annotations": { "priority": 0.5 }, "text": "a", "_meta": { "mine": [1, null] } },
        { "type": "resource", "annotations": { "audience": ["user"] }, "resource": { "text": "c", "uri": "file:///work/c", "_meta": { "inner": {} } }, "_meta": { "outer": true } },
    ]);
    zed.call("session/prompt", json!({ "sessionId": session, "prompt": blocks })).await;
    for block in blocks.as_array().unwrap() {
        assert_eq!(vim.update("user_message_chunk").await["params"]["update"]["content"], *block);
    }
    let mut ctl = scene.client("ctl");
    let log = ctl.call("_acpd/export", json!({ "sessionId": session })).await["result"]["events"].clone();
    let copy = ctl.call("_acpd/import", json!({ "events": log })).await["result"]["sessionId"].clone();
    vim.request("session/load", json!({ "sessionId": copy })).await;
    for block in blocks.as_array().unwrap() {
        assert_eq!(vim.update("user_message_chunk").await["params"]["update"]["content"], *block);
    }
}

#[actix::test]
async fn a_bad_block_is_refused_with_its_place() {
    let scene = Scene::new(vec![]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    for block in [
        json!(7),
        json!({}),
        json!({ "type": 7 }),
        json!({ "type": "smell" }),
        json!({ "type": "text" }),
        json!({ "type": "text", "text": 7 }),
        json!({ "type": "image" }),
        json!({ "type": "audio", "data": 7 }),
        json!({ "type": "resource_link", "name": "x" }),
        json!({ "type": "resource" }),
        json!({ "type": "resource", "resource": {} }),
        json!({ "type": "resource", "resource": { "uri": "file:///x" } }),
    ] {
        let fine = json!({ "type": "text", "text": "fine" });
        zed.call("session/prompt", json!({ "sessionId": session, "prompt": [fine, block] })).await;
    }
    let transcript = scene.transcript.take();
    let errors: Vec<&str> = transcript.lines().filter(|line| line.contains(" error ")).collect();
    expect![[r#"
        zed    < 3 error {"code":-32602,"message":"Invalid params","data":{"prompt[1]":"Must be an object"}}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].type":"Required"}}
        zed    < 5 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].type":"Required"}}
        zed    < 6 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].type":"Unknown type of content"}}
        zed    < 7 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].text":"Required"}}
        zed    < 8 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].text":"Required"}}
        zed    < 9 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].data":"Required"}}
        zed    < 10 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].data":"Required"}}
        zed    < 11 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].uri":"Required"}}
        zed    < 12 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].resource":"Must be an object"}}
        zed    < 13 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].resource.uri":"Required"}}
        zed    < 14 error {"code":-32602,"message":"Invalid params","data":{"prompt[1].resource":"Must have text or blob"}}"#]].assert_eq(&errors.join("\n"));
}

#[actix::test]
async fn a_prompts_own_message_id_is_kept_and_returned() {
    let scene = Scene::new(vec![hello(), hello()]);
    let (mut zed, session) = scene.editor_with_session("zed").await;
    let mut vim = scene.editor("vim").await;
    vim.call("session/resume", json!({ "sessionId": session })).await;
    scene.transcript.take();
    let prompt = json!([{ "type": "text", "text": "hi" }, { "type": "text", "text": "there" }]);
    zed.call("session/prompt", json!({ "sessionId": session, "messageId": "my-own", "prompt": prompt })).await;
    vim.silence().await;
    zed.call("session/prompt", json!({ "sessionId": session, "messageId": 7, "prompt": prompt })).await;
    expect![[r##"
        zed    > 3 session/prompt {"sessionId":"#1","messageId":"my-own","prompt":[{"type":"text","text":"hi"},{"type":"text","text":"there"}]}
        model  < user: hi there
        zed    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        zed    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        zed    < 3 = {"stopReason":"end_turn","usage":{"totalTokens":0,"inputTokens":0,"outputTokens":0},"_meta":{"acpd":{"userMessageId":"my-own"}}}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"},"messageId":"my-own"}
        vim    < update {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"there"},"messageId":"my-own"}
        vim    < update {"sessionUpdate":"session_info_update","title":"hi","updatedAt":"T"}
        vim    < update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"#2"}
        vim    < silence
        zed    > 4 session/prompt {"sessionId":"#1","messageId":7,"prompt":[{"type":"text","text":"hi"},{"type":"text","text":"there"}]}
        zed    < 4 error {"code":-32602,"message":"Invalid params","data":{"messageId":"Must be a string"}}
    "##]].assert_eq(&scene.transcript.take());
}
