//! Checks the proxy and certificates that a daemon started by an editor would use, and whether this
//! terminal has others.

use domain::Environment;

use super::finding::Finding;
use crate::config;
use crate::config::{ResolvedNetwork, Source};

/// Checks the network settings. `here` is the environment of this terminal, `shell` that of the
/// login shell.
pub(super) fn check(settings: &config::NetworkConfig, here: &Environment, shell: &Environment) -> Finding {
    let used = ResolvedNetwork::of(settings, &Environment::default(), shell);
    let local = ResolvedNetwork::of(settings, here, shell);
    let address = |outbound: &ResolvedNetwork| {
        let network = &outbound.network;
        network.https_proxy.as_deref().or(network.http_proxy.as_deref()).map(::network::without_password)
    };
    if local.proxy == Source::Own && address(&local) != address(&used) {
        let proxy = address(&local).unwrap_or_default();
        let says = format!(
            "this terminal has the proxy {proxy}; a daemon that an editor starts has {}",
            address(&used).unwrap_or_else(|| "none".to_owned())
        );
        let advice = format!("if it needs this one, put it into the configuration: network.proxy = \"{proxy}\"");
        return Finding::warn("network", says, advice);
    }
    if let Err(error) = used.network.certificates() {
        return Finding::fail("network", error.to_string(), "fix network.certificates in the configuration");
    }
    match (address(&used), used.proxy.words()) {
        (Some(proxy), Some(source)) => Finding::ok("network", format!("through the proxy {proxy}, from {source}")),
        _ => Finding::ok("network", "directly, without a proxy"),
    }
}
