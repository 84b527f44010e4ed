//! Files that no tool shows: those that rules hide, and acpd's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use acpd_tools::{Registry, ToolSettings};
use domain::checkpoint::Restore;
use domain::tool::Toolbox;
use domain::{Access, Verdict};
use serde_json::json;

use crate::host::{self, call, plan, refusal};
use crate::project::Project;

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

/// A home with acpd's own places in it, and a session there.
fn home() -> Project {
    let mut project = Project::new(&[
        (".local/state/acpd/keys/anthropic", "sk-secret"),
        (".local/state/acpd/http.token", "sk-secret"),
        (".config/acpd/config.toml", "# sk-secret"),
        (".config/other/config.toml", "plain"),
        ("work/a.txt", "plain"),
    ]);
    let mut settings = ToolSettings::new("/nonexistent");
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
