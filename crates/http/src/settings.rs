//! The section `[http]` of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// The address to listen on. `None` turns HTTP off.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    #[serde(deserialize_with = "file")]
    pub token_file: Option<PathBuf>,
    pub hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    #[serde(deserialize_with = "file")]
    pub tls_cert: Option<PathBuf>,
    #[serde(deserialize_with = "file")]
    pub tls_key: Option<PathBuf>,
    pub detach_seconds: u64,
}

impl HttpSettings {
    pub(crate) fn detach_after(&self) -> Duration {
        Duration::from_secs(self.detach_seconds)
    }

    /// Checks that the keys fit together. The error names the wrong key and the reason.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => return Err(("http.tls_cert", "needs http.tls_key, too".to_owned())),
            (None, Some(_)) => return Err(("http.tls_key", "needs http.tls_cert, too".to_owned())),
            (Some(_), Some(_)) => return Ok(()),
            (None, None) => {}
        }
        match self.listen {
            Some(address) if !address.ip().is_loopback() => Err((
                "http.listen",
                format!(
                    "{address} can be reached from other machines, which needs TLS: set http.tls_cert and http.tls_key"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<SocketAddr>, D::Error> {
    let given = String::deserialize(value)?;
    if given.is_empty() {
        return Ok(None);
    }
    let wrong = || de::Error::custom(format!("`{given}` is not an address and port such as 127.0.0.1:7341"));
    given.parse().map(Some).map_err(|_| wrong())
}

fn file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<PathBuf>, D::Error> {
    let given = String::deserialize(value)?;
    Ok((!given.is_empty()).then(|| given.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_beyond_loopback_needs_tls() {
        let listening =
            |listen: &str| HttpSettings { listen: Some(listen.parse().unwrap()), ..HttpSettings::default() };
        for here in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert_eq!(listening(here).check(), Ok(()), "{here}");
        }
        for beyond in ["0.0.0.0:1", "[::]:1", "192.168.0.1:1"] {
            assert_eq!(listening(beyond).check().unwrap_err().0, "http.listen", "{beyond}");
            let file = Some(PathBuf::from("x"));
            let secure = HttpSettings { tls_cert: file.clone(), tls_key: file.clone(), ..listening(beyond) };
            assert_eq!(secure.check(), Ok(()), "{beyond}");
            assert_eq!(HttpSettings { tls_cert: file, ..listening(beyond) }.check().unwrap_err().0, "http.tls_cert");
        }
    }
}
