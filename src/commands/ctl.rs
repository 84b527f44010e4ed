//! `acpd ctl`: inspects and controls the running daemon. It never starts one.
//!
//! Each subcommand has its own file. This file contains what they share: the connection, and the
//! format of the answers.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

mod answer;
mod cancel;
mod close;
mod connections;
mod delete;
mod export;
pub(crate) mod gc;
mod import;
mod logs;
mod mcp;
mod permissions;
mod reload;
mod rename;
mod restart;
mod search;
mod session;
pub(crate) mod session_format;
mod sessions;
mod status;
mod stop;
mod tail;
mod top;
mod undo;

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use wire::method;

use self::answer::Permission;
use crate::cli::{CtlAction, CtlArgs};
use crate::client::Client;
use crate::commands::json_output::print_indented;
use crate::commands::{Ending, session_lookup};
use crate::paths::Paths;
use bridge::socket;

pub fn run(places: &Paths, args: &CtlArgs) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(act(places, args))
}

async fn act(places: &Paths, args: &CtlArgs) -> anyhow::Result<Ending> {
    // `logs` is the only subcommand that is useful without a daemon.
    if let CtlAction::Logs(logs) = &args.action {
        return logs::run(places, logs, args.json).await;
    }
    // `stop` must also work on a daemon that does not answer.
    if let CtlAction::Stop { force } = args.action {
        stop::run(places, args.json, force).await?;
        return Ok(Ending::Done);
    }
    let mut daemon = DaemonClient::begin(places, args.json)?;
    match &args.action {
        CtlAction::Sessions(args) => sessions::run(&mut daemon, args, &places.home).await?,
        CtlAction::Session { which } => session::run(&mut daemon, &which.id).await?,
        CtlAction::Top(args) => return top::run(daemon, places, args).await,
        CtlAction::Logs(args) => return logs::run(places, args, daemon.json).await,
        CtlAction::Gc(args) => gc::run(&mut daemon, args, &places.home).await?,
        CtlAction::Connections => connections::run(&mut daemon).await?,
        CtlAction::Status => status::run(&mut daemon).await?,
        CtlAction::Tail { which } => return tail::run(daemon, &which.id).await,
        CtlAction::Allow { answer, unseen } => {
            answer::run(&mut daemon, answer, Permission::Allow { unseen: *unseen }).await?;
        }
        CtlAction::Deny { answer, reason } => {
            answer::run(&mut daemon, answer, Permission::Deny { reason: reason.as_deref() }).await?;
        }
        CtlAction::Answer(args) => answer::reply(&mut daemon, args).await?,
        CtlAction::Cancel { which } => cancel::run(&mut daemon, &which.id).await?,
        CtlAction::Close { which } => close::run(&mut daemon, &which.id).await?,
        CtlAction::Delete { which } => delete::run(&mut daemon, &which.id).await?,
        CtlAction::Search(args) => search::run(&mut daemon, args).await?,
        CtlAction::Rename { which, title } => rename::run(&mut daemon, &which.id, &title.join(" ")).await?,
        CtlAction::Undo { which, redo } => undo::run(&mut daemon, &which.id, *redo).await?,
        CtlAction::Mcp { id } => mcp::run(&mut daemon, id.as_deref()).await?,
        CtlAction::Permissions { which } => permissions::run(&mut daemon, &which.id).await?,
        CtlAction::Export(args) => export::run(&mut daemon, args).await?,
        CtlAction::Import { file } => import::run(&mut daemon, file).await?,
        CtlAction::Reload => reload::run(&mut daemon).await?,
        CtlAction::Restart { now } => restart::run(daemon, places, *now).await?,
        CtlAction::Stop { force } => stop::run(places, daemon.json, *force).await?,
    }
    Ok(Ending::Done)
}

/// A connection to the daemon, and the format of its answers.
pub(super) struct DaemonClient {
    pub(super) client: Client,
    json: bool,
    initialized: bool,
}

impl DaemonClient {
    pub(super) fn begin(places: &Paths, json: bool) -> anyhow::Result<Self> {
        Ok(Self { client: Client::over(connect(places)?)?, json, initialized: false })
    }

    /// Identifies this client, once. Requests about sessions need that, and the log of a session
    /// names the client that answered a question. No environment is sent: a session that `ctl`
    /// restores uses the environment of its next editor.
    pub(super) async fn introduce(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.initialized, true) {
            return Ok(());
        }
        let me = json!({ "name": "acpd ctl", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": me });
        let _: Value = self.client.call(method::INITIALIZE, params).await?;
        Ok(())
    }

    /// Finds the whole id of a session.
    async fn find(&mut self, given: &str) -> anyhow::Result<String> {
        self.introduce().await?;
        session_lookup::find(&mut self.client, given).await
    }

    /// Sends a request about a session, and prints that it is done.
    async fn control(&mut self, method: &str, params: Value, done: &str) -> anyhow::Result<()> {
        let _: Value = self.client.call(method, &params).await?;
        let session = params["sessionId"].as_str().unwrap_or_default();
        self.show(&params, || format!("{done} {session}"));
        Ok(())
    }

    fn show(&self, found: &impl Serialize, text: impl FnOnce() -> String) {
        print(self.json, found, text);
    }
}

/// Prints the result as JSON for scripts, or as text.
fn print(json: bool, found: &impl Serialize, text: impl FnOnce() -> String) {
    if json {
        print_indented(found);
    } else {
        println!("{}", text().trim_end());
    }
}

/// No daemon is running.
#[derive(Debug)]
pub struct NoDaemon(PathBuf);

impl fmt::Display for NoDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no daemon is running at {}", self.0.display())
    }
}

impl std::error::Error for NoDaemon {}

fn connect(places: &Paths) -> anyhow::Result<UnixStream> {
    match socket::connect(&places.socket) {
        Err(error) if socket::has_no_listener(&error) => Err(NoDaemon(places.socket.clone()).into()),
        connected => connected.with_context(|| format!("cannot connect to the daemon at {}", places.socket.display())),
    }
}
