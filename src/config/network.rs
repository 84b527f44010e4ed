//! `[network]`: how the daemon reaches other machines.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Empty: whatever the environment says. `off`: none.
    pub proxy: String,
    pub no_proxy: Vec<String>,
    pub certificates: Vec<PathBuf>,
}

impl Network {
    /// The word for "no proxy, whatever the environment says".
    pub const OFF: &str = "off";

    pub(super) fn wrong(&self) -> Option<(&'static str, String)> {
        if let Some(file) = self.certificates.iter().find(|file| !file.is_absolute()) {
            return Some(("network.certificates", format!("`{}` is no absolute path", file.display())));
        }
        if self.proxy.is_empty() || self.proxy == Self::OFF {
            return None;
        }
        network::check_proxy(&self.proxy).err().map(|error| ("network.proxy", error.to_string()))
    }
}
