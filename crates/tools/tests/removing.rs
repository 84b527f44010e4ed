//! Deleting and moving files, and writing that is cancelled or goes through an editor, on real
//! files through the registry.

#![allow(clippy::unwrap_used, reason = "all of this is test code, outside #[test] functions too")]

#[path = "support/host.rs"]
mod host;
#[path = "support/project.rs"]
mod project;

use std::fs;
use std::future::{pending, ready};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acpd_tools::{FileWrites, Registry, ToolSettings};
use domain::editor::{
    Editor, EditorCapabilities, EditorError, LineRange, TerminalExit, TerminalId, TerminalOutput, TerminalRequest,
};
use domain::tool::{OutcomeKind, Toolbox};
use domain::{Access, CallSite, ConnectionId, Mode, ToolContent, ToolKind, Verdict};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use host::{TestHost, call, plan};
use project::Project;

async fn card_of(project: &Project, tool: &str, input: Value) -> domain::ToolCard {
    let job = plan(&project.registry, &project.site, tool, input).await;
    job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone()
}

#[tokio::test]
async fn a_file_is_deleted_only_after_approval_and_only_if_unchanged() {
    let project = Project::new(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let card = card_of(&project, "delete_file", json!({"path": "a.txt"})).await;
    assert_eq!(
        (card.title.as_str(), card.kind, &card.access),
        ("Delete a.txt", ToolKind::Delete, &Access::Ask { always: None })
    );
    let old = Some("one\n".to_owned());
    assert_eq!(card.preview, [ToolContent::Diff { path: project.path("a.txt"), old, new: String::new() }]);

    let job = plan(&project.registry, &project.site, "delete_file", json!({"path": "a.txt"})).await.ok().unwrap();
    fs::write(project.path("a.txt"), "two\n").unwrap();
    let outcome = job.run(TestHost::new()).await;
    assert_eq!(outcome.text, "a.txt changed since it was read; read it again with read_file; nothing was deleted");
    assert_eq!(project.text("a.txt"), "two\n");

    project.call("read_file", json!({"path": "b.txt"})).await;
    fs::write(project.path("b.txt"), "changed\n").unwrap();
    let refused = project.refusal("delete_file", json!({"path": "b.txt"})).await;
    assert_eq!(refused, "b.txt changed since it was read; read it again with read_file");
    assert_eq!(project.call("delete_file", json!({"path": "a.txt"})).await, "Deleted a.txt.");
    assert!(!project.path("a.txt").exists());
    for (path, reason) in
        [("nowhere", "nowhere does not exist"), (".", ". is a folder, not a regular file"), ("/etc/passwd", "outside")]
    {
        let refused = project.refusal("delete_file", json!({"path": path})).await;
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn a_file_is_moved_to_a_free_place_inside_the_roots() {
    let project = Project::new(&[("a.txt", "one\n"), ("b.txt", "b\n"), ("sub/x", "x"), (".git/config", "c")]);
    let card = card_of(&project, "move_file", json!({"from": "a.txt", "to": "new/deep/c.txt"})).await;
    assert_eq!((card.title.as_str(), card.kind), ("Move a.txt to new/deep/c.txt", ToolKind::Move));
    let paths: Vec<PathBuf> = card.locations.iter().map(|location| location.path.clone()).collect();
    assert_eq!(paths, [project.path("a.txt"), project.path("new/deep/c.txt")]);
    let moved = project.call("move_file", json!({"from": "a.txt", "to": "new/deep/c.txt"})).await;
    assert_eq!(moved, "Moved a.txt to new/deep/c.txt.");
    assert_eq!(project.text("new/deep/c.txt"), "one\n");
    assert_eq!(project.call("move_file", json!({"from": "b.txt", "to": "sub"})).await, "Moved b.txt to sub/b.txt.");
    let taken = project.refusal("move_file", json!({"from": "sub/x", "to": "sub/b.txt"})).await;
    assert_eq!(taken, "sub/b.txt exists already; delete it first or choose another name");
    for (from, to) in
        [("sub/x", "../x"), ("sub/x", ".git/hooks/x"), (".git/config", "x"), ("/etc/passwd", "x"), ("sub", "y")]
    {
        project.refusal("move_file", json!({"from": from, "to": to})).await;
    }
    let job =
        plan(&project.registry, &project.site, "move_file", json!({"from": "sub/x", "to": "z"})).await.ok().unwrap();
    fs::write(project.path("z"), "somebody else's").unwrap();
    assert_eq!(job.run(TestHost::new()).await.verdict, OutcomeKind::Failed);
    assert_eq!((project.text("z").as_str(), project.text("sub/x").as_str()), ("somebody else's", "x"));
}

#[tokio::test]
async fn a_removal_that_undo_cannot_restore_asks_every_time() {
    let project = Project::new(&[]);
    fs::write(project.path("image"), b"\x89PNG\0\0").unwrap();
    fs::write(project.path("large"), "x".repeat(2 << 20)).unwrap();
    for path in ["image", "large"] {
        let card = card_of(&project, "delete_file", json!({"path": path})).await;
        assert_eq!(card.access, Access::AskEveryTime);
        let ToolContent::Text { text } = &card.preview[0] else { panic!("{card:?}") };
        assert!(text.ends_with("undo cannot put it back"), "{text}");
        assert_eq!(card_of(&project, "move_file", json!({"from": path, "to": "y"})).await.access, Access::AskEveryTime);
    }
}

#[tokio::test]
async fn rules_about_editing_keep_from_deleting_and_moving_and_allow_neither() {
    let rules =
        json!({"allow": ["edit(docs/**)", "delete(old/**)"], "ask": ["edit(asked/**)"], "deny": ["edit(kept/**)"]});
    let project = Project::new(&[("kept/a", "a"), ("docs/a", "a"), ("old/a", "a"), ("asked/a", "a")]).ruled(rules);
    let verdict = async |tool: &str, input: Value| {
        let card = card_of(&project, tool, input).await;
        project.registry.rule(&card, project.folder.path()).await
    };
    assert_eq!(verdict("delete_file", json!({"path": "kept/a"})).await, Some(Verdict::Deny));
    assert_eq!(verdict("move_file", json!({"from": "kept/a", "to": "b"})).await, Some(Verdict::Deny));
    assert_eq!(verdict("move_file", json!({"from": "docs/a", "to": "kept/b"})).await, Some(Verdict::Deny));
    assert_eq!(verdict("delete_file", json!({"path": "asked/a"})).await, Some(Verdict::Ask));
    assert_eq!(verdict("delete_file", json!({"path": "docs/a"})).await, None);
    assert_eq!(verdict("delete_file", json!({"path": "old/a"})).await, Some(Verdict::Run));
}

#[tokio::test]
async fn the_operator_decides_what_file_tools_may_write_in_the_sandbox() {
    let mut project = Project::new(&[("a.txt", "a\n")]);
    project.site = Arc::new(CallSite { mode: Mode::Sandbox, ..(*project.site).clone() });
    let write = || json!({"path": "b.txt", "content": "b"});
    assert!(matches!(card_of(&project, "write_file", write()).await.access, Access::Ask { always: Some(_) }));
    let with = |writes| {
        let mut settings = ToolSettings::new("/nonexistent");
        settings.sandbox.file_writes = writes;
        Registry::new(settings)
    };
    project.registry = with(FileWrites::Ask);
    for (tool, input) in [("write_file", write()), ("delete_file", json!({"path": "a.txt"}))] {
        assert_eq!(card_of(&project, tool, input).await.access, Access::AskEveryTime);
    }
    project.registry = with(FileWrites::Deny);
    let refused = project.refusal("write_file", write()).await;
    assert_eq!(refused, "the session's mode `sandbox` leaves out `write_file`; only the user can change it");
    project.site = Arc::new(CallSite { mode: Mode::Safe, ..(*project.site).clone() });
    assert!(matches!(card_of(&project, "write_file", write()).await.access, Access::Ask { .. }));
}

/// An editor that writes files, reports that it is gone, or never answers.
struct Writer {
    connected: bool,
    answers: bool,
    asked: AtomicUsize,
}

impl Editor for Writer {
    fn capabilities(&self) -> EditorCapabilities {
        EditorCapabilities { write_files: true, ..EditorCapabilities::default() }
    }

    fn is_connected(&self) -> bool {
        self.connected
    }

    fn connection(&self) -> ConnectionId {
        ConnectionId::new()
    }

    fn read_text(&self, _path: PathBuf, _lines: Option<LineRange>) -> BoxFuture<'static, Result<String, EditorError>> {
        Box::pin(ready(Err(EditorError::Gone)))
    }

    fn write_text(&self, _path: PathBuf, _text: String) -> BoxFuture<'static, Result<(), EditorError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.answers { Box::pin(ready(Err(EditorError::Gone))) } else { Box::pin(pending()) }
    }

    fn open_terminal(&self, _request: TerminalRequest) -> BoxFuture<'static, Result<TerminalId, EditorError>> {
        Box::pin(ready(Err(EditorError::Gone)))
    }

    fn terminal_output(&self, _terminal: TerminalId) -> BoxFuture<'static, Result<TerminalOutput, EditorError>> {
        Box::pin(ready(Err(EditorError::Gone)))
    }

    fn terminal_exit(&self, _terminal: TerminalId) -> BoxFuture<'static, Result<TerminalExit, EditorError>> {
        Box::pin(ready(Err(EditorError::Gone)))
    }

    fn kill_terminal(&self, _terminal: TerminalId) -> BoxFuture<'static, Result<(), EditorError>> {
        Box::pin(ready(Err(EditorError::Gone)))
    }

    fn release_terminal(&self, _terminal: TerminalId) {}
}

fn with_editor(connected: bool, answers: bool) -> (Project, Arc<Writer>) {
    let mut project = Project::new(&[]);
    let editor = Arc::new(Writer { connected, answers, asked: AtomicUsize::new(0) });
    project.site = Arc::new(CallSite { editor: Some(editor.clone()), ..(*project.site).clone() });
    (project, editor)
}

#[tokio::test]
async fn a_silent_editors_write_never_falls_back_to_the_disk() {
    let write = || json!({"path": "b.txt", "content": "b"});
    let (project, _) = with_editor(true, true);
    let outcome = call(&project.registry, &project.site, "write_file", write()).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert!(outcome.text.contains("it is not known whether it wrote it"), "{}", outcome.text);
    assert!(!project.path("b.txt").exists());

    let (project, editor) = with_editor(false, true);
    assert_eq!(project.call("write_file", write()).await, "Created b.txt (+1 -0 lines).");
    assert_eq!((project.text("b.txt").as_str(), editor.asked.load(Ordering::Relaxed)), ("b", 0));
}

#[tokio::test]
async fn a_cancelled_write_does_not_wait_for_the_editor_and_touches_nothing() {
    let (project, editor) = with_editor(true, false);
    let write = json!({"path": "b.txt", "content": "b"});
    let job = plan(&project.registry, &project.site, "write_file", write.clone()).await.ok().unwrap();
    let host = TestHost::new();
    let running = tokio::spawn(job.run(host.clone()));
    while editor.asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    host.cancel();
    let outcome = running.await.unwrap();
    assert_eq!(outcome.verdict, OutcomeKind::Cancelled);
    assert!(outcome.text.contains("it is not known whether it wrote it"), "{}", outcome.text);

    // Cancelled before the thread that would write has begun.
    let (project, editor) = with_editor(true, false);
    let job = plan(&project.registry, &project.site, "write_file", write).await.ok().unwrap();
    let host = TestHost::new();
    host.cancel();
    assert_eq!(job.run(host).await.verdict, OutcomeKind::Cancelled);
    assert!(editor.asked.load(Ordering::Relaxed) <= 1 && !project.path("b.txt").exists());
}
