//! How the process reaches other machines: through which proxy, and which certificates it trusts
//! besides the system's.
//!
//! There is one setting per process, just as there is one environment per process. The program
//! installs it, and every HTTP client of `mcp`, `models` and `tools` is built with it. This crate
//! must not know where the setting comes from, nor what is sent. A process that installs nothing
//! uses its own environment, as other programs do.

mod current;
mod tls;
mod variables;

use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use reqwest::{Certificate, ClientBuilder, NoProxy, Proxy, Url};

pub use current::{current, install, wait_for};
pub use tls::prepare_tls;
pub use variables::{CERTIFICATES, NO_PROXY, PROXIES, is_network_variable};

/// Proxies and additional certificates.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// The proxy for `https` addresses.
    pub https_proxy: Option<String>,
    /// The proxy for `http` addresses.
    pub http_proxy: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas, in the form of `NO_PROXY`.
    pub no_proxy: String,
    /// PEM files, or folders of them, with certificates that are trusted besides the system's.
    pub certificates: Vec<PathBuf>,
}

/// Why a setting cannot be used. The text never contains a proxy's password, nor a key that was
/// given in place of an address.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("`{0}` is not the address of a proxy, such as http://proxy.example:3128 or socks5h://proxy.example:1080")]
    Proxy(String),
    #[error("cannot read the certificates in {}", .0.display())]
    Certificates(PathBuf, #[source] io::Error),
    #[error("{} contains no certificate in PEM form", .0.display())]
    NoCertificate(PathBuf),
}

impl Network {
    /// Configures a client builder with the proxies and certificates. It reads the certificate
    /// files, so it may block.
    ///
    /// # Errors
    ///
    /// If a proxy is not an address, or if certificates cannot be read.
    pub fn apply(&self, builder: ClientBuilder) -> Result<ClientBuilder, NetworkError> {
        let mut builder = builder.no_proxy().tls_certs_merge(self.certificates()?);
        let https = self.https_proxy.as_deref().map(|address| (address, Proxy::https(address)));
        let http = self.http_proxy.as_deref().map(|address| (address, Proxy::http(address)));
        for (address, proxy) in https.into_iter().chain(http) {
            let proxy = proxy.map_err(|_| NetworkError::Proxy(without_password(address)))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&self.no_proxy)));
        }
        Ok(builder)
    }

    /// Reads the certificates from all files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or holds no certificate.
    pub fn certificates(&self) -> Result<Vec<Certificate>, NetworkError> {
        let mut all = Vec::new();
        for place in &self.certificates {
            let failed = |error| NetworkError::Certificates(place.clone(), error);
            if place.is_dir() {
                // A folder may also hold other files, such as a README.
                let files = fs::read_dir(place).map_err(failed)?.flatten().map(|entry| entry.path());
                all.extend(files.filter_map(|file| read(&file).ok()).flatten());
            } else {
                let found = read(place).map_err(failed)?;
                if found.is_empty() {
                    return Err(NetworkError::NoCertificate(place.clone()));
                }
                all.extend(found);
            }
        }
        Ok(all)
    }
}

fn read(file: &Path) -> io::Result<Vec<Certificate>> {
    Ok(Certificate::from_pem_bundle(&fs::read(file)?).unwrap_or_default())
}

/// The schemes of proxy addresses. With `socks5h` and `socks4a` the proxy resolves host names; with
/// the others acpd does.
const PROXY_SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// Checks whether a text can be the address of a proxy.
///
/// # Errors
///
/// If it cannot.
pub fn check_proxy(address: &str) -> Result<(), NetworkError> {
    let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let is_proxy = |url: &Url| PROXY_SCHEMES.contains(&url.scheme()) && url.has_host();
    match Url::parse(&whole).ok().filter(is_proxy).filter(|_| !may_be_a_key(address)) {
        Some(_) => Ok(()),
        None => Err(NetworkError::Proxy(without_password(address))),
    }
}

/// Returns whether a text without scheme and port looks like a key rather than the name of a host.
fn may_be_a_key(address: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-".contains(letter);
    let is_host = address == "localhost" || (address.contains('.') && address.chars().all(is_plain));
    !address.is_empty() && !address.contains([':', '/', '@', '[']) && !is_host
}

/// Returns a proxy's address without its user and password, fit for display. A text that looks like
/// a key is hidden.
pub fn without_password(address: &str) -> String {
    if may_be_a_key(address) {
        return "[hidden]".to_owned();
    }
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |address: &Option<String>| address.as_deref().map(without_password);
        f.debug_struct("Network")
            .field("https_proxy", &shown(&self.https_proxy))
            .field("http_proxy", &shown(&self.http_proxy))
            .field("no_proxy", &self.no_proxy)
            .field("certificates", &self.certificates)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_proxy_is_never_shown() {
        let secret = "http://me:hu@sh@proxy.example:3128";
        let network = Network { https_proxy: Some(secret.to_owned()), ..Network::default() };
        assert!(!format!("{network:?}").contains("hu"));
        assert_eq!(without_password(secret), "http://proxy.example:3128");
        assert_eq!(without_password("proxy:3128"), "proxy:3128");
        for key in ["sk-ant-api03-hush", "AIzaSyHush.x_y", "eyJhbGciOi.hush"] {
            let error = check_proxy(key).unwrap_err().to_string();
            assert!(error.starts_with("`[hidden]` is not the address of a proxy"), "{error}");
            assert_eq!(without_password(key), "[hidden]");
        }
        for host in ["localhost", "proxy.example", "10.0.0.1", "PROXY:3128", "http://PROXY", "[::1]:3128"] {
            assert_eq!(without_password(host), host);
        }
        let error = check_proxy("gopher://me:hush@proxy").unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }

    #[test]
    fn a_proxy_must_be_one() {
        for good in
            ["http://proxy:3128", "https://proxy", "proxy:3128", "http://me:pass@proxy:1", "socks5h://proxy:1080"]
        {
            check_proxy(good).unwrap();
        }
        for bad in ["", "ftp://proxy", "http://"] {
            assert!(check_proxy(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn certificates_are_read_from_files_and_folders_and_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let pem = rcgen::generate_simple_self_signed(["x.example".to_owned()]).unwrap().cert.pem();
        let file = folder.path().join("one.pem");
        fs::write(&file, pem).unwrap();
        let of = |place: &Path| Network { certificates: vec![place.to_owned()], ..Network::default() }.certificates();
        assert_eq!(of(&file).unwrap().len(), 1);
        let readme = folder.path().join("README");
        fs::write(&readme, "no certificate").unwrap();
        assert_eq!(of(folder.path()).unwrap().len(), 1);
        assert!(matches!(of(&readme), Err(NetworkError::NoCertificate(_))));
        assert!(matches!(of(Path::new("/nowhere.pem")), Err(NetworkError::Certificates(..))));
    }
}
