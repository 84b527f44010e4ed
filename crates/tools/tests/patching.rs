//! `apply_patch` on real files, through the registry.

#![allow(clippy::unwrap_used, reason = "all of this is test code, outside #[test] functions too")]

#[path = "support/host.rs"]
mod host;
#[path = "support/project.rs"]
mod project;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use domain::checkpoint::{RestoreDirection, changes_in, steps};
use domain::tool::{OutcomeKind, Toolbox};
use domain::{Access, Event, EventKind, Grant, Millis, Outcome, ToolContent, ToolKind, Verdict};
use expect_test::expect;
use serde_json::{Value, json};

use host::{TestHost, call, plan};
use project::Project;

fn patch(body: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

async fn card(project: &Project, body: &str) -> domain::ToolCard {
    let job = plan(&project.registry, &project.site, "apply_patch", patch(body)).await;
    job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().clone()
}

const THREE: &str = "*** Update File: src/a.rs\n@@\n fn a() {\n-    1\n+    2\n }\n*** Add File: src/new.rs\n+fn new() {}\n\
                     *** Update File: b.txt\n-old\n+new";

#[tokio::test]
async fn several_files_are_changed_by_one_patch_after_one_question() {
    let project = Project::new(&[("src/a.rs", "fn a() {\n    1\n}\n"), ("b.txt", "old\n")]);
    let card = card(&project, THREE).await;
    assert_eq!((card.title.as_str(), card.kind), ("Patch src/a.rs, src/new.rs, b.txt", ToolKind::Edit));
    let root = project.folder.path().canonicalize().unwrap();
    assert_eq!(card.access, Access::Ask { always: Some(Grant::Folder(root)) });
    assert_eq!(card.locations[0].line, Some(2));
    assert_eq!(card.preview.len(), 3);
    assert_eq!(
        card.preview[2],
        ToolContent::Diff { path: project.path("b.txt"), old: Some("old\n".into()), new: "new\n".into() }
    );
    expect![[r"
        Patched 3 files (+3 -2 lines).
        Updated src/a.rs:
             1	fn a() {
             2	    2
             3	}
        Created src/new.rs.
        Updated b.txt:
             1	new"]]
    .assert_eq(&project.call("apply_patch", patch(THREE)).await);
    assert_eq!(project.text("src/a.rs"), "fn a() {\n    2\n}\n");
    assert_eq!(project.text("src/new.rs"), "fn new() {}\n");
    // What the patch has shown can be edited.
    let edit = json!({"path": "b.txt", "old_text": "new", "new_text": "newer"});
    project.call("edit_file", edit).await;
}

fn undo_of(outcome: &Outcome) -> Vec<domain::checkpoint::Restore> {
    let kind = EventKind::ToolEnded { call: "c".into(), outcome: outcome.clone() };
    steps(changes_in(&Event { life: 0, number: 1, at: Millis::default(), kind }), RestoreDirection::Undo)
}

#[tokio::test]
async fn deletions_and_moves_of_a_patch_ask_and_can_be_undone() {
    let project = Project::new(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "one\ntwo\n")]);
    let deletes = "*** Delete File: a.txt\n*** Delete File: b.txt";
    let asked = card(&project, deletes).await;
    assert_eq!((asked.kind, asked.access), (ToolKind::Delete, Access::Ask { always: None }));
    let deleted = call(&project.registry, &project.site, "apply_patch", patch(deletes)).await;
    assert!(!project.path("a.txt").exists() && !project.path("b.txt").exists());
    let restored = project.registry.restore(undo_of(&deleted), project.site.clone()).await;
    assert!(restored.iter().all(|file| file.left.is_none()), "{restored:?}");
    assert_eq!((project.text("a.txt").as_str(), project.text("b.txt").as_str()), ("a\n", "b\n"));

    let moves = "*** Update File: c.txt\n*** Move to: deep/d.txt\n@@\n one\n-two\n+2";
    assert_eq!(card(&project, moves).await.kind, ToolKind::Move);
    let moved = call(&project.registry, &project.site, "apply_patch", patch(moves)).await;
    assert!(!project.path("c.txt").exists());
    assert_eq!(project.text("deep/d.txt"), "one\n2\n");
    project.registry.restore(undo_of(&moved), project.site.clone()).await;
    assert_eq!((project.text("c.txt").as_str(), project.path("deep/d.txt").exists()), ("one\ntwo\n", false));
}

#[tokio::test]
async fn a_patch_is_applied_completely_or_not_at_all() {
    let project = Project::new(&[("a.txt", "a\n"), ("locked/b.txt", "b\n")]);
    let both = "*** Update File: a.txt\n-a\n+x\n*** Update File: locked/b.txt\n-b\n+y";
    // Only the last file of the patch is wrong.
    let wrong = both.replace("-b", "-c");
    let reason = project.refusal("apply_patch", patch(&wrong)).await;
    assert_eq!(reason, "patching locked/b.txt: the file does not have these lines, read it again:\n  c");
    // The second file is removed after the question was asked.
    let job = plan(&project.registry, &project.site, "apply_patch", patch(both)).await;
    fs::write(project.path("locked/b.txt"), "other\n").unwrap();
    let outcome = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).run(TestHost::new()).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    let expected = "locked/b.txt changed since the patch was planned; read it again; nothing was changed";
    assert_eq!((outcome.text.as_str(), project.text("a.txt").as_str()), (expected, "a\n"));
    // The second file cannot be written; root can write everything.
    fs::write(project.path("locked/b.txt"), "b\n").unwrap();
    if rustix::process::geteuid().is_root() {
        return;
    }
    fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o500)).unwrap();
    let outcome = call(&project.registry, &project.site, "apply_patch", patch(both)).await;
    fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(outcome.text.ends_with("; nothing was changed"), "{}", outcome.text);
    assert_eq!(project.text("a.txt"), "a\n");
}

#[tokio::test]
async fn a_patch_stays_inside_the_roots_and_off_protected_files() {
    let project = Project::new(&[("a.txt", "a\n"), (".git/config", "x\n"), ("secret.env", "key\n")]);
    let outside = project.refusal("apply_patch", patch("*** Add File: ../x\n+x")).await;
    assert!(outside.contains("is outside the session's folders"), "{outside}");
    for (body, reason) in [
        (
            "*** Update File: .git/config\n-x\n+y",
            ".git/config is git's own; file tools do not change it, use git commands",
        ),
        ("*** Add File: a.txt\n+x", "a.txt exists already; change it with `*** Update File: `"),
        (
            "*** Update File: a.txt\n-a\n+b\n*** Delete File: a.txt",
            "a.txt is in the patch twice; put its changes into one section",
        ),
        ("*** Update File: a.txt\n-a\n+a", "the patch changes nothing in a.txt"),
        (
            "*** Delete File: a.txt\n*** Update File: secret.env\n*** Move to: b",
            "a patch may delete files or move files, not both; send two patches",
        ),
    ] {
        assert_eq!(project.refusal("apply_patch", patch(body)).await, reason);
    }
    let project = project.ruled(json!({"deny": ["read(secret.env)", "edit(a.txt)"], "allow": ["apply_patch"]}));
    let hidden = project.refusal("apply_patch", patch("*** Update File: secret.env\n-key\n+k")).await;
    assert_eq!(hidden, "secret.env was not read; read it first with read_file");
    let rule = |card: &domain::ToolCard| project.registry.rule(card, project.folder.path());
    let body = "*** Add File: b.txt\n+b\n*** Update File: a.txt\n-a\n+b";
    assert_eq!(rule(&card(&project, body).await).await, Some(Verdict::Deny));
    assert_eq!(rule(&card(&project, "*** Add File: b.txt\n+b").await).await, Some(Verdict::Run));
}

#[tokio::test]
async fn foreign_changes_to_a_read_file_are_shown_with_the_result() {
    let project = Project::new(&[("a.txt", "one\ntwo\n")]);
    project.call("read_file", json!({"path": "a.txt"})).await;
    fs::write(project.path("a.txt"), "ONE\ntwo\n").unwrap();
    let output = project.call("apply_patch", patch("*** Update File: a.txt\n-two\n+2")).await;
    assert!(output.ends_with("[a.txt has changed since it was read:]\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two"), "{output}");
}
