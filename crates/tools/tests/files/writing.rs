//! Creating and editing files: what the user is shown, and what is not overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use domain::tool::OutcomeKind;
use domain::{Access, Grant, ToolContent};
use serde_json::json;
use tempfile::TempDir;

use crate::host::{TestHost, call, plan};
use crate::project::Project;

#[tokio::test]
async fn a_new_file_is_created_with_its_folders_and_shown_as_a_diff() {
    let project = Project::new(&[]);
    let input = json!({"path": "src/deep/new.rs", "content": "fn main() {}\n"});
    let job = plan(&project.registry, &project.site, "write_file", input.clone()).await;
    let job = job.unwrap_or_else(|r| panic!("{}", r.reason));
    let path = project.path("src/deep/new.rs");
    let diff = vec![ToolContent::Diff { path: path.clone(), old: None, new: "fn main() {}\n".into() }];
    assert_eq!(job.card().title, "Create src/deep/new.rs");
    assert_eq!(job.card().preview, diff);
    let folder = project.folder.path().canonicalize().unwrap().join("src/deep");
    assert_eq!(job.card().access, Access::Ask { always: Some(Grant::Folder(folder)) });
    assert!(!path.exists(), "planning must not write");

    let outcome = job.run(TestHost::new()).await;
    assert_eq!((outcome.verdict, outcome.content), (OutcomeKind::Completed, diff));
    assert_eq!(outcome.text, "Created src/deep/new.rs (+1 -0 lines).");
    assert_eq!(project.text("src/deep/new.rs"), "fn main() {}\n");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");

    // A file that the model wrote itself counts as seen.
    project.call("write_file", json!({"path": "src/deep/new.rs", "content": "x"})).await;
    assert_eq!(project.text("src/deep/new.rs"), "x");
}

#[tokio::test]
async fn a_file_that_was_not_read_or_changed_since_is_not_written() {
    let project = Project::new(&[("a.txt", "old\n")]);
    let write = json!({"path": "a.txt", "content": "new\n"});
    let edit = json!({"path": "a.txt", "old_text": "old", "new_text": "new"});
    for (tool, input) in [("write_file", &write), ("edit_file", &edit)] {
        let reason = project.refusal(tool, input.clone()).await;
        assert_eq!(reason, "a.txt exists and was not read; read it first with read_file");
    }
    project.call("read_file", json!({"path": "a.txt"})).await;
    fs::write(project.path("a.txt"), "old, by somebody else\n").unwrap();
    let reason = project.refusal("write_file", write).await;
    assert_eq!(reason, "a.txt changed since it was read; read it again with read_file");
    assert_eq!(project.text("a.txt"), "old, by somebody else\n");
}

#[tokio::test]
async fn an_edit_of_a_changed_file_applies_if_its_text_still_occurs_once() {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\n")]);
    project.call("read_file", json!({"path": "a.txt"})).await;
    fs::write(project.path("a.txt"), "ONE\ntwo\nthree\n").unwrap();
    let edit = |old: &str| json!({"path": "a.txt", "old_text": old, "new_text": "2"});
    let output = project.call("edit_file", edit("two")).await;
    expect_test::expect![[r"
        Replaced 1 occurrence in a.txt (+1 -1 lines).
             1	ONE
             2	2
             3	three
        [what has changed since:]
        @@ -1,2 +1,2 @@
        -one
        +ONE
         two"]]
    .assert_eq(&output);
    assert_eq!(project.text("a.txt"), "ONE\n2\nthree\n");
    // What the edit has shown counts as seen.
    fs::write(project.path("a.txt"), "ONE\n2\nthree\nthree\n").unwrap();
    for (old, why) in [("three", "occurs 2 times (lines 3, 4)"), ("one", "does not occur in the file")] {
        let reason = project.refusal("edit_file", edit(old)).await;
        assert!(
            reason.starts_with("a.txt changed since it was read; read it again with read_file (`old_text` "),
            "{reason}"
        );
        assert!(reason.contains(why) && reason.ends_with("@@ -3 +3,2 @@\n three\n+three"), "{reason}");
    }
    let all = json!({"path": "a.txt", "old_text": "three", "new_text": "3", "replace_all": true});
    assert!(project.refusal("edit_file", all).await.contains("occurs 2 times"));
}

#[tokio::test]
async fn edits_given_as_a_json_string_are_applied_and_differences_reported() {
    let project = Project::new(&[("a.py", "def f():\n\treturn 1\n")]);
    project.call("read_file", json!({"path": "a.py"})).await;
    let edits = r#"[{"old_text": "def f():\n    return 1", "new_text": "def f():\n    return 2"}]"#;
    let output = project.call("edit_file", json!({"path": "a.py", "edits": edits})).await;
    assert!(
        output.contains("[`old_text` did not match exactly; it was found by ignoring a shifted indentation]"),
        "{output}"
    );
    assert_eq!(project.text("a.py"), "def f():\n\treturn 2\n");
}

#[tokio::test]
async fn a_file_that_changes_while_the_question_is_open_is_not_written() {
    let project = Project::new(&[("a.txt", "old\n")]);
    project.call("read_file", json!({"path": "a.txt"})).await;
    let job = plan(&project.registry, &project.site, "write_file", json!({"path": "a.txt", "content": "new\n"})).await;
    fs::write(project.path("a.txt"), "other\n").unwrap();
    let outcome = job.unwrap_or_else(|r| panic!("{}", r.reason)).run(TestHost::new()).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert_eq!(outcome.text, "a.txt changed since it was read; read it again with read_file; nothing was changed");
    assert_eq!(project.text("a.txt"), "other\n");

    let job = plan(&project.registry, &project.site, "write_file", json!({"path": "b.txt", "content": "new\n"})).await;
    fs::write(project.path("b.txt"), "was quicker\n").unwrap();
    let outcome = job.unwrap_or_else(|r| panic!("{}", r.reason)).run(TestHost::new()).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert_eq!(project.text("b.txt"), "was quicker\n");
    assert_eq!(fs::read_dir(project.folder.path()).unwrap().count(), 2, "no temporary file is left");
}

#[tokio::test]
async fn a_path_replaced_by_a_link_during_the_question_is_not_written() {
    let outside = TempDir::new().unwrap();
    let project = Project::new(&[("src/a.txt", "old\n"), ("other/a.txt", "old\n")]);
    project.call("read_file", json!({"path": "src/a.txt"})).await;
    for target in [outside.path().to_owned(), project.path("other")] {
        let write = json!({"path": "src/a.txt", "content": "new\n"});
        let job = plan(&project.registry, &project.site, "write_file", write).await;
        let job = job.unwrap_or_else(|r| panic!("{}", r.reason));
        fs::rename(project.path("src"), project.path("kept")).unwrap();
        std::os::unix::fs::symlink(target, project.path("src")).unwrap();
        assert_eq!(job.run(TestHost::new()).await.verdict, OutcomeKind::Failed);
        fs::remove_file(project.path("src")).unwrap();
        fs::rename(project.path("kept"), project.path("src")).unwrap();
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(project.text("other/a.txt"), "old\n");
}

#[tokio::test]
async fn an_edit_keeps_permissions_and_line_endings() {
    let project = Project::new(&[("run.sh", "#!/bin/sh\r\necho old\r\n")]);
    fs::set_permissions(project.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    project.call("read_file", json!({"path": "run.sh"})).await;
    let input = json!({"path": "run.sh", "edits": [{"old_text": "echo old\n", "new_text": "echo new\necho more\n"}]});
    let outcome = call(&project.registry, &project.site, "edit_file", input).await;
    let expected =
        "Replaced 1 occurrence in run.sh (+2 -1 lines).\n     1\t#!/bin/sh\n     2\techo new\n     3\techo more";
    assert_eq!(outcome.text, expected);
    assert_eq!(project.text("run.sh"), "#!/bin/sh\r\necho new\r\necho more\r\n");
    assert_eq!(fs::metadata(project.path("run.sh")).unwrap().permissions().mode() & 0o7777, 0o750);
}

#[tokio::test]
async fn git_s_own_files_are_not_written() {
    let project = Project::new(&[(".git/config", "x")]);
    let input = json!({"path": ".git/hooks/pre-commit", "content": "rm -rf /"});
    let reason = project.refusal("write_file", input).await;
    assert_eq!(reason, ".git/hooks/pre-commit is git's own; file tools do not change it, use git commands");
}

#[tokio::test]
async fn a_change_too_large_for_a_diff_shows_the_changed_lines() {
    let lines: String = (1..=40_000).map(|number| format!("this is line {number} of a long file\n")).collect();
    let project = Project::new(&[("long.txt", &lines)]);
    project.call("read_file", json!({"path": "long.txt", "limit": 5})).await;
    let input = json!({"path": "long.txt", "old_text": "line 20000 of", "new_text": "line TWENTY of"});
    let job =
        plan(&project.registry, &project.site, "edit_file", input).await.unwrap_or_else(|r| panic!("{}", r.reason));
    let [ToolContent::Text { text }] = job.card().preview.as_slice() else { panic!("{:?}", job.card().preview) };
    assert!(text.starts_with(&format!("{}: 1.3 MB become 1.3 MB\n@@ ", project.path("long.txt").display())), "{text}");
    let changed = "-this is line 20000 of a long file\n+this is line TWENTY of a long file\n";
    assert!(text.contains(changed) && text.len() < 1000, "{text}");

    let input = json!({"path": "long.txt", "content": lines.replace("this", "that")});
    let job =
        plan(&project.registry, &project.site, "write_file", input).await.unwrap_or_else(|r| panic!("{}", r.reason));
    let [ToolContent::Text { text }] = job.card().preview.as_slice() else { panic!("{:?}", job.card().preview) };
    assert!(text.len() < 70_000 && text.contains("\n[cut here: the changes are "), "{}", text.len());
}
