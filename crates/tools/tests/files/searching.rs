//! Finding files by name and by content.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::Project;

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
async fn grep_shows_the_match_in_a_long_line() {
    let line = format!("{}needle{}", "a".repeat(3000), "b".repeat(3000));
    let project = Project::new(&[("long.txt", &format!("{line}\nneedle first\n"))]);
    let output = project.call("grep", json!({"pattern": "needle"})).await;
    let (first, rest) = output.split_once("needle").unwrap();
    assert!(first.starts_with("long.txt\n1: …aaa") && rest.starts_with("bbb"), "{output}");
    assert!(output.ends_with("2: needle first") && output.len() < 700, "{output}");
}
