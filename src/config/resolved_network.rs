//! Chooses the proxy and the certificates: from the configuration, the daemon's environment, or the
//! login shell, in this order.
//!
//! A daemon that a bridge started has neither proxy nor certificates in its environment (`launch`),
//! because the settings of one editor would then apply to all. `acpd serve` in a terminal or under
//! systemd keeps its environment.

use domain::Environment;
use network::Network;

use crate::config;
use crate::config::ShownSetting;

/// The network settings in use, and their sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedNetwork {
    pub network: Network,
    pub proxy: Source,
    pub certificates: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Configuration,
    /// The environment of this process.
    Own,
    LoginShell,
    Nothing,
}

impl Source {
    /// Returns the source as text for messages.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Configuration => Some("the configuration"),
            Self::Own => Some("the environment"),
            Self::LoginShell => Some("the login shell's environment"),
            Self::Nothing => None,
        }
    }
}

impl ResolvedNetwork {
    /// Resolves the settings. `shell` is the login shell's environment, which is empty while it is
    /// unknown.
    pub fn of(settings: &config::NetworkConfig, own: &Environment, shell: &Environment) -> Self {
        let variables = |environment: &Environment| Network::of_variables(|name| environment.get(name));
        let environments = [(Source::Own, variables(own)), (Source::LoginShell, usable(variables(shell)))];
        let mut network = Network::default();
        let mut proxy = Source::Nothing;
        if settings.proxy == config::NetworkConfig::OFF {
            proxy = Source::Configuration;
        } else if !settings.proxy.is_empty() {
            proxy = Source::Configuration;
            network.https_proxy = Some(settings.proxy.clone());
            network.http_proxy = Some(settings.proxy.clone());
            network.no_proxy = settings.no_proxy.join(",");
        } else if let Some((source, found)) = environments.iter().find(|(_, found)| found.has_proxy()) {
            proxy = *source;
            network = Network { certificates: Vec::new(), ..found.clone() };
            if !settings.no_proxy.is_empty() {
                network.no_proxy = settings.no_proxy.join(",");
            }
        }
        let mut certificates = Source::Nothing;
        if !settings.certificates.is_empty() {
            certificates = Source::Configuration;
            network.certificates.clone_from(&settings.certificates);
        } else if let Some((source, found)) = environments.iter().find(|(_, found)| !found.certificates.is_empty()) {
            certificates = *source;
            // The library that verifies servers reads the variables of this process itself.
            if *source != Source::Own {
                network.certificates.clone_from(&found.certificates);
            }
        }
        Self { network, proxy, certificates }
    }

    /// Whether both proxy and certificates are known. Otherwise the login shell may set them.
    pub fn is_complete(&self) -> bool {
        self.proxy != Source::Nothing && self.certificates != Source::Nothing
    }

    /// Adds the settings from the login shell to an overview of the configuration.
    pub fn describe(&self, overview: &mut [ShownSetting]) {
        let shell = |source| (source == Source::LoginShell).then_some("the login shell's environment");
        let proxy = self.network.https_proxy.as_deref().or(self.network.http_proxy.as_deref()).unwrap_or_default();
        let proxy = network::without_password(proxy);
        for shown in overview.iter_mut().filter(|shown| shown.source == "default") {
            let (value, source) = match shown.key.as_str() {
                "network.proxy" => (proxy.clone().into(), shell(self.proxy)),
                "network.no_proxy" => {
                    let hosts = self.network.no_proxy.split(',').map(str::trim).filter(|host| !host.is_empty());
                    (hosts.collect(), shell(self.proxy))
                }
                "network.certificates" => {
                    let files = self.network.certificates.iter().map(|file| file.display().to_string());
                    (files.collect(), shell(self.certificates))
                }
                _ => continue,
            };
            if let Some(source) = source {
                (shown.value, shown.source) = (value, source.to_owned());
            }
        }
    }

    /// Applies the settings to every HTTP client that is built from now on, and logs them.
    pub fn install(self) {
        if let Some(source) = self.proxy.words() {
            let shown = |address: &Option<String>| address.as_deref().map(network::without_password);
            let (https, http) = (shown(&self.network.https_proxy), shown(&self.network.http_proxy));
            tracing::info!(?https, ?http, source, "proxies");
        }
        network::install(self.network);
    }
}

/// Removes unusable settings: a proxy of an unknown kind, or a certificate file that does not
/// exist.
fn usable(mut found: Network) -> Network {
    for proxy in [&mut found.https_proxy, &mut found.http_proxy] {
        if proxy.as_deref().is_some_and(|address| network::check_proxy(address).is_err()) {
            *proxy = None;
        }
    }
    found.certificates.retain(|place| place.exists());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn settings(proxy: &str) -> config::NetworkConfig {
        config::NetworkConfig { proxy: proxy.to_owned(), no_proxy: Vec::new(), certificates: Vec::new() }
    }

    #[test]
    fn the_configuration_wins_over_the_environment_and_that_over_the_login_shell() {
        let own = environment(&[("HTTPS_PROXY", "http://own:1")]);
        let shell = environment(&[("https_proxy", "http://shell:1"), ("NO_PROXY", "localhost")]);
        let nothing = environment(&[]);
        let of = |proxy, own| {
            let found = ResolvedNetwork::of(&settings(proxy), own, &shell);
            (found.network.https_proxy, found.proxy)
        };
        assert_eq!(of("http://mine:1", &own), (Some("http://mine:1".to_owned()), Source::Configuration));
        assert_eq!(of("", &own), (Some("http://own:1".to_owned()), Source::Own));
        assert_eq!(of("", &nothing), (Some("http://shell:1".to_owned()), Source::LoginShell));
        assert_eq!(of("off", &own), (None, Source::Configuration));
        assert_eq!(ResolvedNetwork::of(&settings(""), &nothing, &shell).network.no_proxy, "localhost");
        assert_eq!(ResolvedNetwork::of(&settings(""), &nothing, &nothing).proxy, Source::Nothing);
    }

    #[test]
    fn a_proxy_of_the_shell_that_cannot_be_used_is_passed_over() {
        let shell = environment(&[("ALL_PROXY", "gopher://x"), ("SSL_CERT_FILE", "/nowhere.pem")]);
        let found = ResolvedNetwork::of(&settings(""), &environment(&[]), &shell);
        assert_eq!((found.proxy, found.certificates), (Source::Nothing, Source::Nothing));
    }
}
