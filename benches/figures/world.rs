//! A temporary home with a daemon that uses the model server, and the kernel's figures about that
//! daemon.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::floor_agent;
use crate::model_server::ModelServer;

/// The number of the next prompt, unique in this run.
static PROMPTS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_prompt() -> u64 {
    PROMPTS.fetch_add(1, Ordering::Relaxed)
}

/// A user's temporary home. Dropping it stops its daemon.
pub(crate) struct BenchHome {
    folder: TempDir,
    pub(crate) server: ModelServer,
}

impl BenchHome {
    /// Creates a home whose models use the chat and the Anthropic dialects of the model server.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("acpd-bench-").tempdir().unwrap();
        for name in ["home/.config/acpd", "run", "work"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::set_permissions(folder.path().join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let server = ModelServer::start();
        let provider = |kind: &str| {
            format!(
                "[models.providers.{kind}-bench]\nkind = \"{kind}\"\nbase_url = \"{}/v1\"\nkey = {{ env = \"BENCH_KEY\" }}\n\
                 [[models.providers.{kind}-bench.models]]\nid = \"bench\"\nwindow = 100000000\n",
                server.address
            )
        };
        // Nothing is summarised: a conversation of a thousand turns is sent whole.
        let configuration = format!(
            "[session]\ncompact_tokens = 0\n[models]\ndefault = \"openai-bench/bench\"\n[models.local]\nprobe = false\n{}{}\
             [agents.floor]\ncommand = {:?}\nargs = [{:?}, {:?}]\n",
            provider("openai"),
            provider("anthropic"),
            std::env::current_exe().unwrap(),
            floor_agent::FLAG,
            server.address
        );
        fs::write(folder.path().join("home/.config/acpd/config.toml"), configuration).unwrap();
        Self { folder, server }
    }

    pub(crate) fn acpd(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acpd"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path().join("home"))
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .env("BENCH_KEY", "bench")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Starts a client behind a bridge and opens a session.
    pub(crate) fn editor(&self) -> (Client, String) {
        let (mut client, _) = Client::start(self.acpd(&["acp"]));
        let session = client.open(self.work().to_str().unwrap());
        (client, session)
    }

    /// Starts a client behind a bridge and opens a session that uses this model.
    pub(crate) fn editor_with(&self, model: &str) -> (Client, String) {
        let (mut client, session) = self.editor();
        let option = serde_json::json!({ "sessionId": session, "configId": "model", "value": model });
        client.call("session/set_config_option", option);
        (client, session)
    }

    /// Starts a client behind a bridge and opens a session that the floor agent answers as a hosted
    /// agent.
    pub(crate) fn hosted(&self) -> (Client, String) {
        let (mut client, _) = Client::start(self.acpd(&["acp", "--agent", "floor"]));
        let session = client.open(self.work().to_str().unwrap());
        (client, session)
    }

    /// Starts a client of the floor agent and opens a session.
    pub(crate) fn floor(&self) -> (Client, String) {
        let (mut client, _) = Client::start(self.floor_command());
        let session = client.open("/");
        (client, session)
    }

    pub(crate) fn floor_command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([floor_agent::FLAG, &self.server.address]);
        command
    }

    pub(crate) fn daemon_pid(&self) -> u32 {
        let output = self.acpd(&["ctl", "status", "--json"]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }

    /// Stops the daemon. The next bridge starts another one on the same history.
    pub(crate) fn stop_daemon(&self) {
        let stop = self.acpd(&["ctl", "stop"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        stop.unwrap();
    }

    /// Returns the size of the stored history on the disk in bytes.
    pub(crate) fn stored_bytes(&self) -> u64 {
        folder_bytes(&self.folder.path().join("home/.local/state/acpd"))
    }
}

impl Drop for BenchHome {
    fn drop(&mut self) {
        self.stop_daemon();
    }
}

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => folder_bytes(&entry.path()),
            Ok(facts) => std::os::unix::fs::MetadataExt::blocks(&facts) * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Returns a field of a file in /proc, in the unit of the file.
fn proc_field(pid: u32, file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or("0");
    line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

/// Returns the resident memory of a process in MB.
pub(crate) fn resident(pid: u32) -> f64 {
    proc_field(pid, "smaps_rollup", "Rss:") as f64 / 1024.0
}

/// Returns the memory that a process shares with no other process, in MB.
pub(crate) fn private(pid: u32) -> f64 {
    (proc_field(pid, "smaps_rollup", "Private_Dirty:") + proc_field(pid, "smaps_rollup", "Private_Clean:")) as f64
        / 1024.0
}

/// Returns the bytes that the process has caused to be written to the disk so far.
pub(crate) fn written(pid: u32) -> u64 {
    proc_field(pid, "io", "write_bytes:")
}

/// Returns the seconds of processor time that the process has used so far.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name of the program ends at the last parenthesis. Its user and system time are the 12th
    // and 13th field after it, in ticks of 10 ms.
    let fields: Vec<&str> = text[text.rfind(')').unwrap()..].split_whitespace().collect();
    fields[12..14].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Appends a page to a file in this folder, waits until the disk has it, and returns the
/// milliseconds that this took.
pub(crate) fn disk_sync(folder: &Path) -> f64 {
    let mut file = File::options().create(true).append(true).open(folder.join("synced")).unwrap();
    let started = Instant::now();
    file.write_all(&[0; 4096]).unwrap();
    file.sync_data().unwrap();
    started.elapsed().as_secs_f64() * 1e3
}

/// Returns how often each thread of the process, by its id, has gone to sleep so far.
pub(crate) fn sleeps(pid: u32) -> HashMap<OsString, u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let switches = tasks.flatten().map(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0);
        (task.file_name(), count)
    });
    switches.collect()
}

/// Returns how many bytes the store has grown since `stored` and how many were written since
/// `before`, once the store is quiet.
pub(crate) fn stored_and_written(world: &BenchHome, pid: u32, stored: u64, before: u64) -> (f64, f64) {
    // Records that nothing waits for reach the disk within 250 ms.
    std::thread::sleep(Duration::from_secs(1));
    ((world.stored_bytes() - stored) as f64, (written(pid) - before) as f64)
}
