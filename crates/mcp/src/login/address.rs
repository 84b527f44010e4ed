//! Decides which addresses a login may use. Pure.

use reqwest::Url;
use url::Host;

/// Reads the address of a server. Tokens are sent to it, so it needs TLS unless it is on this
/// machine.
pub(crate) fn server(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (url.has_host() && may_use(&url, &url)).then_some(url)
}

/// Returns whether a login to this server may use an address that the server names. A remote server
/// must not lead acpd to services on this machine.
pub(crate) fn may_use(address: &Url, server: &Url) -> bool {
    match address.scheme() {
        "https" => !is_loopback(address) || is_loopback(server),
        "http" => is_loopback(address) && is_loopback(server),
        _ => false,
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    }
}

/// Returns an address that is fit for display, or None if it may contain a key.
pub(crate) fn shown(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.query().is_none() && url.username().is_empty() && url.password().is_none();
    let fits = is_plain && url.fragment().is_none() && !text.contains(['`', '\'', '"', ' ']);
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_need_tls_or_this_machine() {
        for good in [
            "https://a.example/mcp",
            "http://127.0.0.1:8000/mcp",
            "http://127.3.2.1/",
            "http://localhost/x",
            "http://[::1]:9/mcp",
            "http://mcp.localhost/",
        ] {
            assert!(server(good).is_some(), "{good}");
        }
        for bad in [
            "http://a.example/mcp",
            "http://10.0.0.1/",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "a.example",
            "",
        ] {
            assert!(server(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_remote_server_cannot_lead_a_login_to_this_machine() {
        let url = |text: &str| Url::parse(text).unwrap();
        let remote = url("https://a.example/mcp");
        let local = url("http://127.0.0.1:1/mcp");
        assert!(may_use(&url("https://login.example/token"), &remote));
        assert!(may_use(&url("http://127.0.0.1:2/token"), &local) && may_use(&url("https://login.example/"), &local));
        for bad in
            ["http://127.0.0.1/token", "https://localhost/token", "https://[::ffff:127.0.0.1]/", "http://b.example/"]
        {
            assert!(!may_use(&url(bad), &remote), "{bad}");
        }
        assert!(!may_use(&url("http://b.example/"), &local));
    }

    #[test]
    fn an_address_with_a_possible_key_is_not_shown() {
        assert_eq!(shown("https://a.example/mcp").as_deref(), Some("https://a.example/mcp"));
        for hidden in ["https://a.example/?key=1", "https://me:pass@a.example/", "https://a.example/#x", "x`y"] {
            assert_eq!(shown(hidden), None, "{hidden}");
        }
    }
}
