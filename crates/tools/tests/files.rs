//! The file tools on real files, through the registry.

#![allow(clippy::unwrap_used, reason = "all of this is test code, outside #[test] functions too")]

#[path = "support/host.rs"]
mod host;
#[path = "support/project.rs"]
mod project;

use std::fs;
use std::ops::Add;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use acpd_tools::{Registry, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::checkpoint::Restore;
use domain::tool::{OutcomeKind, Toolbox};
use domain::{Access, CallSite, Grant, Mode, ToolContent, Verdict};
use serde_json::{Value, json};
use tempfile::TempDir;

use host::{TestHost, call, plan, refusal};
use project::Project;

#[tokio::test]
async fn a_file_is_read_with_line_numbers_and_its_title_names_the_lines() {
    let project = Project::new(&[("src/main.rs", "one\ntwo\nthree\n")]);
    assert_eq!(
        project.call("read_file", json!({"path": "src/main.rs"})).await,
        "     1\tone\n     2\ttwo\n     3\tthree\n"
    );
    let input = json!({"file_path": "src/main.rs", "offset": 2, "limit": 2});
    assert_eq!(project.title("read_file", input.clone()).await, "Read src/main.rs (lines 2-3)");
    assert_eq!(project.call("read_file", input).await, "     2\ttwo\n     3\tthree\n");
    let job = plan(&project.registry, &project.site, "read_file", json!({"path": "src/main.rs", "offset": 3})).await;
    let card = job.unwrap_or_else(|r| panic!("{}", r.reason)).card().clone();
    assert_eq!((card.title.as_str(), card.access), ("Read src/main.rs (from line 3)", Access::Free));
    assert_eq!((card.locations[0].path.clone(), card.locations[0].line), (project.path("src/main.rs"), Some(3)));
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_refused_with_advice() {
    let project = Project::new(&[("src/main.rs", "x"), ("Readme.md", "x")]);
    let cases = [
        (json!({"path": "src"}), "src is a folder, not a regular file"),
        (json!({"path": "src/main.ts"}), "src/main.ts does not exist; there is main.rs"),
        (json!({"path": "readme.md"}), "readme.md does not exist; there is Readme.md"),
        (json!({"path": "nowhere"}), "nowhere does not exist"),
        (json!({}), "bad input: missing field `path`"),
        (json!({"path": "a", "offset": []}), "bad input: `offset`: expected a whole number, got []"),
    ];
    for (input, reason) in cases {
        assert_eq!(project.refusal("read_file", input).await, reason);
    }
    let outside = project.refusal("read_file", json!({"path": "/etc/passwd"})).await;
    let roots = project.folder.path().display();
    assert_eq!(
        outside,
        format!("/etc/passwd is outside the session's folders ({roots}); file tools work inside those only")
    );
    let unknown = project.refusal("reed_file", json!({})).await;
    assert!(unknown.starts_with("there is no tool `reed_file`; the tools are read_file, list_files"), "{unknown}");
}

#[tokio::test]
async fn images_are_shown_and_other_binaries_described() {
    let project = Project::new(&[]);
    let dot = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAC0lEQVR4nGNggAEAAA4AAa4nZ9oAAAAASUVORK5CYII=";
    let bytes = STANDARD.decode(dot).unwrap();
    fs::write(project.path("dot.png"), &bytes).unwrap();
    fs::write(project.path("torn.png"), &bytes[..30]).unwrap();
    let mut wide = bytes.clone();
    wide[16..20].copy_from_slice(&9000_u32.to_be_bytes());
    fs::write(project.path("wide.png"), wide).unwrap();
    fs::write(project.path("program"), b"\x7fELF\0\0\0").unwrap();
    let outcome = call(&project.registry, &project.site, "read_file", json!({"path": "dot.png"})).await;
    assert_eq!(outcome.content, [ToolContent::Image { data: dot.into(), mime: "image/png".into() }]);
    assert_eq!(outcome.text, format!("dot.png is an image (image/png, 3 x 2 pixels, {} bytes).", bytes.len()));
    let torn = project.call("read_file", json!({"path": "torn.png"})).await;
    assert_eq!(torn, "torn.png looks like an image (image/png, 30 bytes) but is damaged; it is not shown");
    let wide = project.call("read_file", json!({"path": "wide.png"})).await;
    // Its pixels are missing.
    assert!(wide.contains("9000 x 2 pixels") && wide.contains("; it cannot be scaled: "), "{wide}");
    let described = project.call("read_file", json!({"path": "program"})).await;
    assert_eq!(described, "program is an ELF executable or library, 7 bytes; it is not shown");
}

#[tokio::test]
async fn a_folder_is_listed_folders_first_and_whole() {
    let project = Project::new(&[("b.txt", "12345"), ("a/x", ""), (".hidden", ""), (".gitignore", "b.txt")]);
    std::os::unix::fs::symlink("b.txt", project.path("link")).unwrap();
    let listed = project.call("list_files", json!({})).await;
    assert_eq!(listed, "a/\n.gitignore  5 bytes\n.hidden  0 bytes\nb.txt  5 bytes\nlink -> b.txt\n");
    assert_eq!(project.refusal("list_files", json!({"path": "b.txt"})).await, "b.txt is a file, not a folder");
}

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

    // What the model wrote itself it has seen.
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
    let told = project.call("edit_file", edit("two")).await;
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
    .assert_eq(&told);
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
    let told = project.call("edit_file", json!({"path": "a.py", "edits": edits})).await;
    assert!(
        told.contains("[`old_text` did not match exactly; it was found by ignoring a shifted indentation]"),
        "{told}"
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
    let told = "Replaced 1 occurrence in run.sh (+2 -1 lines).\n     1\t#!/bin/sh\n     2\techo new\n     3\techo more";
    assert_eq!(outcome.text, told);
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
async fn glob_finds_by_name_and_respects_ignore_files() {
    let files = ["src/a.rs", "src/deep/b.rs", "target/c.rs", "d.txt", ".git/e.rs", ".github/f.rs"];
    let files: Vec<_> = files.iter().map(|path| (*path, "")).chain([(".gitignore", "target\n")]).collect();
    let project = Project::new(&files);
    let found = async |input: Value| {
        let text = project.call("glob", input).await;
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(found(json!({"pattern": "*.rs"})).await, ".github/f.rs src/a.rs src/deep/b.rs");
    assert_eq!(found(json!({"pattern": "src/*.rs"})).await, "src/a.rs");
    assert_eq!(found(json!({"pattern": "**/*.rs", "path": "src"})).await, "src/a.rs src/deep/b.rs");
    assert_eq!(found(json!({"pattern": "./*.txt"})).await, "d.txt");
    let absolute = project.path("src/**/*.rs");
    assert_eq!(found(json!({"pattern": absolute})).await, "src/a.rs src/deep/b.rs");
    assert_eq!(found(json!({"pattern": "c.rs", "include_ignored": true})).await, "target/c.rs");
    assert_eq!(found(json!({"pattern": "*.py"})).await, "No file matches *.py.");
    assert!(project.refusal("glob", json!({"pattern": "*", "path": ".."})).await.contains("outside"));
}

#[tokio::test]
async fn grep_shows_lines_files_or_counts() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "needle").unwrap();
    let project = Project::new(&[
        ("a.rs", "one\nneedle two\r\nthree\n"),
        ("sub/b.rs", "Needle\nneedle\n"),
        ("c.txt", "needle"),
        ("ignored.rs", "needle"),
        (".gitignore", "ignored.rs"),
    ]);
    fs::write(project.path("binary.rs"), b"\0needle").unwrap();
    std::os::unix::fs::symlink(outside.path(), project.path("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), project.path("link.rs")).unwrap();

    let cases = [
        (json!({"pattern": "needle"}), "a.rs\n2: needle two\n\nc.txt\n1: needle\n\nsub/b.rs\n2: needle"),
        (json!({"pattern": "needle", "glob": "*.rs", "output": "files"}), "a.rs\nsub/b.rs"),
        (json!({"pattern": "NEEDLE", "case_insensitive": true, "output": "count"}), "a.rs: 1\nc.txt: 1\nsub/b.rs: 2"),
        (json!({"pattern": "two$", "context": 1}), "a.rs\n1- one\n2: needle two\n3- three"),
        (json!({"pattern": "needle", "path": "sub/b.rs"}), "sub/b.rs\n2: needle"),
        (json!({"pattern": "one.needle", "multiline": true}), "a.rs\n1: one\n2: needle two"),
        (json!({"pattern": "a(b", "literal": true}), "No matches for `a(b`."),
        (
            json!({"pattern": "needle", "limit": 1}),
            "a.rs\n2: needle two\n[stopped after 1 matching line in 1 file; narrow the search, or raise `limit`]",
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(project.call("grep", input.clone()).await, expected, "{input}");
    }
    assert!(project.refusal("grep", json!({"pattern": "a(b"})).await.starts_with("bad pattern: "));
    assert!(project.refusal("grep", json!({"pattern": "x", "path": "link"})).await.contains("outside"));
}

#[tokio::test]
async fn grep_over_many_files_gives_the_first_matches_in_order_every_time() {
    let project = Project::new(&[]);
    for number in 0..1000 {
        let text = if number % 2 == 0 { "needle\nneedle\n" } else { "hay\n" };
        fs::write(project.folder.path().join(format!("{number:04}")), text).unwrap();
    }
    let files: Vec<_> = (0..700).step_by(2).map(|number| format!("{number:04}")).collect();
    let note = "[stopped after 350 matching lines in 350 files; narrow the search, or raise `limit`]";
    let expected = format!("{}\n{note}", files.join("\n"));
    let input = json!({"pattern": "needle", "output": "files", "limit": 350});
    assert_eq!(project.call("grep", input).await, expected);
    let text = project.call("grep", json!({"pattern": "needle", "limit": 401})).await;
    let note = "[stopped after 401 matching lines in 201 files; narrow the search, or raise `limit`]";
    assert!(text.ends_with(&format!("0398\n1: needle\n2: needle\n\n0400\n1: needle\n{note}")), "{text}");
}

#[tokio::test]
async fn a_mode_refuses_the_tools_that_it_leaves_out() {
    let mut project = Project::new(&[]);
    let refuse = async |project: &mut Project, mode, tool: &str, input| {
        let site = CallSite { mode, ..(*project.site).clone() };
        project.site = Arc::new(site);
        project.refusal(tool, input).await
    };
    let write = json!({"path": "a", "content": "x"});
    let bash = json!({"command": "true"});
    assert_eq!(
        refuse(&mut project, Mode::ReadOnly, "write_file", write).await,
        "the session's mode `read-only` leaves out `write_file`; only the user can change it"
    );
    assert_eq!(
        refuse(&mut project, Mode::Safe, "bash", bash).await,
        "the session's mode `safe` leaves out `bash`; only the user can change it"
    );
    assert_eq!(
        refuse(&mut project, Mode::Full, "update_plan", json!({"entries": []})).await,
        "the plan is kept by the turn itself and is not run as a tool"
    );
}

#[tokio::test]
async fn no_tool_finds_lists_or_searches_files_that_rules_hide() {
    let files = [
        (".env", "KEY=secret\n"),
        ("a/.env", "KEY=secret\n"),
        ("a/b.txt", "KEY=public\n"),
        ("private/c.txt", "KEY=secret\n"),
        ("d.key", "KEY=secret\n"),
    ];
    let project = Project::new(&files);
    std::os::unix::fs::symlink("../.env", project.path("a/link")).unwrap();
    let rules = json!({"deny": ["read_file(**/.env)", "read(private)"], "ask": ["read(*.key)"]});
    let project = project.ruled(rules);
    let note = |text: &str| format!("[{text} left out: a rule of the user's configuration forbids showing them]");

    let found = project.call("grep", json!({"pattern": "KEY"})).await;
    assert_eq!(found, format!("a/b.txt\n1: KEY=public\n{}", note("4 files")));
    for path in [".env", "private/c.txt", "private", "d.key", "a/link"] {
        let found = project.call("grep", json!({"pattern": "KEY", "path": path})).await;
        assert_eq!(found, format!("No matches for `KEY`.\n{}", note("1 file")), "{path}");
    }
    for output in ["files", "count"] {
        let found = project.call("grep", json!({"pattern": "secret", "output": output})).await;
        assert_eq!(found, format!("No matches for `secret`.\n{}", note("4 files")));
    }

    let found = project.call("glob", json!({"pattern": "**/*", "include_ignored": true})).await;
    let mut lines: Vec<&str> = found.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.join("\n"), format!("{}\na/b.txt\nd.key", note("3 files")));

    let listed = project.call("list_files", json!({})).await;
    assert_eq!(listed, format!("a/\nd.key  11 bytes\n{}", note("2 entries")));
    let listed = project.call("list_files", json!({"path": "a"})).await;
    assert_eq!(listed, format!("b.txt  11 bytes\nlink -> ../.env\n{}", note("1 entry")));
}

#[tokio::test]
async fn a_folder_rule_applies_to_a_session_opened_through_a_symlink() {
    let project = Project::new(&[("private/c.txt", "KEY=secret\n")]);
    let link = project.folder.path().with_extension("link");
    std::os::unix::fs::symlink(project.folder.path(), &link).unwrap();
    let real = project.folder.path().canonicalize().unwrap();
    let project = project.ruled(json!({"deny": [format!("read({}/private)", real.display())]}));
    let site = Arc::new(host::site(&link, &[]));
    let job = plan(&project.registry, &site, "read_file", json!({"path": "private/c.txt"})).await;
    let card = job.unwrap_or_else(|r| panic!("{}", r.reason)).card().clone();
    assert_eq!(project.registry.rule(&card, &link).await, Some(Verdict::Deny));
    let found = call(&project.registry, &site, "grep", json!({"pattern": "KEY"})).await;
    assert!(found.text.starts_with("No matches"), "{}", found.text);
    fs::remove_file(link).unwrap();
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

/// A home with acpd's own places in it, and a session there.
fn home() -> Project {
    let mut project = Project::new(&[
        (".local/state/acpd/keys/anthropic", "sk-secret"),
        (".local/state/acpd/http.token", "sk-secret"),
        (".config/acpd/config.toml", "# sk-secret"),
        (".config/other/config.toml", "plain"),
        ("work/a.txt", "plain"),
    ]);
    let mut settings = Settings::new("/nonexistent");
    settings.protected_paths =
        [".local/state/acpd", ".config/acpd", "run/acpd"].map(|place| project.path(place)).to_vec();
    project.registry = Registry::new(settings);
    project
}

#[tokio::test]
async fn no_tool_reads_acpds_own_files_under_any_name() {
    let project = home();
    symlink(project.path(".local/state"), project.path("work/state")).unwrap();
    symlink(project.path(".local/state/acpd/http.token"), project.path("work/token")).unwrap();
    fs::hard_link(project.path(".local/state/acpd/keys/anthropic"), project.path("work/innocent")).unwrap();
    let paths = [
        ".local/state/acpd/keys/anthropic",
        "work/../.local/state/acpd/http.token",
        "work/state/acpd/http.token",
        "work/token",
        "work/innocent",
        ".config/acpd/config.toml",
    ];
    for path in paths.map(str::to_owned).into_iter().chain([project.path(paths[0]).display().to_string()]) {
        let refused = project.refusal("read_file", json!({"path": path})).await;
        assert!(refused.contains("belongs to acpd itself"), "{path}: {refused}");
    }
    for path in [".local/state/acpd", ".local/state/acpd/keys", "work/state/acpd"] {
        let refused = project.refusal("list_files", json!({"path": path})).await;
        assert!(refused.contains("belongs to acpd itself"), "{path}: {refused}");
        assert!(
            project.refusal("grep", json!({"pattern": "sk", "path": path})).await.contains("acpd itself"),
            "{path}"
        );
    }
    let found = project.call("grep", json!({"pattern": "sk-secret", "include_ignored": true})).await;
    assert_eq!(found, "No matches for `sk-secret`.");
    let found = project.call("glob", json!({"pattern": "**/*", "include_ignored": true})).await;
    assert!(!found.contains("acpd/") && found.contains("work/a.txt"), "{found}");
    assert_eq!(project.call("read_file", json!({"path": ".config/other/config.toml"})).await, "     1\tplain\n");
}

#[tokio::test]
async fn no_tool_writes_acpds_own_files_whether_they_exist_or_not() {
    let project = home();
    symlink(project.path(".config"), project.path("work/config")).unwrap();
    let hook = json!("[[hooks.before_tool]]\ncommand = \"touch owned\"\n");
    for path in [
        ".config/acpd/config.toml",
        ".config/acpd/new.toml",
        ".config/./acpd/deep/new.toml",
        "work/config/acpd/config.toml",
        "run/acpd/acpd.sock",
        "run/acpd",
    ] {
        let refused = project.refusal("write_file", json!({"path": path, "content": hook})).await;
        assert!(refused.contains("belongs to acpd itself"), "{path}: {refused}");
        let edit = json!({"path": path, "edits": [{"old_text": "sk", "new_text": "x"}]});
        assert!(project.refusal("edit_file", edit).await.contains("belongs to acpd itself"), "{path}");
    }
    let inside = host::site(&project.path(".config/acpd"), &[]);
    let refused = refusal(&project.registry, &Arc::new(inside), "read_file", json!({"path": "config.toml"})).await;
    assert!(refused.contains("belongs to acpd itself"), "{refused}");
    let undo = Restore { path: project.path(".config/acpd/config.toml"), from: Some("# sk-secret".into()), to: None };
    let undone = project.registry.restore(vec![undo], Arc::clone(&project.site)).await;
    assert!(undone[0].left.as_ref().is_some_and(|reason| reason.contains("acpd itself")), "{undone:?}");
    assert_eq!(project.text(".config/acpd/config.toml"), "# sk-secret");
}

#[tokio::test]
async fn a_command_that_names_them_asks_every_time() {
    let project = home();
    let access = async |command: &str| {
        let job = plan(&project.registry, &project.site, "bash", json!({ "command": command })).await;
        job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).card().access.clone()
    };
    assert_eq!(access("cat .local/state/acpd/keys/anthropic").await, Access::AskEveryTime);
    assert_eq!(access("cat < .config/acpd/config.toml").await, Access::AskEveryTime);
    assert!(matches!(access("cat work/a.txt").await, Access::Ask { .. }));
}

#[tokio::test]
async fn no_tool_returns_more_than_its_limit() {
    let project = Project::new(&[]);
    let long = "n".repeat(200);
    for number in 0..1000 {
        fs::write(project.path(&format!("{long}{number}")), "x").unwrap();
    }
    symlink("t".repeat(4000), project.path("link")).unwrap();
    fs::write(project.path("wide"), "\u{1f600}".repeat(1999).add("\n").repeat(200)).unwrap();
    let calls = [
        ("list_files", json!({})),
        ("glob", json!({"pattern": "*", "limit": 2000})),
        ("grep", json!({"pattern": "(?s).*", "multiline": true, "limit": 5000})),
        ("read_file", json!({"path": "wide"})),
    ];
    for (tool, input) in calls {
        let outcome = call(&project.registry, &project.site, tool, input).await;
        assert!(outcome.text.len() <= 49 * 1024, "{tool}: {}", outcome.text.len());
        assert_eq!(outcome.raw["truncated"], true, "{tool}");
    }
}

#[tokio::test]
async fn grep_shows_the_match_in_a_long_line() {
    let line = format!("{}needle{}", "a".repeat(3000), "b".repeat(3000));
    let project = Project::new(&[("long.txt", &format!("{line}\nneedle first\n"))]);
    let told = project.call("grep", json!({"pattern": "needle"})).await;
    let (first, rest) = told.split_once("needle").unwrap();
    assert!(first.starts_with("long.txt\n1: …aaa") && rest.starts_with("bbb"), "{told}");
    assert!(told.ends_with("2: needle first") && told.len() < 700, "{told}");
}

#[tokio::test]
async fn a_notebook_is_read_as_text_and_edited_as_it_is() {
    let notebook = r#"{"cells": [{"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": []}], "metadata": {}}"#;
    let project = Project::new(&[("a.ipynb", notebook)]);
    let told = project.call("read_file", json!({"path": "a.ipynb"})).await;
    assert!(told.starts_with("     1\t# Cell 1 (code)\n     2\tx = 1\n     3\tx\n"), "{told}");
    let edit = json!({"path": "a.ipynb", "old_text": "x = 1", "new_text": "x = 2"});
    let reason = project.refusal("edit_file", edit.clone()).await;
    assert_eq!(reason, "a.ipynb exists and was not read; read it first with read_file");
    assert!(project.call("read_file", json!({"path": "a.ipynb", "raw": true})).await.contains("\"cells\""));
    project.call("edit_file", edit).await;
    assert!(project.text("a.ipynb").contains("x = 2"));
}

#[tokio::test]
async fn memory_is_two_files_that_change_after_a_question_only() {
    let mut project = Project::new(&[]);
    let mut settings = Settings::new("/nonexistent");
    let own = project.path("config/memory.md");
    settings.memory = Some(own.clone());
    project.registry = Registry::new(settings);
    let remember = |scope: &str, text: &str| json!({"action": "remember", "scope": scope, "text": text});
    let job = plan(&project.registry, &project.site, "memory", remember("project", "Tests  need\nPython.")).await;
    let job = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
    let card = job.card().clone();
    assert_eq!(card.title, "Remember (project): Tests need Python.");
    assert_eq!(card.access, Access::Ask { always: Some(Grant::Tool("memory".to_owned())) });
    assert!(!project.path(".acpd/memory.md").exists(), "planning must not write");
    assert_eq!(job.run(TestHost::new()).await.verdict, OutcomeKind::Completed);
    assert_eq!(project.text(".acpd/memory.md"), "# Memory\n\n- Tests need Python.\n");
    let of_user = plan(&project.registry, &project.site, "memory", remember("user", "Likes short answers.")).await;
    let of_user = of_user.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
    assert_eq!(of_user.card().access, Access::AskEveryTime, "every session gets it");
    assert_eq!(of_user.run(TestHost::new()).await.verdict, OutcomeKind::Completed);
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o600);
    let recalled = project.call("memory", json!({"action": "recall", "text": ""})).await;
    assert_eq!(recalled, "- Likes short answers. (user)\n- Tests need Python. (project)\n");
    project.call("memory", json!({"action": "forget", "scope": "user", "text": "short"})).await;
    assert_eq!(fs::read_to_string(&own).unwrap(), "# Memory\n\n");
    let reading = Arc::new(CallSite { mode: Mode::ReadOnly, ..(*project.site).clone() });
    let reason = refusal(&project.registry, &reading, "memory", remember("user", "x")).await;
    assert_eq!(reason, "the session's mode `read-only` leaves out changes of the memory");
}
