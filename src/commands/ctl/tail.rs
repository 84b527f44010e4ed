//! `ctl tail`: follows a session as it happens. It attaches as an editor does, answers nothing, and leaves on Ctrl-C, or
//! when the session does.
#![allow(clippy::print_stdout, reason = "with --json every update is printed")]

use anyhow::{Context, bail};
use futures_util::StreamExt;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use wire::method;

use super::Visit;
use crate::client::Message;
use crate::commands::Ending;
use crate::commands::screen::Screen;

pub(super) async fn run(mut visit: Visit, id: &str) -> anyhow::Result<Ending> {
    let session = visit.find(id).await?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let load = visit.client.send(method::SESSION_LOAD, json!({ "sessionId": session })).await?;
    let mut end = None;
    let mut view = View { screen: Screen::new(), json: visit.json, session };
    loop {
        tokio::select! {
            message = visit.client.next() => match message?.context("the daemon hung up")? {
                Message::Reply { id, result: Err(error) } if id == load => bail!("{}", error.message),
                Message::Reply { id, .. } if id == load => {
                    let params = json!({ "sessionId": view.session });
                    end = Some(visit.client.send(method::WAIT, params).await?);
                }
                Message::Reply { id, result: Ok(told) } if Some(&id) == end.as_ref() => {
                    view.end(&serde_json::from_str(told.get())?)?;
                    return Ok(Ending::Done);
                }
                // An older daemon does not tell of the end.
                Message::Reply { .. } => {}
                // A question is shown and left to others; it is withdrawn here when one of them has answered.
                Message::Request { method, params, .. } | Message::Notice { method, params } => {
                    view.show(&method, &params)?;
                }
            },
            _ = signals.next() => {
                view.screen.interrupted()?;
                return Ok(Ending::Done);
            }
        }
    }
}

struct View {
    screen: Screen,
    json: bool,
    session: String,
}

impl View {
    fn end(&mut self, told: &Value) -> anyhow::Result<()> {
        if self.json {
            println!("{}", json!({ "method": method::WAIT, "params": told }));
            return Ok(());
        }
        self.screen.end()?;
        let what = if told["deleted"] == true { "deleted" } else { "closed" };
        Ok(self.screen.remark(&format!("the session was {what}"))?)
    }

    fn show(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        if self.json {
            println!("{}", json!({ "method": method, "params": params }));
            return Ok(());
        }
        match method {
            method::SESSION_UPDATE => self.screen.update(&params["update"])?,
            method::SESSION_REQUEST_PERMISSION => {
                self.screen.question(params)?;
                self.screen.remark(&format!("  answer with `acpd ctl allow {}` or `deny`", self.session))?;
            }
            method::CANCEL_REQUEST => self.screen.remark("  the question is settled")?,
            _ => {}
        }
        Ok(())
    }
}
