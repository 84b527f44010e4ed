//! The operator's command that runs when a session waits for the user or has finished a turn.

use std::sync::Arc;

use domain::CallSite;
use domain::tool::Notification;
use process::Launcher;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, de};
use serde_json::json;

use crate::{DEFAULT_TIMEOUT_MS, HookCommand, HookReply};

/// The section `[notify]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// The shell command, which runs in the session's folder with one JSON object on its standard
    /// input. Empty for none.
    pub command: String,
    #[serde(deserialize_with = "when")]
    pub when: When,
}

/// Reads the value through a string, so that an error lists the possible values.
fn when<'de, D: Deserializer<'de>>(source: D) -> Result<When, D::Error> {
    let given = String::deserialize(source)?;
    When::deserialize(given.into_deserializer()).map_err(|error: de::value::Error| de::Error::custom(error))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Only if no client is attached to the session.
    #[default]
    Unattended,
    Always,
}

impl Notify {
    /// Starts the command if one is configured for this event, without waiting for it.
    pub fn send(&self, notification: &Notification<'_>, site: &Arc<CallSite>, launcher: &Launcher) {
        if self.command.is_empty() || (notification.attended && self.when == When::Unattended) {
            return;
        }
        let input = json!({
            "event": notification.event.name(),
            "about": notification.about,
            "session": site.session,
            "title": notification.title,
            "cwd": site.cwd,
            "attended": notification.attended,
        });
        let hook = HookCommand::new(&self.command, DEFAULT_TIMEOUT_MS);
        let (site, launcher) = (Arc::clone(site), launcher.clone());
        tokio::spawn(async move {
            match hook.run(&input.to_string(), &site, &launcher).await {
                HookReply::Allowed | HookReply::Refused(_) => {}
                HookReply::Failed(reason) => tracing::warn!(reason, "the command for notifications failed"),
            }
        });
    }
}
