//! Connects to the daemon and opens the requested session: a new one in the current folder, the
//! newest one there, or one by its id.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use domain::similar_names;
use serde_json::{Value, json};
use terminal::status_line::StatusLine;
use wire::extension::HelloParams;
use wire::method;
use wire::rpc::RpcError;

use super::endpoint::Endpoint;
use super::slash;
use crate::cli::AskArgs;
use crate::client::{Client, Refused};
use crate::commands::session_lookup;
use crate::launch;
use crate::paths::Paths;
use bridge::deadline::NoAnswer;

/// How long to retry while the daemon closes the connection without an answer.
const DEADLINE: Duration = Duration::from_secs(3);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The session to use.
pub(super) enum SessionChoice {
    New,
    /// The newest session of this folder.
    Newest,
    /// The session with this id, or with an id that this is a part of.
    Named(String),
}

impl SessionChoice {
    pub(super) fn wanted(args: &AskArgs) -> Self {
        match (&args.session, args.newest) {
            (Some(id), _) => Self::Named(id.clone()),
            (None, true) => Self::Newest,
            (None, false) => Self::New,
        }
    }
}

/// An open session.
pub(super) struct Opened {
    pub(super) session: String,
    /// Its model, mode and folder.
    pub(super) status: StatusLine,
    /// The options of the session, as the daemon sends them.
    pub(super) options: Value,
    /// The title, if the session is continued.
    pub(super) continued: Option<String>,
}

/// Connects to the daemon and initializes; `once` means that the connection is for one prompt. A
/// daemon over HTTP receives neither the environment nor the folders of this machine, because it
/// may run on another one.
pub(super) async fn connect(endpoint: &Endpoint<'_>, once: bool) -> anyhow::Result<Client> {
    let Some(http) = &endpoint.http else { return introduce(endpoint.places, once).await };
    let mut client = Client::over_http(http.address, &http.token).await?;
    let hello = HelloParams { one_shot: once, ..launch::remote_hello() };
    client.call::<Value>(method::HELLO, hello).await?;
    initialize(&mut client).await?;
    Ok(client)
}

/// Connects to the daemon's socket, starting the daemon if needed, and identifies this client. A
/// daemon that is stopping closes the connection without an answer; its successor is available a
/// moment later.
async fn introduce(places: &Paths, once: bool) -> anyhow::Result<Client> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut client = Client::over(launch::connect_or_start(places, &launch::own_program()?)?)?;
        let hello = HelloParams { one_shot: once, ..launch::hello(places, None) };
        match client.call::<Value>(method::HELLO, hello).await {
            Ok(_) => {
                initialize(&mut client).await?;
                return Ok(client);
            }
            Err(error) if error.is::<Refused>() || error.is::<NoAnswer>() || Instant::now() > deadline => {
                return Err(error);
            }
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

async fn initialize(client: &mut Client) -> anyhow::Result<()> {
    let me = json!({ "name": "acpd ask", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities(), "clientInfo": me });
    let _: Value = client.call(method::INITIALIZE, params).await?;
    Ok(())
}

/// Returns the capabilities of this client. Notices and compactions arrive as separate updates,
/// which keeps them out of the answer.
fn capabilities() -> Value {
    let meta = json!({ "acpd": { "words": true } });
    json!({ "session": { "notices": {}, "compaction": {} }, "_meta": meta })
}

pub(super) async fn open(client: &mut Client, wanted: &SessionChoice) -> anyhow::Result<Opened> {
    match wanted {
        SessionChoice::New => {
            let opened: Value = client.call(method::SESSION_NEW, json!({ "cwd": folder()?, "mcpServers": [] })).await?;
            let session = opened["sessionId"]
                .as_str()
                .context("the daemon's answer has no session id; it may be of another version: see `acpd ctl status`")?
                .to_owned();
            Ok(describe(session, &opened, None))
        }
        SessionChoice::Newest => {
            let cwd = folder()?;
            let (found, _) = session_lookup::page(client, Some(&cwd), &Value::Null).await?;
            let Some(newest) = found.first() else {
                let text = format!("no session was found in {} to continue", cwd.display());
                return Err(session_lookup::no_session(text));
            };
            resume(client, newest["sessionId"].as_str().unwrap_or_default(), newest["title"].as_str()).await
        }
        SessionChoice::Named(given) => {
            let session = session_lookup::find(client, given).await?;
            let live = session_lookup::in_memory(client).await?;
            let title = live.into_iter().find(|card| card.id.as_str() == session).and_then(|card| card.title);
            let title = match title {
                Some(title) => Some(title),
                None => stored_title(client, &session).await?,
            };
            resume(client, &session, title.as_deref()).await
        }
    }
}

/// Returns the title of a session that is not in memory, if it is one of the newest.
async fn stored_title(client: &mut Client, session: &str) -> anyhow::Result<Option<String>> {
    let (newest, _) = session_lookup::page(client, None, &Value::Null).await?;
    let found = newest.iter().find(|stored| stored["sessionId"] == session);
    Ok(found.and_then(|stored| stored["title"].as_str()).map(str::to_owned))
}

/// Resumes a session without a replay of the earlier conversation, which the agent remembers.
async fn resume(client: &mut Client, session: &str, title: Option<&str>) -> anyhow::Result<Opened> {
    let opened: Value = client.call(method::SESSION_RESUME, json!({ "sessionId": session })).await?;
    Ok(describe(session.to_owned(), &opened, Some(title.unwrap_or(session))))
}

fn describe(session: String, opened: &Value, continued: Option<&str>) -> Opened {
    let mut status = StatusLine::new(std::env::current_dir().unwrap_or_default());
    status.options(&opened["configOptions"]);
    let options = opened["configOptions"].clone();
    Opened { session, status, options, continued: continued.map(str::to_owned) }
}

/// Sets the mode and model that the command line names.
pub(super) async fn configure(client: &mut Client, opened: &mut Opened, args: &AskArgs) -> anyhow::Result<()> {
    let Opened { session, status, options, .. } = opened;
    for (option, value, current) in [("mode", &args.mode, &mut status.mode), ("model", &args.model, &mut status.model)]
    {
        if let Some(value) = value {
            let params = json!({ "sessionId": session, "configId": option, "value": value });
            if let Err(error) = client.call::<Value>(method::SESSION_SET_CONFIG_OPTION, params).await {
                let is_unknown = |refused: &Refused| refused.error.code == RpcError::INVALID_PARAMS;
                let choices = slash::choices(options, option);
                let near = similar_names::did_you_mean(value, choices.iter().map(|(id, _)| id.as_str()));
                ensure!(
                    !error.downcast_ref().is_some_and(is_unknown),
                    "there is no {option} `{value}`; {}",
                    near.as_deref().unwrap_or(known(option))
                );
                return Err(error);
            }
            current.clone_from(value);
        }
    }
    Ok(())
}

/// Returns a hint with the subcommand that lists the possible values of an option.
fn known(option: &str) -> &'static str {
    match option {
        "model" => "`acpd models list` lists the models",
        _ => "`acpd ask --help` lists the modes",
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("cannot find the current folder")
}
