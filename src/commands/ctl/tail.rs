//! `ctl tail`: follows a session live. It attaches like an editor, answers no questions, and exits
//! on Ctrl-C or when the session ends.

use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use terminal::consent::Consent;
use terminal::excerpt::more_lines;
use terminal::session_printer::SessionPrinter;
use tokio::time::{Instant, MissedTickBehavior};
use wire::method;

use super::DaemonClient;
use crate::client::Message;
use crate::commands::Ending;
use crate::commands::json_output::print_line;

/// The interval between two checks of the terminal's size.
const FRAME: Duration = Duration::from_millis(200);

pub(super) async fn run(mut daemon: DaemonClient, id: &str) -> anyhow::Result<Ending> {
    let session = daemon.find(id).await?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let load = daemon.client.send(method::SESSION_LOAD, json!({ "sessionId": session })).await?;
    let mut end = None;
    // Only the first message has a deadline. A long log, or the updates after it, may take any
    // time.
    let mut silence = Some(Instant::now() + daemon.client.timeout());
    let mut view = View { printer: SessionPrinter::stdio(), json: daemon.json, session };
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = until(silence) => return Err(daemon.client.silent().into()),
            message = daemon.client.next() => match arrived(&mut silence, message?)? {
                Message::Reply { id, result: Err(error) } if id == load => bail!("{}", error.message),
                Message::Reply { id, .. } if id == load => {
                    let params = json!({ "sessionId": view.session });
                    end = Some(daemon.client.send(method::WAIT, params).await?);
                }
                Message::Reply { id, result: Ok(ended) } if Some(&id) == end.as_ref() => {
                    view.end(&serde_json::from_str(ended.get())?)?;
                    return Ok(Ending::Done);
                }
                // An older daemon does not report the end of a session.
                Message::Reply { .. } => {}
                // A question is shown and other clients answer it; the daemon then withdraws it
                // here.
                Message::Request { method, params, .. } | Message::Notification { method, params } => {
                    view.show(&method, &params)?;
                }
            },
            _ = frames.tick(), if view.printer.is_live() => view.printer.tick()?,
            _ = signals.next() => {
                view.printer.interrupted()?;
                view.printer.end()?;
                return Ok(Ending::Done);
            }
        }
    }
}

/// Clears the deadline, because a message has arrived. Returns an error at the end of the
/// connection.
fn arrived(silence: &mut Option<Instant>, message: Option<Message>) -> anyhow::Result<Message> {
    *silence = None;
    message.context("the daemon closed the connection")
}

/// Waits until the deadline, or forever if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

struct View {
    printer: SessionPrinter,
    json: bool,
    session: String,
}

impl View {
    fn end(&mut self, ended: &Value) -> anyhow::Result<()> {
        if self.json {
            print_line(&json!({ "method": method::WAIT, "params": ended }));
            return Ok(());
        }
        self.printer.end()?;
        let what = if ended["deleted"] == true { "deleted" } else { "closed" };
        Ok(self.printer.remark(&format!("the session was {what}"))?)
    }

    fn show(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        if self.json {
            print_line(&json!({ "method": method, "params": params }));
            return Ok(());
        }
        match method {
            method::SESSION_UPDATE => self.printer.update(&params["update"])?,
            method::SESSION_REQUEST_PERMISSION => {
                let left = self.printer.question(params, &Consent::read(params))?.len();
                if left > 0 {
                    let text = format!("  … cut, {}: see `acpd ctl session {}`", more_lines(left), self.session);
                    self.printer.trouble(&text)?;
                }
                self.printer.remark(&format!("  answer with `acpd ctl allow {}` or `deny`", self.session))?;
            }
            method::CANCEL_REQUEST => self.printer.remark("  the question was answered")?,
            _ => {}
        }
        Ok(())
    }
}
