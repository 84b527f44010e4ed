//! Reads the proxy and the certificates from the environment variables that other programs use,
//! too.

use std::path::PathBuf;

use crate::Network;

/// The proxy variables, in lookup order. Each may also be in lower case.
pub const PROXIES: [&str; 3] = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];

/// Hosts that are reached without a proxy.
pub const NO_PROXY: &str = "NO_PROXY";

/// A file and a folder of certificates.
pub const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Whether a variable decides how a program reaches other machines.
pub fn is_network_variable(name: &str) -> bool {
    CERTIFICATES.contains(&name) || name.to_ascii_lowercase().ends_with("_proxy")
}

impl Network {
    /// Reads the settings from an environment. `variable` looks up a name.
    pub fn of_variables<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        let get = |name: &str| {
            let named = variable(name).or_else(|| variable(&name.to_ascii_lowercase()));
            named.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let [https, http, all] = PROXIES.map(get);
        Self {
            https_proxy: https.or_else(|| all.clone()),
            http_proxy: http.or(all),
            no_proxy: get(NO_PROXY).unwrap_or_default(),
            certificates: CERTIFICATES.into_iter().filter_map(get).map(PathBuf::from).collect(),
        }
    }

    pub fn has_proxy(&self) -> bool {
        self.https_proxy.is_some() || self.http_proxy.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&'static str, &'static str)]) -> Network {
        Network::of_variables(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
    }

    #[test]
    fn proxy_variables_are_read_in_either_case_with_all_proxy_as_fallback() {
        let found = of(&[("https_proxy", "http://a:1"), ("ALL_PROXY", "http://b:1"), ("no_proxy", "localhost,.corp")]);
        assert_eq!(found.https_proxy.as_deref(), Some("http://a:1"));
        assert_eq!(found.http_proxy.as_deref(), Some("http://b:1"));
        assert_eq!(found.no_proxy, "localhost,.corp");
        assert!(!of(&[("HTTPS_PROXY", " ")]).has_proxy());
    }

    #[test]
    fn every_variable_that_redirects_traffic_is_known() {
        for name in
            ["HTTPS_PROXY", "https_proxy", "All_Proxy", "NO_PROXY", "FTP_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"]
        {
            assert!(is_network_variable(name), "{name}");
        }
        assert!(!is_network_variable("PROXY_COMMAND"));
    }
}
