//! `[network]`: how the daemon reaches other machines.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// The proxy: empty for the environment's proxy, `off` for none, or an address.
    pub proxy: String,
    pub no_proxy: Vec<String>,
    pub certificates: Vec<PathBuf>,
}

impl NetworkConfig {
    /// The value that turns the proxy off, even if the environment sets one.
    pub const OFF: &str = "off";

    pub(super) fn invalid_value(&self) -> Option<(&'static str, String)> {
        if let Some(file) = self.certificates.iter().find(|file| !file.is_absolute()) {
            return Some(("network.certificates", format!("`{}` must be an absolute path", file.display())));
        }
        if self.proxy.is_empty() || self.proxy == Self::OFF {
            return None;
        }
        network::check_proxy(&self.proxy).err().map(|error| ("network.proxy", error.to_string()))
    }
}
