//! Checks keys and models: where each provider's key comes from, and whether the provider answers.

use std::time::Duration;

use domain::Environment;

use super::finding::Finding;
use crate::assemble::accounts::{self, KeyCheck, ProviderCheck};
use crate::config::Config;
use crate::launch;
use crate::paths::Paths;

/// How long one provider may take.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) async fn check(places: &Paths, config: &Config) -> Vec<Finding> {
    let environment: Environment = launch::environment().collect();
    let checks = match accounts::check_providers(places, config, &environment, DEADLINE).await {
        Ok(checks) => checks,
        Err(error) => return vec![Finding::fail("models", format!("{error:#}"), "fix [models] in the configuration")],
    };
    let configured = |check: &ProviderCheck| config.models.providers.contains_key(&check.provider);
    let mut findings: Vec<Finding> = checks.iter().filter_map(|check| judge(check, configured(check))).collect();
    if findings.is_empty() {
        let says = "no key was found and no server answers on this machine; only the built-in `rehearsal` answers";
        findings.push(Finding::warn("models", says, "store a key: acpd login"));
    }
    findings
}

/// Returns the finding about a provider, or None if there is nothing to report: a provider that is
/// not configured has no key, or a local one does not run.
fn judge(check: &ProviderCheck, configured: bool) -> Option<Finding> {
    let ProviderCheck { provider, address, key, models, local } = check;
    // The address may contain a password, or a key among its parameters.
    let address = network::without_password(address);
    let address = address.split('?').next().unwrap_or_default();
    let key = match key {
        KeyCheck::NotNeeded => "needs no key".to_owned(),
        KeyCheck::Found(source) => format!("key from {source}"),
        KeyCheck::Broken(why) => {
            return Some(Finding::fail("models", format!("{provider}: {why}"), "fix the place where the key is kept"));
        }
        KeyCheck::Missing(places) if configured => {
            let says = format!("{provider}: no key was found (looked at: {places})");
            return Some(Finding::warn("models", says, format!("acpd login {provider}")));
        }
        KeyCheck::Missing(_) => return None,
    };
    match models {
        Some(Ok(count)) => Some(Finding::ok("models", format!("{provider}: {count} models at {address}, {key}"))),
        Some(Err(_)) if *local => None,
        Some(Err(why)) => {
            let advice = format!("is {address} right, and can it be reached from here? is the key still good?");
            Some(Finding::fail("models", format!("{why} ({key})"), advice))
        }
        None => None,
    }
}
