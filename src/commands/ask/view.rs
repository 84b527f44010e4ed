//! How `ask` tells what happens: to people on the screen, or to scripts as a line of JSON each.
#![allow(clippy::print_stdout, reason = "lines for scripts are printed")]

use serde_json::{Value, json};
use wire::method;

use crate::client::Refused;
use crate::commands::screen::Screen;

pub(super) enum View {
    People(Box<Screen>),
    Scripts,
}

impl View {
    pub(super) fn update(&mut self, params: &Value) -> anyhow::Result<()> {
        match self {
            Self::People(screen) => screen.update(&params["update"])?,
            Self::Scripts => println!("{}", json!({ "method": method::SESSION_UPDATE, "params": params })),
        }
        Ok(())
    }

    pub(super) fn question(&mut self, params: &Value) -> anyhow::Result<()> {
        match self {
            Self::People(screen) => screen.question(params)?,
            Self::Scripts => println!("{}", json!({ "method": method::SESSION_REQUEST_PERMISSION, "params": params })),
        }
        Ok(())
    }

    /// The turn is over, or there was none.
    pub(super) fn ended(&mut self, session: &str, result: &anyhow::Result<Value>) -> anyhow::Result<()> {
        match (self, result) {
            (Self::People(screen), _) => screen.end()?,
            (Self::Scripts, Ok(ended)) => {
                let line = json!({ "sessionId": session, "stopReason": ended["stopReason"], "usage": ended["usage"] });
                println!("{line}");
            }
            (Self::Scripts, Err(error)) => {
                let error = match error.downcast_ref::<Refused>() {
                    Some(Refused { error, .. }) => {
                        json!({ "code": error.code, "message": error.message, "data": error.data })
                    }
                    None => json!({ "message": format!("{error:#}") }),
                };
                println!("{}", json!({ "sessionId": session, "error": error }));
            }
        }
        Ok(())
    }

    /// Only people are told.
    pub(super) fn remark(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::People(screen) = self {
            screen.remark(text)?;
        }
        Ok(())
    }

    pub(super) fn interrupted(&mut self) -> anyhow::Result<()> {
        if let Self::People(screen) = self {
            screen.interrupted()?;
        }
        Ok(())
    }

    pub(super) fn trouble(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::People(screen) = self {
            screen.trouble(text)?;
        }
        Ok(())
    }

    pub(super) fn keys(&mut self, keys: &str) -> anyhow::Result<()> {
        if let Self::People(screen) = self {
            screen.keys(keys)?;
        }
        Ok(())
    }

    pub(super) fn decided(&mut self, what: &str) -> anyhow::Result<()> {
        if let Self::People(screen) = self {
            screen.decided(what)?;
        }
        Ok(())
    }
}
