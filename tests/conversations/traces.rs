//! The log that the operator reads: spans with their parents, the client's trace in them, and
//! messages by kind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};

use expect_test::expect;
use serde_json::json;
use testkit::{Scene, Step};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Records every span and every line.
#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    spans: Vec<(u64, Noted)>,
    lines: Vec<(Level, String)>,
}

struct Noted {
    name: &'static str,
    within: Option<u64>,
    fields: BTreeMap<String, String>,
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

thread_local! {
    /// The destination of this thread's spans and lines. A conversation runs on the thread of its
    /// test.
    static OPEN: RefCell<Option<Notebook>> = const { RefCell::new(None) };
}

/// The subscriber of the whole process, which forwards to the thread's notebook. A subscriber per
/// test could miss a call site that another thread reaches for the first time at that moment.
struct ByThread;

impl ByThread {
    fn note(write: impl FnOnce(&mut Notes)) {
        OPEN.with_borrow(|open| {
            if let Some(notebook) = open {
                write(&mut notebook.0.lock().unwrap());
            }
        });
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ByThread {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Self::note(|notes| {
            let mut fields = BTreeMap::new();
            attributes.record(&mut Fields(&mut fields));
            let within = context.span(id).and_then(|span| span.parent().map(|parent| parent.id().into_u64()));
            let noted = Noted { name: attributes.metadata().name(), within, fields };
            notes.spans.push((id.into_u64(), noted));
        });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        Self::note(|notes| {
            if let Some((_, known)) = notes.spans.iter_mut().rev().find(|(known, _)| *known == id.into_u64()) {
                record.record(&mut Fields(&mut known.fields));
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        Self::note(|notes| {
            let mut fields = BTreeMap::new();
            event.record(&mut Fields(&mut fields));
            let message = fields.remove("message").unwrap_or_default();
            notes.lines.push((*event.metadata().level(), format!("{message} {fields:?}")));
        });
    }
}

/// Closes the thread's notebook.
struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        OPEN.set(None);
    }
}

impl Notebook {
    fn open() -> (Self, Closing) {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let subscriber = tracing_subscriber::registry().with(ByThread);
            tracing::subscriber::set_global_default(subscriber).expect("nothing else in these tests subscribes");
        });
        let notebook = Self::default();
        OPEN.set(Some(notebook.clone()));
        (notebook, Closing)
    }

    /// Records a conversation.
    async fn of(conversation: impl AsyncFn()) -> Self {
        let (notebook, _open) = Self::open();
        conversation().await;
        notebook
    }

    /// Each span with the names of its ancestors, and its fields except ids, which differ every
    /// time.
    fn spans(&self) -> String {
        let notes = self.0.lock().unwrap();
        let find = |id: u64| notes.spans.iter().rev().find(|(known, _)| *known == id).map(|(_, noted)| noted);
        let lines = notes.spans.iter().map(|(_, noted)| {
            let mut path = vec![noted.name];
            let mut around = noted.within.and_then(find);
            while let Some(outer) = around {
                path.insert(0, outer.name);
                around = outer.within.and_then(find);
            }
            let fields = noted.fields.iter().map(|(name, value)| match name.as_str() {
                "id" | "call" => name.clone(),
                _ => format!("{name}={value}"),
            });
            format!("{} {{{}}}\n", path.join(" > "), fields.collect::<Vec<_>>().join(", "))
        });
        lines.collect()
    }

    fn lines(&self, wanted: Level) -> Vec<String> {
        let notes = self.0.lock().unwrap();
        notes.lines.iter().filter(|(level, _)| *level == wanted).map(|(_, line)| line.clone()).collect()
    }
}

#[actix::test]
async fn spans_name_their_parents_and_the_clients_trace() {
    let notebook = Notebook::of(async || {
        let calls = vec![Step::call("look", json!({})), Step::end()];
        let scene = Scene::new(vec![calls, vec![Step::text("Done"), Step::end()]]);
        let mut zed = scene.editor("zed").await;
        let trace = |parent: &str| json!({ "traceparent": format!("00-0af7651916cd43dd8448eb211c80319c-{parent}-01") });
        let new = json!({ "cwd": "/work", "_meta": trace("b7ad6b7169203331") });
        let opened = zed.call("session/new", new).await;
        let session = opened["result"]["sessionId"].clone();
        let prompt = json!([{ "type": "text", "text": "hi" }]);
        let params = json!({ "sessionId": session, "prompt": prompt, "_meta": trace("00f067aa0ba902b7") });
        zed.call("session/prompt", params).await;
        // Another connection and a request without a trace; the next turn has none either.
        let mut vim = scene.editor("vim").await;
        vim.call("session/load", json!({ "sessionId": session, "_meta": { "traceparent": "nonsense" } })).await;
        scene.script.push(vec![Step::end()]);
        vim.call("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
    })
    .await;
    expect![[r#"
        connection {id}
        connection > session {id, parent_id="b7ad6b7169203331", trace_id="0af7651916cd43dd8448eb211c80319c"}
        connection > session > turn {n=2, parent_id="00f067aa0ba902b7", trace_id="0af7651916cd43dd8448eb211c80319c"}
        connection > session > turn > tool {call, name="look"}
        connection {id}
        connection > session > turn {n=11}
    "#]]
    .assert_eq(&notebook.spans());
}

#[actix::test]
async fn messages_are_logged_by_kind_and_their_contents_only_at_trace() {
    let notebook = Notebook::of(async || {
        let scene = Scene::new(vec![vec![Step::text("an answer in confidence"), Step::end()]]);
        let (mut zed, session) = scene.editor_with_session("zed").await;
        let environment = json!({ "OPENAI_API_KEY": "a key in confidence" });
        zed.call("_acpd/hello", json!({ "version": "0", "environment": environment })).await;
        let servers = json!([{ "name": "s", "command": "/bin/false", "args": [], "env": environment }]);
        zed.call("session/new", json!({ "cwd": "/work", "mcpServers": servers })).await;
        let prompt = zed.prompt(&session, "a prompt in confidence").await;
        zed.answer(prompt).await;
        zed.notify("session/cancel", json!({ "sessionId": session })).await;
        zed.say("{").await;
        zed.silence().await;
    })
    .await;
    let debug = notebook.lines(Level::DEBUG);
    for line in [
        r#"request {"id": "1", "method": "initialize", "trace": "None"}"#,
        r#"answer {"id": "1"}"#,
        r#"request {"id": "5", "method": "session/prompt", "trace": "None"}"#,
        r#"answer {"id": "5"}"#,
        r#"notification {"method": "session/cancel"}"#,
        r#"malformed message {"code": "-32700"}"#,
    ] {
        assert!(
            debug.iter().any(|logged| logged.replace("\\\"", "").replace("\"\"", "\"") == line),
            "{line}: {debug:#?}"
        );
    }
    assert!(debug.iter().any(|line| line.contains("agent_text")), "{debug:#?}");
    for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG] {
        let logged = notebook.lines(level).join("\n");
        assert!(!logged.contains("in confidence"), "{logged}");
    }
    let trace = notebook.lines(Level::TRACE).join("\n");
    assert!(trace.contains("a prompt in confidence") && trace.contains("an answer in confidence"), "{trace}");
    assert!(!trace.contains("a key in confidence"), "{trace}");
}
