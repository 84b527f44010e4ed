//! Reloads the configuration while the daemon runs, on SIGHUP and on `acpd ctl reload`.
//!
//! An invalid configuration changes nothing. The changed keys are grouped by when they take effect,
//! logged, and returned to the client that requested the reload.

use std::sync::{Arc, Mutex, PoisonError};

use acpd_actors::{Reload, ReloadError, RuntimeSettings};
use domain::card::ReloadCard;

use crate::assemble::ReloadableParts;
use crate::config::Loaded;
use crate::logging;
use crate::paths::Paths;

/// Returns a function that reloads the configuration each time it is called.
pub(super) fn reloader(paths: &Paths, loaded: Loaded, parts: ReloadableParts) -> Box<Reload> {
    let reloader =
        Arc::new(Reloader { paths: paths.clone(), parts, start: loaded.clone(), current: Mutex::new(loaded) });
    Box::new(move || {
        let reloader = reloader.clone();
        Box::pin(async move {
            // Reading files would block an arbiter.
            let done = tokio::task::spawn_blocking(move || reloader.reload()).await;
            let done = done
                .unwrap_or_else(|_| Err(anyhow::anyhow!("cannot read the configuration because of a defect in acpd")));
            match &done {
                Ok((card, _)) => {
                    let ReloadCard { now, later, restart } = card;
                    tracing::info!(?now, ?later, ?restart, "reloaded the configuration");
                }
                Err(error) => tracing::error!("the configuration stays as it was: {error:#}"),
            }
            done.map_err(|error| ReloadError::Invalid(format!("{error:#}")))
        })
    })
}

struct Reloader {
    paths: Paths,
    parts: ReloadableParts,
    /// The configuration at the start, which some keys keep until a restart.
    start: Loaded,
    /// The configuration in force. The lock is held for a whole reload, so reloads do not overlap.
    current: Mutex<Loaded>,
}

impl Reloader {
    fn reload(&self) -> anyhow::Result<(ReloadCard, RuntimeSettings)> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let next = current.again()?;
        acpd_http::check_files(&next.config.http)?;
        let settings = self.parts.renew(&self.paths, &next.config)?;
        logging::refilter(&next.config.log.filter)?;
        let mut card = sorted(current.differences(&next));
        card.restart = sorted(self.start.differences(&next)).restart;
        *current = next;
        Ok((card, settings))
    }
}

/// Groups changed keys by when the change takes effect.
fn sorted(keys: Vec<String>) -> ReloadCard {
    let mut card = ReloadCard::default();
    for key in keys {
        let section = key.split('.').next().unwrap_or_default();
        match section {
            "daemon" | "history" | "http" => card.restart.push(key),
            "session" if key == "session.notes" => card.now.push(key),
            "session" | "budget" | "protocol" | "limits" | "mcp" | "agents" => card.later.push(key),
            "tools" if key.starts_with("tools.agent") => card.later.push(key),
            _ => card.now.push(key),
        }
    }
    card
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_key_is_grouped_by_when_it_takes_effect() {
        let keys = [
            "budget.day_cost",
            "history.cache",
            "http.listen",
            "log.filter",
            "permissions.deny",
            "session.mode",
            "session.notes",
        ];
        let card = sorted(keys.map(str::to_owned).to_vec());
        assert_eq!(card.now, ["log.filter", "permissions.deny", "session.notes"]);
        assert_eq!(card.later, ["budget.day_cost", "session.mode"]);
        assert_eq!(card.restart, ["history.cache", "http.listen"]);
    }
}
