//! The instructions that a model gets before and with the user's messages: the system prompt,
//! notes, and the facts that change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::instructions::{Instructions, SessionContext, SystemPrompt, Workspace};
use domain::{BaseEnvironment, ModelId};
use expect_test::expect;
use futures_util::future::BoxFuture;
use models::{KeyConfig, LocalConfig, ModelConfig, ModelsConfig, ProviderConfig, ProviderKind, Providers, Rehearsal};
use process::Launcher;
use project::Notes;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};
use testkit::{Scene, Step};
use tools::Registry;

use crate::project::Project;

/// Notes whose date is another one in each message.
struct PassingDays {
    notes: Notes,
    day: AtomicU32,
}

impl Instructions for PassingDays {
    fn system_prompt(&self, workspace: Workspace, model: ModelId) -> BoxFuture<'static, SystemPrompt> {
        self.notes.system_prompt(workspace, model)
    }

    fn environment_facts(&self, context: SessionContext) -> Option<BoxFuture<'static, String>> {
        let day = self.day.fetch_add(1, Ordering::Relaxed);
        let facts = self.notes.environment_facts(context)?;
        Some(Box::pin(async move {
            let facts = facts.await;
            let (_, rest) = facts.split_once('\n').unwrap();
            format!("Date: day {day}\n{rest}")
        }))
    }
}

/// A folder with a program `git` whose configuration has these names and whose status is the file
/// `status` beside it.
fn stub_git(folder: &Path, settings: &str) {
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in config*) printf '{settings}';; *status*) cat {}/status;; *) exit 1;; esac\n",
        folder.display()
    );
    fs::write(folder.join("git"), script).unwrap();
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn anthropic(server: &Server) -> Arc<Providers> {
    anthropic_with(server, "claude-m")
}

fn anthropic_with(server: &Server, model: &str) -> Arc<Providers> {
    let provider = ProviderConfig {
        key: KeyConfig::default(),
        models: vec![ModelConfig { id: model.to_owned(), ..ModelConfig::default() }],
        ..ProviderConfig::new(ProviderKind::Anthropic, &server.address)
    };
    let config = ModelsConfig {
        default: Some(format!("fake/{model}")),
        providers: [("fake".to_owned(), provider)].into(),
        local: LocalConfig { probe: false, ..LocalConfig::default() },
        ..ModelsConfig::default()
    };
    Arc::new(Providers::new(&config, None, vec![Arc::new(Rehearsal::new())]).unwrap())
}

/// Removes the cache marks, which move from request to request.
fn unmark(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(unmark),
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[actix::test]
async fn changing_facts_leave_the_beginning_of_requests_unchanged() {
    let (home, programs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let project = home.path().join("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/topic\n").unwrap();
    fs::write(project.join("AGENTS.md"), "Use tabs. See @style.md.\n").unwrap();
    fs::write(project.join("style.md"), "No abbreviations.\n").unwrap();
    stub_git(programs.path(), "local\\tcore.bare\\n");
    fs::write(programs.path().join("status"), "").unwrap();
    let replies: Vec<Reply> =
        (0..3).map(|n| Reply::stream(&[&ModelAnswer::text(format!("Answer {n}.")).sse(Dialect::Anthropic)])).collect();
    let server = Server::script(replies);
    let models = anthropic(&server);
    let toolbox = Arc::new(Registry::new(tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"))));
    let launcher = Some(Launcher::new(env!("CARGO_BIN_EXE_acpd")));
    let notes = Notes { rules: Some(toolbox.rules()), launcher, ..Notes::default() };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let scene = Scene::adjusted(|ports| {
        ports.models = models;
        ports.toolbox = toolbox;
        ports.instructions = Arc::new(PassingDays { notes, day: AtomicU32::new(1) });
        ports.settings.base = Arc::new(BaseEnvironment::new([("PATH".to_owned(), path)].into_iter().collect()));
    });
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": project, "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    for (text, mode, status) in
        [("one", "full", ""), ("two", "read-only", " M a.rs\n"), ("three", "sandbox", " M a.rs\n?? b.rs\n")]
    {
        fs::write(programs.path().join("status"), status).unwrap();
        zed.call("session/set_mode", json!({ "sessionId": session, "modeId": mode })).await;
        let prompt = zed.prompt(&session, text).await;
        assert_eq!(zed.answer(prompt).await["result"]["stopReason"], "end_turn");
    }
    let bodies: Vec<Value> = server.requests().iter().map(|seen| seen.json()).collect();
    let prefixes: Vec<(String, String, String)> = bodies
        .iter()
        .map(|body| {
            let mut body = body.clone();
            unmark(&mut body);
            let messages = body["messages"].to_string();
            (body["system"].to_string(), body["tools"].to_string(), messages[..messages.len() - 1].to_owned())
        })
        .collect();
    for pair in prefixes.windows(2) {
        assert_eq!((&pair[0].0, &pair[0].1), (&pair[1].0, &pair[1].1));
        assert!(pair[1].2.starts_with(&pair[0].2), "{}\n{}", pair[0].2, pair[1].2);
    }
    let blocks = bodies[2]["messages"].as_array().unwrap().iter();
    let blocks = blocks.flat_map(|message| message["content"].as_array().unwrap().clone());
    let blocks: Vec<String> = blocks.map(|block| block["text"].as_str().unwrap().to_owned()).collect();
    expect![[r#"
        one
        <resource uri="acpd:environment">
        Date: day 1
        Mode: full (All tools)
        Approval: ask (Ask before writing and before running commands)
        Git branch: topic
        Git status:
        no changes
        </resource>
        Answer 0.
        two
        <resource uri="acpd:environment">
        Date: day 2
        Mode: read-only (No writing and no commands)
        Approval: ask (Ask before writing and before running commands)
        Tools that the mode leaves out: write_file, edit_file, apply_patch, delete_file, move_file, bash, bash_output, bash_input, bash_stop
        Git branch: topic
        Git status:
         M a.rs
        </resource>
        Answer 1.
        three
        <resource uri="acpd:environment">
        Date: day 3
        Mode: sandbox (Commands run in a kernel sandbox without network; file tools are not sandboxed, but stay inside the session's folders)
        Approval: ask (Ask before writing and before running commands)
        Tools that the mode leaves out: web_fetch
        Git branch: topic
        Git status:
         M a.rs
        ?? b.rs
        </resource>"#]].assert_eq(&blocks.join("\n"));
    let system = bodies[2]["system"][0]["text"].as_str().unwrap();
    let (_, place) = system.split_once("# Place").unwrap();
    expect![[r#"


        Working folder: HOME/project
        Platform: linux (x86_64)
        Paths may be relative to the working folder.

        # Notes

        Files in which the user and the project have written notes for agents follow, each as `<notes>`. Follow those that apply to what you do. Where notes contradict each other, a later one counts more than an earlier one; what the user says in the conversation counts more than any note. Further notes may come with the first file that you read in a folder; they count for that folder. No note can allow what a mode, a rule or a denial forbids.

        <notes file="HOME/project/AGENTS.md">
        Use tabs. See @style.md.
        </notes>

        <notes file="HOME/project/style.md">
        No abbreviations.
        </notes>
    "#]].assert_eq(&place.replace(&home.path().display().to_string(), "HOME"));
}

#[actix::test]
async fn a_repository_that_names_programs_for_git_is_described_without_its_status() {
    let (home, programs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::create_dir_all(home.path().join(".git")).unwrap();
    fs::write(home.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(programs.path().join("status"), "").unwrap();
    let notes = Notes { launcher: Some(Launcher::new(env!("CARGO_BIN_EXE_acpd"))), ..Notes::default() };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.path().display());
    let context = SessionContext {
        workspace: Workspace { cwd: home.path().to_owned(), extra_roots: Vec::new(), mode: domain::Mode::Full },
        approval: domain::Approval::Ask,
        left_out: Vec::new(),
        environment: Arc::new([("PATH".to_owned(), path)].into_iter().collect()),
    };
    for (settings, expected) in
        [("local\\tcore.bare\\n", true), ("local\\tfilter.x.clean\\n", false), ("global\\tfilter.lfs.clean\\n", true)]
    {
        stub_git(programs.path(), settings);
        let facts = notes.environment_facts(context.clone()).unwrap().await;
        assert!(facts.contains("Git branch: main"), "{facts}");
        assert_eq!(facts.contains("Git status:\nno changes"), expected, "{settings}: {facts}");
    }
}

/// Runs the real git. A filter of the user's configuration, which acpd does not refuse, stands for
/// one that a command adds to the repository's after acpd has checked it.
#[actix::test]
async fn what_git_runs_to_describe_a_repository_can_write_nothing() {
    let (home, project) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let written = project.path().join("written");
    let outside = home.path().join("written");
    let filter = format!("touch {} {}; cat", written.display(), outside.display());
    fs::write(home.path().join(".gitconfig"), format!("[filter \"x\"]\n\tclean = \"{filter}\"\n")).unwrap();
    let environment: BTreeMap<String, String> = [
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("HOME".to_owned(), home.path().display().to_string()),
    ]
    .into_iter()
    .collect();
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "filter.x.clean=cat"];
        let mut git = Command::new("git");
        git.args(name).args(arguments).current_dir(project.path()).env_clear().envs(&environment);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    fs::write(project.path().join(".gitattributes"), "*.txt filter=x\n").unwrap();
    fs::write(project.path().join("a.txt"), "one\n").unwrap();
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "one"]);
    // Another file of the same length, so that git has to compare the contents.
    fs::remove_file(project.path().join("a.txt")).unwrap();
    fs::write(project.path().join("a.txt"), "two\n").unwrap();
    let notes = Notes { launcher: Some(Launcher::new(env!("CARGO_BIN_EXE_acpd"))), ..Notes::default() };
    let context = SessionContext {
        workspace: Workspace { cwd: project.path().to_owned(), extra_roots: Vec::new(), mode: domain::Mode::Full },
        approval: domain::Approval::Ask,
        left_out: Vec::new(),
        environment: Arc::new(environment.clone().into_iter().collect()),
    };
    let facts = notes.environment_facts(context.clone()).unwrap().await;
    assert!(facts.contains("Git status:\n M a.txt"), "{facts}");
    assert!(!written.exists() && !outside.exists(), "the filter wrote");
    git(&["-c", "filter.x.clean=touch written; cat", "status"]);
    assert!(written.exists(), "outside the sandbox, git runs the filter");

    // A repository that lacks an object fetches it with a program that its configuration names.
    let marker = project.path().join("fetched");
    let tree = git(&["rev-parse", "HEAD^{tree}"]);
    fs::remove_file(project.path().join(".git/objects").join(&tree[..2]).join(&tree[2..])).unwrap();
    git(&["config", "remote.origin.url", &project.path().display().to_string()]);
    git(&["config", "remote.origin.uploadpack", &format!("touch {}; false", marker.display())]);
    for (name, value) in [("remote.origin.promisor", "true"), ("extensions.partialClone", "origin")] {
        git(&["config", name, value]);
        let facts = notes.environment_facts(context.clone()).unwrap().await;
        assert!(!facts.contains("Git status") && !marker.exists(), "{name}: {facts}");
    }
}

#[actix::test]
async fn notes_of_a_folder_come_with_the_first_file_that_is_read_in_it() {
    let read = |path: &str| vec![Step::call("read_file", json!({ "path": path })), Step::end()];
    let answers =
        vec![read("deep/er/a.txt"), read("deep/er/b.txt"), read("kept/c.txt"), vec![Step::text("Done."), Step::end()]];
    let mut project = Project::new(json!({}), &[("AGENTS.md", "root")], answers, |settings| {
        settings.permissions = serde_json::from_value(json!({ "deny": ["read(kept/AGENTS.md)"] })).unwrap();
    })
    .await;
    for (name, text) in [
        ("deep/CLAUDE.md", "Outer notes."),
        ("deep/er/AGENTS.md", "Inner notes."),
        ("deep/er/a.txt", "a"),
        ("deep/er/b.txt", "b"),
        ("kept/AGENTS.md", "hush"),
        ("kept/c.txt", "c"),
    ] {
        let path = project.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let prompt = project.zed.prompt(&project.session, "read").await;
    project.zed.answer(prompt).await;
    let transcript = project.transcript();
    let results: Vec<&str> = transcript.split("results: ").skip(1).collect();
    // The model's next request and the editor's updates follow a result in either order.
    let alone =
        |result: &'_ str| -> String { result.split("zed ").next().unwrap().split("model ").next().unwrap().to_owned() };
    assert!(!transcript.contains("hush"), "{transcript}");
    expect![[r#"
             1	c

        [1 file with notes left out: a rule of the user's configuration forbids showing them]
    "#]]
    .assert_eq(&alone(results.last().unwrap()));
    expect![[r#"
             1	a

        [notes for the folder of this file:]
        <notes file="DIR/deep/CLAUDE.md">
        Outer notes.
        </notes>

        <notes file="DIR/deep/er/AGENTS.md">
        Inner notes.
        </notes>

    "#]]
    .assert_eq(&alone(results[0]));
}

/// Returns the system text that a model receives, up to the part about the session's folder.
async fn system_text(model: &str) -> String {
    let folder = TempDir::new().unwrap();
    let server = Server::script(vec![Reply::stream(&[&ModelAnswer::text("Hello.").sse(Dialect::Anthropic)])]);
    let models = anthropic_with(&server, model);
    let scene = Scene::adjusted(|ports| {
        ports.models = models;
        ports.instructions = Arc::new(Notes::default());
    });
    let mut zed = scene.editor("zed").await;
    let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = zed.prompt(&session, "hello").await;
    zed.answer(prompt).await;
    let body = server.requests()[0].json();
    let text = body["system"][0]["text"].as_str().unwrap();
    text.split("\n# Place").next().unwrap().to_owned()
}

/// The whole prompt is compared, so that every change of it is read.
#[actix::test]
async fn the_system_prompt_in_the_request_is_the_common_part_and_that_of_the_family() {
    let mut texts = Vec::new();
    for model in ["claude-m", "gpt-m", "gemini-m", "small-m"] {
        texts.push((model, system_text(model).await));
    }
    let same = |at: &usize| texts.iter().all(|(_, text)| text.as_bytes().get(*at) == texts[0].1.as_bytes().get(*at));
    let length = (0..texts[0].1.len()).take_while(same).count();
    let mut shown = texts[0].1[..length].to_owned();
    for (model, text) in &texts {
        shown.push_str(&format!("\n\n=== {model} ===\n{}", &text[length..]));
    }
    expect_test::expect_file!["system_prompt.txt"].assert_eq(&shown);
}
