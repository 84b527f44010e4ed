//! `acpd ctl`: look at the running daemon and steer it. It never starts one.
//!
//! One file a subcommand; here is what they share: the connection, and how an answer is shown.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

mod answer;
mod cancel;
mod close;
mod connections;
mod delete;
mod export;
mod import;
mod markdown;
mod permissions;
mod rename;
mod restart;
mod sessions;
mod status;
mod stop;
mod table;
mod tail;
mod undo;
mod which;

use std::os::unix::net::UnixStream;

use anyhow::{Context, bail};
use domain::{Choice, Millis};
use serde::Serialize;
use serde_json::{Value, json};
use wire::method;

use crate::cli::{Action, Ctl};
use crate::client::Client;
use crate::commands::Ending;
use crate::paths::Places;
use crate::socket;

pub fn run(places: &Places, args: &Ctl) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(act(places, args))
}

async fn act(places: &Places, args: &Ctl) -> anyhow::Result<Ending> {
    let mut visit = Visit::begin(places, args.json)?;
    match &args.action {
        Action::Sessions { all: false } => sessions::live(&mut visit).await?,
        Action::Sessions { all: true } => sessions::stored(&mut visit).await?,
        Action::Connections => connections::run(&mut visit).await?,
        Action::Status => status::run(&mut visit).await?,
        Action::Tail { which } => return tail::run(visit, &which.id).await,
        Action::Allow(args) => answer::run(&mut visit, args, [Choice::AllowOnce, Choice::AllowAlways]).await?,
        Action::Deny(args) => answer::run(&mut visit, args, [Choice::RejectOnce, Choice::RejectAlways]).await?,
        Action::Cancel { which } => cancel::run(&mut visit, &which.id).await?,
        Action::Close { which } => close::run(&mut visit, &which.id).await?,
        Action::Delete { which } => delete::run(&mut visit, &which.id).await?,
        Action::Rename { which, title } => rename::run(&mut visit, &which.id, &title.join(" ")).await?,
        Action::Undo { which, redo } => undo::run(&mut visit, &which.id, *redo).await?,
        Action::Permissions { which } => permissions::run(&mut visit, &which.id).await?,
        Action::Export(args) => export::run(&mut visit, args).await?,
        Action::Import { file } => import::run(&mut visit, file).await?,
        Action::Restart { now } => restart::run(visit, places, *now).await?,
        Action::Stop => stop::run(visit, places).await?,
    }
    Ok(Ending::Done)
}

/// A connection to the daemon, and how its answers are to be shown.
struct Visit {
    client: Client,
    json: bool,
    initialized: bool,
}

impl Visit {
    fn begin(places: &Places, json: bool) -> anyhow::Result<Self> {
        Ok(Self { client: Client::over(connect(places)?)?, json, initialized: false })
    }

    /// Says who we are, once. What concerns sessions needs it, and the log of a session names who answered a question. We
    /// send no environment: a session that we bring back takes that of its next editor.
    async fn introduce(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.initialized, true) {
            return Ok(());
        }
        let me = json!({ "name": "acpd ctl", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": me });
        let _: Value = self.client.call(method::INITIALIZE, params).await?;
        Ok(())
    }

    /// Does something to a session, and says that it is done.
    async fn steer(&mut self, method: &str, params: Value, done: &str) -> anyhow::Result<()> {
        let _: Value = self.client.call(method, &params).await?;
        let session = params["sessionId"].as_str().unwrap_or_default();
        self.show(&params, || format!("{done} {session}"));
        Ok(())
    }

    fn show(&self, found: &impl Serialize, text: impl FnOnce() -> String) {
        let text = if self.json { serde_json::to_string_pretty(found).unwrap_or_default() } else { text() };
        println!("{}", text.trim_end());
    }
}

fn connect(places: &Places) -> anyhow::Result<UnixStream> {
    match socket::connect(&places.socket) {
        Err(error) if socket::nobody_listens(&error) => bail!("no daemon runs at {}", places.socket.display()),
        connected => connected.with_context(|| format!("cannot connect to the daemon at {}", places.socket.display())),
    }
}

/// How long ago, in one figure.
fn age(since: Millis) -> String {
    let seconds = Millis::now().0.saturating_sub(since.0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
