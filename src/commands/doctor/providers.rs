//! Checks keys and models: where each provider's key comes from, and whether the provider answers.

use std::time::Duration;

use domain::Environment;

use super::finding::Finding;
use crate::assemble::accounts::{self, KeySurvey, Survey};
use crate::config::Config;
use crate::launch;
use crate::paths::Places;

/// How long one provider may take.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) async fn check(places: &Places, config: &Config) -> Vec<Finding> {
    let environment: Environment = launch::environment().collect();
    let surveys = match accounts::survey(places, config, &environment, DEADLINE).await {
        Ok(surveys) => surveys,
        Err(error) => return vec![Finding::fail("models", format!("{error:#}"), "fix [models] in the configuration")],
    };
    let configured = |survey: &Survey| config.models.providers.contains_key(&survey.provider);
    let mut findings: Vec<Finding> = surveys.iter().filter_map(|survey| judge(survey, configured(survey))).collect();
    if findings.is_empty() {
        let says = "no key was found and no server answers on this machine; only the built-in `rehearsal` answers";
        findings.push(Finding::warn("models", says, "store a key: acpd login"));
    }
    findings
}

/// Returns the finding about a provider, or None if there is nothing to report: a provider that is
/// not configured has no key, or a local one does not run.
fn judge(survey: &Survey, configured: bool) -> Option<Finding> {
    let Survey { provider, address, key, models, local } = survey;
    // The address may contain a password, or a key among its parameters.
    let address = network::without_password(address);
    let address = address.split('?').next().unwrap_or_default();
    let key = match key {
        KeySurvey::NotNeeded => "needs no key".to_owned(),
        KeySurvey::Found(source) => format!("key from {source}"),
        KeySurvey::Broken(why) => {
            return Some(Finding::fail("models", format!("{provider}: {why}"), "fix the place where the key is kept"));
        }
        KeySurvey::Missing(places) if configured => {
            let says = format!("{provider}: no key was found (looked at: {places})");
            return Some(Finding::warn("models", says, format!("acpd login {provider}")));
        }
        KeySurvey::Missing(_) => return None,
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
