//! Extras: additions to the stable protocol, and the clients that do not get them.
//!
//! The extras are on by default. The configuration can turn off single ones or all of them. Clients
//! that are known to fail on unknown fields or updates are excluded by name and version.

use crate::ClientInfo;

/// An addition to the stable protocol that not every client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// `models` in responses that open a session.
    Models,
    /// `usage` in the response to a prompt.
    Usage,
    /// `userMessageId` in the response to a prompt.
    UserMessageId,
    /// The update `usage_update`.
    UsageUpdate,
    /// The capability `session.fork`.
    Fork,
}

impl Extra {
    pub const ALL: [Extra; 5] = [Extra::Models, Extra::Usage, Extra::UserMessageId, Extra::UsageUpdate, Extra::Fork];

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Extra::Models => "models",
            Extra::Usage => "usage",
            Extra::UserMessageId => "user_message_id",
            Extra::UsageUpdate => "usage_update",
            Extra::Fork => "fork",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|extra| extra.name() == name)
    }
}

/// A set of extras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraSet([bool; Extra::ALL.len()]);

impl ExtraSet {
    pub const ALL: ExtraSet = ExtraSet([true; Extra::ALL.len()]);
    pub const NONE: ExtraSet = ExtraSet([false; Extra::ALL.len()]);

    pub fn has(self, extra: Extra) -> bool {
        self.0[extra as usize]
    }

    #[must_use]
    pub fn without(mut self, extra: Extra) -> Self {
        self.0[extra as usize] = false;
        self
    }
}

/// Clients with one name and a range of versions, and the extras that they do not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientExclusion {
    /// The name in `clientInfo`, in any case. An empty name matches clients that do not send one.
    pub name: String,
    /// The first version that this applies to; None for all versions before `below`.
    pub from: Option<String>,
    /// The first version that this no longer applies to.
    pub below: Option<String>,
    pub without: Vec<Extra>,
}

/// The clients that are known to fail, as (name, below, without). docs/protocol.md has the same
/// table.
const KNOWN: [(&str, &str, &[Extra]); 2] = [
    // Closes the connection on an unknown update.
    ("sacp", "12", &Extra::ALL),
    // Prints an error for each unknown update.
    ("@agentclientprotocol/sdk", "0.13", &[Extra::UsageUpdate]),
];

/// Decides which extras each client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtrasPolicy {
    pub offered: ExtraSet,
    /// Exclusions in addition to `KNOWN`.
    pub excluded: Vec<ClientExclusion>,
}

impl Default for ExtrasPolicy {
    fn default() -> Self {
        Self { offered: ExtraSet::ALL, excluded: Vec::new() }
    }
}

impl ExtrasPolicy {
    pub fn of(&self, client: &ClientInfo) -> ExtraSet {
        let known = KNOWN.iter().filter(|(name, below, _)| is_about(client, name, None, Some(below)));
        let known = known.flat_map(|(_, _, without)| without.iter().copied());
        let configured = self
            .excluded
            .iter()
            .filter(|excluded| is_about(client, &excluded.name, excluded.from.as_deref(), excluded.below.as_deref()))
            .flat_map(|excluded| excluded.without.iter().copied());
        known.chain(configured).fold(self.offered, ExtraSet::without)
    }
}

/// Whether the client has this name and a version in the range. A client without a version matches
/// every range.
fn is_about(client: &ClientInfo, name: &str, from: Option<&str>, below: Option<&str>) -> bool {
    let version = numbers(&client.version);
    let is_unknown = client.version.is_empty();
    client.name.eq_ignore_ascii_case(name)
        && (is_unknown || from.is_none_or(|from| numbers(from) <= version))
        && (is_unknown || below.is_none_or(|below| version < numbers(below)))
}

/// Parses the numbers of a version such as `v1.2.3-beta`. Missing numbers are zero.
fn numbers(version: &str) -> [u64; 4] {
    let mut numbers = [0; 4];
    let parts = version.trim_start_matches(['v', 'V']).split('.');
    for (number, part) in numbers.iter_mut().zip(parts) {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        *number = part[..end].parse().unwrap_or(0);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, version: &str) -> ClientInfo {
        ClientInfo { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn clients_known_to_fail_are_matched_by_name_and_version() {
        let policy = ExtrasPolicy::default();
        let quiet = ExtraSet::ALL.without(Extra::UsageUpdate);
        for (name, version, extras) in [
            ("sacp", "11.0.0", ExtraSet::NONE),
            ("SACP", "11.9-alpha.1", ExtraSet::NONE),
            ("sacp", "", ExtraSet::NONE),
            ("sacp", "12.0.0", ExtraSet::ALL),
            ("@agentclientprotocol/sdk", "0.12.3", quiet),
            ("@agentclientprotocol/sdk", "0.13", ExtraSet::ALL),
            ("zed", "0.1", ExtraSet::ALL),
            ("", "", ExtraSet::ALL),
        ] {
            assert_eq!(policy.of(&client(name, version)), extras, "{name} {version}");
        }
    }

    #[test]
    fn the_configuration_can_exclude_clients_and_turn_extras_off_for_all() {
        let excluded = |name: &str, from: Option<&str>, below: Option<&str>| ClientExclusion {
            name: name.to_owned(),
            from: from.map(str::to_owned),
            below: below.map(str::to_owned),
            without: vec![Extra::Models, Extra::Fork],
        };
        let excluded = vec![excluded("ed", Some("v1.2"), Some("2")), excluded("", None, None)];
        let policy = ExtrasPolicy { offered: ExtraSet::ALL.without(Extra::Usage), excluded };
        let (most, least) = (policy.offered, policy.offered.without(Extra::Models).without(Extra::Fork));
        let of = |name, version| policy.of(&client(name, version));
        assert_eq!([of("ed", "1.1.9"), of("ed", "1.2"), of("ed", "1.10"), of("ed", "2.0")], [most, least, least, most]);
        assert_eq!([of("", ""), of("other", "1.5")], [least, most]);
    }

    #[test]
    fn every_extra_has_a_name() {
        assert!(Extra::ALL.into_iter().all(|extra| Extra::from_name(extra.name()) == Some(extra)));
        assert_eq!(Extra::from_name("nonsense"), None);
    }
}
