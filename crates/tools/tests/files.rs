//! The file tools on real files, through the registry. This file tests what holds for all of them.

#![allow(clippy::unwrap_used, reason = "all of this is test code, outside #[test] functions too")]

#[path = "support/host.rs"]
mod host;
#[path = "files/off_limits.rs"]
mod off_limits;
#[path = "support/project.rs"]
mod project;
#[path = "files/reading.rs"]
mod reading;
#[path = "files/searching.rs"]
mod searching;
#[path = "files/writing.rs"]
mod writing;

use std::fs;
use std::ops::Add;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use acpd_tools::{FileWrites, Registry, ToolSettings};
use domain::tool::OutcomeKind;
use domain::{Access, CallSite, Grant, Mode};
use serde_json::json;

use host::{TestHost, call, plan, refusal};
use project::Project;

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
async fn memory_is_two_files_that_change_after_a_question_only() {
    let mut project = Project::new(&[]);
    let mut settings = ToolSettings::new("/nonexistent");
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
    fs::write(project.path(".acpd/memory.md"), "- one\n").unwrap();
    let forget = json!({"action": "forget", "scope": "project", "text": "one"});
    let job = plan(&project.registry, &project.site, "memory", forget).await;
    let job = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
    fs::write(project.path(".acpd/memory.md"), "- two one precious\n").unwrap();
    let outcome = job.run(TestHost::new()).await;
    assert_eq!(outcome.text, "the memory has changed since then; look at it again");
    assert_eq!(project.text(".acpd/memory.md"), "- two one precious\n", "the question showed another line");
    let reading = Arc::new(CallSite { mode: Mode::ReadOnly, ..(*project.site).clone() });
    let reason = refusal(&project.registry, &reading, "memory", remember("user", "x")).await;
    assert_eq!(reason, "the session's mode `read-only` leaves out changes of the memory");
}

#[tokio::test]
async fn the_memory_changes_in_the_sandbox_as_other_files_do() {
    let mut project = Project::new(&[]);
    let remember = json!({"action": "remember", "scope": "project", "text": "Tests need Python."});
    let site = Arc::new(CallSite { mode: Mode::Sandbox, ..(*project.site).clone() });
    let mut settings = ToolSettings::new("/nonexistent");
    settings.sandbox.file_writes = FileWrites::Ask;
    project.registry = Registry::new(settings.clone());
    let job = plan(&project.registry, &site, "memory", remember.clone()).await;
    let job = job.unwrap_or_else(|refusal| panic!("{}", refusal.reason));
    assert_eq!(job.card().access, Access::AskEveryTime);
    settings.sandbox.file_writes = FileWrites::Deny;
    project.registry = Registry::new(settings);
    let reason = refusal(&project.registry, &site, "memory", remember).await;
    assert!(reason.contains("forbids file tools to write"), "{reason}");
}

#[tokio::test]
async fn the_memory_shows_nothing_of_a_file_that_rules_keep_from_the_model() {
    for kind in ["deny", "ask"] {
        let project = Project::new(&[("secrets.yaml", "- alpha 1\n- alpha 2\n"), (".acpd/x", "")])
            .ruled(json!({ kind: ["read(secrets.yaml)"] }));
        std::os::unix::fs::symlink("../secrets.yaml", project.path(".acpd/memory.md")).unwrap();
        let recalled = project.call("memory", json!({"action": "recall", "text": ""})).await;
        assert_eq!(recalled, "Nothing is remembered about that.");
        let refused = project.refusal("memory", json!({"action": "forget", "text": "alpha"})).await;
        assert!(refused.contains("a rule of the configuration") && !refused.contains("alpha"), "{refused}");
    }
}
