//! The HTTP client that all providers share, and the limits on waiting.
//!
//! It is built on first use and off the caller's thread, because reading the system's certificates
//! takes time, and built again when the network settings change. It knows no provider. Redirects
//! are not followed: a key must not reach an address that was not configured.

use std::sync::Arc;
use std::time::Duration;

use network::Network;
use reqwest::{Client, ClientBuilder, Url};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};

/// Limits on waiting for a provider.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderTimeouts {
    /// The limit for a connection to open. It applies to all providers, because they share one
    /// client.
    pub connect_seconds: f64,
    /// The limit until the first event of an answer. Models on small machines read long prompts
    /// slowly.
    pub first_seconds: f64,
    /// The limit between two pieces of an answer.
    pub idle_seconds: f64,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        Self { connect_seconds: 15.0, first_seconds: 300.0, idle_seconds: 120.0 }
    }
}

impl ProviderTimeouts {
    pub(crate) fn first(&self) -> Duration {
        seconds(self.first_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        seconds(self.idle_seconds)
    }
}

/// Converts a setting to a duration. An invalid value becomes a day, which is as good as no limit.
fn seconds(setting: f64) -> Duration {
    const A_DAY: Duration = Duration::from_secs(86_400);
    Duration::try_from_secs_f64(setting).unwrap_or(A_DAY).min(A_DAY)
}

/// Installs ring as the process's cryptography provider. The program calls it once at start; a
/// second call does nothing.
pub fn install_crypto() {
    // An error means that a provider is installed already, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[derive(Debug, Default)]
pub(crate) struct Http {
    connect: Option<Duration>,
    outside: Mutex<Option<RemoteClient>>,
    /// The client for plain HTTP to this machine. It uses no proxy and reads no certificates.
    local: OnceCell<Client>,
}

/// The client for other machines, and the setting that it was built with.
#[derive(Debug)]
struct RemoteClient {
    network: Option<Arc<Network>>,
    client: Client,
}

impl Http {
    pub(crate) fn new(timeouts: &ProviderTimeouts) -> Self {
        Self { connect: Some(seconds(timeouts.connect_seconds)), ..Self::default() }
    }

    pub(crate) async fn client(&self, address: &Url) -> Result<Client, String> {
        let connect = self.connect.unwrap_or(Duration::from_secs(15));
        if address.scheme() == "http" && is_loopback(address) {
            let build = || build(connect, |builder| Ok(builder.no_proxy().tls_certs_only([])));
            return self.local.get_or_try_init(build).await.cloned();
        }
        let network = network::current().await;
        let mut outside = self.outside.lock().await;
        if let Some(built) = &*outside
            && is_same(&built.network, &network)
        {
            return Ok(built.client.clone());
        }
        let way = network.clone();
        let build = build(connect, move |builder| match &way {
            Some(network) => network.apply(builder).map_err(|error| in_full(&error)),
            None => Ok(builder),
        });
        let client = build.await?;
        *outside = Some(RemoteClient { network, client: client.clone() });
        Ok(client)
    }
}

/// How long an unused connection to a provider stays open, and how many per host. Each keeps the
/// buffer that its last stream needed, up to half a megabyte.
const IDLE_CONNECTION: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 4;

async fn build(
    connect: Duration,
    route: impl FnOnce(ClientBuilder) -> Result<ClientBuilder, String> + Send + 'static,
) -> Result<Client, String> {
    let build = move || {
        install_crypto();
        let builder = Client::builder()
            .user_agent(concat!("acpd/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(connect)
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .tcp_nodelay(true);
        route(builder)?.build().map_err(|error| error.to_string())
    };
    tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?
}

fn is_same(one: &Option<Arc<Network>>, other: &Option<Arc<Network>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Formats an error with its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_distinguished_from_others() {
        for (address, local) in [
            ("http://127.0.0.1:11434/v1", true),
            ("http://localhost:1", true),
            ("http://[::1]:1", true),
            ("http://127.0.0.1.example.com", false),
            ("https://api.anthropic.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(address).unwrap()), local, "{address}");
        }
    }

    #[test]
    fn a_limit_that_is_no_duration_is_a_long_one() {
        assert_eq!(seconds(0.25), Duration::from_millis(250));
        assert_eq!(seconds(f64::INFINITY), Duration::from_secs(86_400));
        assert_eq!(seconds(-1.0), Duration::from_secs(86_400));
    }

    #[tokio::test]
    async fn both_clients_are_built() {
        let http = Http::default();
        assert!(http.client(&Url::parse("http://127.0.0.1:1").unwrap()).await.is_ok());
        assert!(http.client(&Url::parse("https://example.com").unwrap()).await.is_ok());
    }
}
