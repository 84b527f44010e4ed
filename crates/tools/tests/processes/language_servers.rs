//! A language server as a real process: errors that an edit causes come with its outcome.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use domain::tool::{HooksRun, Toolbox};
use domain::{Mode, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::*;

/// The argument under which this executable is a language server. It finds an error in every line
/// with `BROKEN`, and ends itself at a text with `CRASH`. It reads nothing more after a text with
/// `DEAF`.
pub(super) const SERVER: &str = "__language_server";

pub(super) fn serve() -> ExitCode {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open("pids")
        .and_then(|mut pids| writeln!(pids, "{}", std::process::id()))
        .unwrap();
    let mut input = io::stdin().lock();
    while let Some(message) = receive(&mut input) {
        let document = &message["params"]["textDocument"];
        match message["method"].as_str() {
            Some("initialize" | "shutdown") => {
                if Path::new("hold").exists() {
                    fs::read("hold").unwrap();
                }
                send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"capabilities": {}}}));
            }
            Some("textDocument/didOpen") => publish(document, &document["text"]),
            Some("textDocument/didChange") => publish(document, &message["params"]["contentChanges"][0]["text"]),
            Some("exit") => break,
            _ => {}
        }
    }
    ExitCode::SUCCESS
}

fn receive(input: &mut impl Read) -> Option<Value> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        input.read_exact(&mut byte).ok()?;
        header.push(byte[0]);
    }
    let header = String::from_utf8(header).unwrap();
    let length = header.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn send(message: &Value) {
    let body = message.to_string();
    let mut output = io::stdout().lock();
    write!(output, "Content-Length: {}\r\n\r\n{body}", body.len()).and_then(|()| output.flush()).unwrap();
}

fn publish(document: &Value, text: &Value) {
    let text = text.as_str().unwrap();
    if text.contains("CRASH") {
        std::process::exit(3);
    }
    while text.contains("DEAF") {
        std::thread::park();
    }
    let broken = text.lines().enumerate().filter(|(_, line)| line.contains("BROKEN"));
    let found = broken.map(|(line, text)| {
        let place = json!({"line": line, "character": 0});
        json!({"range": {"start": place, "end": place}, "severity": 1, "message": format!("cannot read {text}")})
    });
    let found: Vec<Value> = found.collect();
    let publish = |params: Value| {
        send(&json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}));
    };
    let uri = document["uri"].as_str().unwrap();
    for other in ["other.toy", "secret.toy"].into_iter().filter(|_| text.contains("ALSO")) {
        let uri = format!("{}/{other}", uri.rsplit_once('/').unwrap().0);
        publish(json!({"uri": uri, "diagnostics": found}));
    }
    publish(json!({"uri": uri, "version": document["version"], "diagnostics": found}));
}

/// A folder with a language server for `*.toy`.
fn bench(is_trusted: bool) -> Bench {
    bench_with(is_trusted, |_| {})
}

/// The same, where the outcome of an edit waits this long for diagnostics.
fn bench_waiting(is_trusted: bool, wait_ms: u64) -> Bench {
    bench_with(is_trusted, |settings| {
        let diagnostics = (*settings.diagnostics).clone();
        settings.diagnostics = Arc::new(lsp::Settings { wait_ms, ..diagnostics });
    })
}

/// The same, with other settings.
fn bench_with(is_trusted: bool, change: impl FnOnce(&mut ToolSettings)) -> Bench {
    let mut bench = Bench::new();
    let me = std::env::current_exe().unwrap();
    let server = lsp::LanguageServer {
        command: me.to_str().unwrap().to_owned(),
        args: vec![SERVER.to_owned()],
        files: BTreeMap::from([("toy".to_owned(), "toy".to_owned())]),
        enabled: true,
    };
    let elsewhere = Path::new("/nonexistent").to_owned();
    let mut settings = ToolSettings::new(me);
    settings.diagnostics = Arc::new(lsp::Settings {
        enabled: true,
        wait_ms: 60_000,
        start_seconds: 3600,
        idle_minutes: 10,
        servers: BTreeMap::from([("toys".to_owned(), server)]),
        trusted: vec![if is_trusted { bench.folder.path().to_owned() } else { elsewhere }],
    });
    change(&mut settings);
    bench.registry = Arc::new(Registry::new(settings));
    bench
}

impl Bench {
    /// Writes a file and returns the text that the model gets after the hooks.
    async fn write(&self, name: &str, text: &str) -> String {
        self.check(name, text).await.await.text
    }

    /// Writes a file and returns the future that looks for errors.
    async fn check(&self, name: &str, text: &str) -> BoxFuture<'static, Outcome> {
        let outcome = call(&self.registry, &self.site, "write_file", json!({"path": name, "content": text})).await;
        assert_eq!(outcome.verdict, OutcomeKind::Completed, "{}", outcome.text);
        let checked = self.registry.complete(&outcome, HooksRun::None, &self.site);
        checked.unwrap_or_else(|| Box::pin(std::future::ready(outcome)))
    }

    fn servers(&self) -> Vec<u32> {
        let pids = fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }
}

pub(super) async fn an_edit_that_breaks_a_file_gets_the_new_errors_only() {
    let bench = bench(true);
    let text = bench.write("a.toy", "one\nBROKEN a\n").await;
    let report = "[toys reports new errors after this change:]\na.toy:2:1: error: cannot read BROKEN a";
    assert!(text.ends_with(report), "{text}");
    let text = bench.write("a.toy", "zero\none\nBROKEN a\nBROKEN b\n").await;
    let report = "[toys reports new errors after this change:]\na.toy:4:1: error: cannot read BROKEN b";
    assert!(text.ends_with(report), "{text}");
    let text = bench.write("a.toy", "zero\none\nBROKEN a\n").await;
    assert!(!text.contains("toys"), "{text}");
    let text = bench.write("b.txt", "BROKEN").await;
    assert!(!text.contains("toys"), "{text}");
    let found = call(&bench.registry, &bench.site, "diagnostics", json!({"path": "a.toy"})).await;
    assert_eq!(found.text, "a.toy:3:1: error: cannot read BROKEN a\n");
    let pids = bench.servers();
    assert_eq!(pids.len(), 1, "one server works for the whole session");
    bench.registry.close(&SessionId::new());
    assert!(is_alive(pids[0]), "it belongs to this session alone");
    bench.registry.close(&bench.site.session);
    until(|| (!is_alive(pids[0])).then_some(())).await;
}

pub(super) async fn no_server_is_started_without_trust_or_in_another_mode() {
    let mut bench = bench(false);
    assert!(!bench.write("a.toy", "BROKEN").await.contains("toys"));
    let refused = call(&bench.registry, &bench.site, "diagnostics", json!({"path": "a.toy"})).await;
    assert!(refused.text.contains("is not trusted"), "{}", refused.text);
    assert!(bench.servers().is_empty());
    bench = self::bench(true);
    bench.site = Arc::new(CallSite { mode: Mode::Safe, ..(*bench.site).clone() });
    assert!(!bench.write("a.toy", "BROKEN").await.contains("toys"));
    assert!(bench.servers().is_empty());
    let offered = |mode| bench.registry.offer(&bench.site.session, mode).iter().any(|tool| tool.name == "diagnostics");
    assert!(offered(Mode::Full) && !offered(Mode::Safe) && !offered(Mode::Sandbox));
}

pub(super) async fn a_server_that_dies_is_started_again_a_few_times() {
    let bench = bench(true);
    for crash in 1..=3 {
        let text = bench.write("a.toy", &format!("CRASH {crash}")).await;
        assert!(!text.contains("toys"), "{text}");
        assert_eq!(bench.servers().len(), crash);
    }
    assert!(!bench.write("a.toy", "BROKEN").await.contains("toys"));
    let refused = call(&bench.registry, &bench.site, "diagnostics", json!({"path": "a.toy"})).await;
    assert!(refused.text.contains("failed 3 times"), "{}", refused.text);
    assert_eq!(bench.servers().len(), 3);
}

pub(super) async fn a_server_that_does_not_read_delays_an_edit_briefly() {
    let bench = bench_waiting(true, 100);
    bench.write("a.toy", "DEAF").await;
    // This does not fit into the pipe. The edit gives up while the server still has time to read
    // on.
    let input = json!({"path": "a.toy", "content": "x\n".repeat(1 << 18)});
    let outcome = call(&bench.registry, &bench.site, "write_file", input).await;
    let checked = bench.registry.complete(&outcome, HooksRun::None, &bench.site).expect("the change is checked");
    let text = checked.await.text;
    assert!(!text.contains("toys"), "{text}");
    let pids = bench.servers();
    assert!(pids.len() == 1 && is_alive(pids[0]), "the edit did not wait until the server was given up");
}

pub(super) async fn every_edit_waits_for_a_server_that_starts_slowly() {
    let bench = bench(true);
    let hold = bench.folder.path().join("hold");
    assert!(std::process::Command::new("mkfifo").arg(&hold).status().unwrap().success());
    let first = tokio::spawn(bench.check("a.toy", "BROKEN a").await);
    until(|| (!bench.servers().is_empty()).then_some(())).await;
    let mut second = bench.check("b.toy", "BROKEN b").await;
    assert!(futures_util::poll!(&mut second).is_pending());
    // Much longer than a check by a server that has started.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(600)).await;
    tokio::time::resume();
    assert!(futures_util::poll!(&mut second).is_pending(), "it does not wait for the start");
    fs::write(&hold, "go").unwrap();
    fs::remove_file(&hold).unwrap();
    assert!(first.await.unwrap().text.ends_with("a.toy:1:1: error: cannot read BROKEN a"));
    assert!(second.await.text.ends_with("b.toy:1:1: error: cannot read BROKEN b"));
    assert_eq!(bench.servers().len(), 1);
}

pub(super) async fn errors_in_files_that_a_rule_hides_are_not_shown() {
    let bench = bench_with(true, |settings| {
        settings.permissions = serde_json::from_value(json!({"deny": ["read_file(secret.toy)"]})).unwrap();
    });
    for name in ["other.toy", "secret.toy"] {
        fs::write(bench.folder.path().join(name), "x").unwrap();
    }
    let text = bench.write("a.toy", "BROKEN ALSO").await;
    assert!(text.contains("other.toy:1:1: error: cannot read BROKEN ALSO"), "{text}");
    assert!(!text.contains("secret.toy"), "{text}");
    let refused = plan(&bench.registry, &bench.site, "diagnostics", json!({"path": "secret.toy"})).await;
    let refused = refused.err().map(|refusal| refusal.reason);
    assert_eq!(refused.as_deref(), Some("a rule denies reading secret.toy"));
}

pub(super) async fn leaving_a_folder_waits_until_its_servers_have_ended() {
    let bench = bench(true);
    bench.write("a.toy", "one").await;
    let pids = bench.servers();
    let session = &bench.site.session;
    assert!(bench.registry.leave_folder(session, bench.folder.path().join("elsewhere")).await);
    assert!(is_alive(pids[0]), "it works in another folder");
    assert!(bench.registry.leave_folder(session, bench.folder.path().to_owned()).await);
    assert!(!is_alive(pids[0]));
}
