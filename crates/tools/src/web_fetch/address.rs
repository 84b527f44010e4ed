//! Decides which addresses may be fetched from: those of the public internet, and those that the
//! operator allows.
//!
//! The resolver checks the addresses. The client connects to exactly those that it returns, so a
//! name that resolves differently the second time gains nothing. Addresses in a URL are never
//! resolved, and are checked before each request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::Deserialize;

use super::WebSettings;

/// A host or network that may be fetched from although it is not public. It is parsed from text
/// such as `wiki.internal`, `10.1.2.3` or `10.0.0.0/8`. A host name allows all its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PrivateTarget {
    Host(String),
    Network(IpNet),
}

/// The error for a text that is neither a host nor a network.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is neither a host nor an address nor a network")]
pub struct InvalidTarget(String);

impl TryFrom<String> for PrivateTarget {
    type Error = InvalidTarget;

    fn try_from(text: String) -> Result<Self, InvalidTarget> {
        let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
        if let Some(network) = bare.parse().ok().or_else(|| bare.parse::<IpAddr>().ok().map(IpNet::from)) {
            return Ok(Self::Network(network));
        }
        let is_host = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
        if bare.is_empty() || !bare.chars().all(is_host) {
            return Err(InvalidTarget(text));
        }
        Ok(Self::Host(bare.to_ascii_lowercase()))
    }
}

/// A host that may not be fetched from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{host} {}is {what}; web_fetch reaches public addresses only, unless the user allows this one in acpd's \
     configuration (web.allow_private)",
    Address(.address, .host)
)]
pub(super) struct Forbidden {
    host: String,
    address: IpAddr,
    what: &'static str,
}

/// Shows the address, unless the host is that address.
struct Address<'a>(&'a IpAddr, &'a str);

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.parse() == Ok(*self.0) { Ok(()) } else { write!(f, "({}) ", self.0) }
    }
}

pub(super) fn check(host: &str, address: IpAddr, web: &WebSettings) -> Result<(), Forbidden> {
    let Some(what) = not_public(address) else { return Ok(()) };
    let plain = address.to_canonical();
    let allowed = web.allow_private.iter().any(|private| match private {
        PrivateTarget::Host(name) => name == host,
        PrivateTarget::Network(network) => network.contains(&address) || network.contains(&plain),
    });
    if allowed { Ok(()) } else { Err(Forbidden { host: host.to_owned(), address, what }) }
}

/// Resolves names, and refuses addresses that may not be fetched from.
pub(super) struct CheckingResolver(pub(super) Arc<WebSettings>);

impl Resolve for CheckingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let web = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let mut allowed: Vec<SocketAddr> = Vec::new();
            let mut forbidden = None;
            // The connector fills in the port.
            for address in tokio::net::lookup_host((host, 0)).await? {
                match check(host, address.ip(), &web) {
                    Ok(()) => allowed.push(address),
                    Err(reason) => forbidden = Some(reason),
                }
            }
            match forbidden {
                Some(reason) if allowed.is_empty() => Err(reason.into()),
                Some(_) | None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// Returns the kind of an address that is not part of the public internet (IANA's special-purpose
/// registries).
fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0, _, _) => Some("an unspecified address"),
        (127, _, _) => Some("a loopback address"),
        (10, _, _) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Some("a private address"),
        (169, 254, _) => Some("a link-local address"),
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Some("an address for documentation"),
        (224..=239, _, _) => Some("a multicast address"),
        (192, 0, 0) | (198, 18..=19, _) | (240..=255, _, _) => Some("a reserved address"),
        _ => None,
    }
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = |high: u16, low: u16| not_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0, 0, 0, 0, 0, 0xffff, _, _] => Some("an IPv4 address in disguise"),
        // An address of a gateway to IPv4 (NAT64, 6to4) counts as the IPv4 address in it.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        [0x2001, 0..=0x1ff, ..] => Some("a reserved address"),
        [0x2000..=0x3fff, ..] => None,
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        let public = ["1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "64:ff9b::101:101"];
        for address in public {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
        let others = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:1.1.1.1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "100::1",
            "4000::1",
        ];
        for address in others {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn hosts_and_networks_are_allowed_by_name_and_by_number() {
        let allow = ["10.0.0.0/8", "127.0.0.1", "Wiki.Internal", "fd00::/8", "[::1]"];
        let web = WebSettings {
            allow_private: allow.map(|text| PrivateTarget::try_from(text.to_owned()).unwrap()).to_vec(),
            ..Default::default()
        };
        let verdict = |host: &str, address: &str| check(host, address.parse().unwrap(), &web).is_ok();
        assert!(
            verdict("10.1.2.3", "10.1.2.3") && verdict("x.example", "10.1.2.3") && verdict("x.example", "127.0.0.1")
        );
        assert!(
            verdict("wiki.internal", "192.168.1.1") && verdict("x.example", "fd00::1") && verdict("x.example", "::1")
        );
        assert!(verdict("x.example", "::ffff:10.0.0.1"));
        assert!(!verdict("x.example", "192.168.1.1") && !verdict("x.example", "127.0.0.2"));
        assert!(!verdict("wiki.internal.example", "192.168.1.1"));
    }

    #[test]
    fn the_reason_names_host_address_and_setting() {
        let reason = |host: &str, address: &str| {
            check(host, address.parse().unwrap(), &WebSettings::default()).unwrap_err().to_string()
        };
        assert!(reason("a.example", "127.0.0.1").starts_with("a.example (127.0.0.1) is a loopback address; "));
        assert!(reason("10.0.0.1", "10.0.0.1").starts_with("10.0.0.1 is a private address; "));
    }
}
