//! `acpd ctl`: look at the running daemon and steer it. It never starts one.
#![allow(clippy::print_stdout, reason = "the answer is printed")]

mod table;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use domain::Millis;
use domain::card::{ConnectionCard, SessionCard, StatusCard};
use domain::history::StoreStatus;
use serde::Serialize;
use serde_json::{Value, json};
use wire::ext::{ConnectionsResult, SessionsResult};
use wire::method;

use self::table::{Column, Table};
use crate::cli::{Action, Ctl};
use crate::client::Client;
use crate::commands::Ending;
use crate::launch::beside;
use crate::lock::{Attempt, Lock};
use crate::paths::Places;
use crate::socket;

/// How long the daemon may take to put everything away. It has its own, shorter deadline.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

pub fn run(places: &Places, args: &Ctl) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(act(places, args))?;
    Ok(Ending::Done)
}

async fn act(places: &Places, args: &Ctl) -> anyhow::Result<()> {
    let mut client = Client::over(connect(places)?)?;
    match args.action {
        Action::Sessions { all: false } => {
            let found: SessionsResult = client.call(method::SESSIONS, json!({})).await?;
            show(args.json, &found, || live(&found.sessions));
        }
        Action::Sessions { all: true } => {
            let found = list_all(&mut client).await?;
            show(args.json, &json!({ "sessions": found }), || stored(&found));
        }
        Action::Connections => {
            let found: ConnectionsResult = client.call(method::CONNECTIONS, json!({})).await?;
            show(args.json, &found, || connections(&found.connections));
        }
        Action::Status => {
            let found: StatusCard = client.call(method::STATUS, json!({})).await?;
            show(args.json, &found, || status(&found));
        }
        Action::Stop => stop(places, client, args.json).await?,
    }
    Ok(())
}

fn connect(places: &Places) -> anyhow::Result<std::os::unix::net::UnixStream> {
    match socket::connect(&places.socket) {
        Err(error) if socket::nobody_listens(&error) => bail!("no daemon runs at {}", places.socket.display()),
        connected => connected.with_context(|| format!("cannot connect to the daemon at {}", places.socket.display())),
    }
}

fn show(json: bool, found: &impl Serialize, table: impl FnOnce() -> String) {
    let text = if json { serde_json::to_string_pretty(found).unwrap_or_default() } else { table() };
    println!("{}", text.trim_end());
}

fn live(sessions: &[SessionCard]) -> String {
    if sessions.is_empty() {
        return "no sessions in memory; `acpd ctl sessions --all` lists the stored ones".to_owned();
    }
    let mut table = Table::new([
        Column::keeping_end("ID"),
        Column::fixed("STATE"),
        Column::fixed("TURN"),
        Column::keeping_start("CLIENTS"),
        Column::keeping_start("MODEL"),
        Column::fixed("MODE"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    for session in sessions {
        table.row([
            session.id.to_string(),
            session.state.name().to_owned(),
            session.turn_started.map(age).unwrap_or_default(),
            session.clients.join(", "),
            session.model.to_string(),
            session.mode.id().to_owned(),
            session.title.clone().unwrap_or_default(),
            session.cwd.display().to_string(),
        ]);
    }
    table.render(table::terminal_width())
}

/// The stored sessions come through the same list that editors use, page by page.
async fn list_all(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": { "name": "acpd ctl", "version": env!("CARGO_PKG_VERSION") },
    });
    let _: Value = client.call(method::INITIALIZE, params).await?;
    let mut sessions = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let mut page: Value = client.call(method::SESSION_LIST, params).await?;
        if let Value::Array(found) = page["sessions"].take() {
            sessions.extend(found);
        }
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            return Ok(sessions);
        }
    }
}

fn stored(sessions: &[Value]) -> String {
    if sessions.is_empty() {
        return "no sessions".to_owned();
    }
    let mut table = Table::new([
        Column::keeping_end("ID"),
        Column::fixed("UPDATED"),
        Column::keeping_start("TITLE"),
        Column::keeping_end("CWD"),
    ]);
    let text = |session: &Value, key: &str| session[key].as_str().unwrap_or_default().to_owned();
    for session in sessions {
        let [id, updated, title, cwd] = ["sessionId", "updatedAt", "title", "cwd"].map(|key| text(session, key));
        table.row([id, updated, title, cwd]);
    }
    table.render(table::terminal_width())
}

fn connections(connections: &[ConnectionCard]) -> String {
    let mut table = Table::new([
        Column::keeping_end("ID"),
        Column::keeping_start("CLIENT"),
        Column::fixed("VERSION"),
        Column::fixed("VIA"),
        Column::fixed("PID"),
        Column::fixed("SINCE"),
        Column::fixed("SESSIONS"),
        Column::fixed("UNREAD"),
    ]);
    for connection in connections {
        table.row([
            connection.id.to_string(),
            connection.client.name.clone(),
            connection.client.version.clone(),
            connection.transport.clone(),
            connection.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            age(connection.connected),
            connection.sessions.len().to_string(),
            connection.outbox.to_string(),
        ]);
    }
    table.render(table::terminal_width())
}

fn status(card: &StatusCard) -> String {
    let store = match &card.store {
        StoreStatus::Opening => "opening".to_owned(),
        StoreStatus::Open { moved_aside: None } => "open".to_owned(),
        StoreStatus::Open { moved_aside: Some(path) } => {
            format!("open; a store that could not be read was moved to {}", path.display())
        }
        StoreStatus::Failing { reason } => format!("failing: {reason}"),
    };
    format!(
        "version      {}\npid          {}\nup           {}\nsessions     {}\nconnections  {}\nstore        {}\nmodel        {}",
        card.version,
        card.pid,
        age(card.started),
        card.sessions,
        card.connections,
        table::plain(&store),
        card.model,
    )
}

/// Asks the daemon to end, and waits until it has: its lock is free then.
async fn stop(places: &Places, mut client: Client, json: bool) -> anyhow::Result<()> {
    // A daemon that ends at once may not get round to the answer.
    client.send(method::STOP, json!({})).await?;
    while let Some(message) = client.next().await.unwrap_or(None) {
        if let crate::client::Message::Reply { result: Err(error), .. } = message {
            bail!("the daemon did not stop: {}", error.message);
        }
    }
    let deadline = Instant::now() + STOP_DEADLINE;
    let lock = beside(&places.socket, "lock");
    while let Attempt::Held(holder) = Lock::attempt(&lock)? {
        if Instant::now() > deadline {
            let holder = holder.map_or_else(|| "the daemon".to_owned(), |pid| format!("the daemon (process {pid})"));
            bail!("{holder} still runs after {} seconds", STOP_DEADLINE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    show(json, &json!({ "stopped": true }), || "stopped".to_owned());
    Ok(())
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
