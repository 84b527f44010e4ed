//! `[protocol]`: what acpd sends to clients beyond the stable protocol.

use domain::{ClientExclusion, Extra, ExtraSet, ExtrasPolicy};
use serde::{Deserialize, Deserializer, de};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolConfig {
    /// The versions of the protocol that clients may speak, lowest first.
    #[serde(deserialize_with = "versions")]
    pub versions: Vec<u16>,
    pub strict: bool,
    pub extras: ProtocolExtras,
    #[serde(default)]
    pub clients: Vec<ClientRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolExtras {
    pub models: bool,
    pub usage: bool,
    pub user_message_id: bool,
    pub usage_update: bool,
    pub fork: bool,
}

/// The extras that clients with a certain name and version do not receive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientRule {
    pub name: String,
    pub from: Option<String>,
    pub below: Option<String>,
    #[serde(deserialize_with = "extras")]
    pub without: Vec<Extra>,
}

impl ProtocolConfig {
    pub fn policy(&self) -> ExtrasPolicy {
        let ProtocolExtras { models, usage, user_message_id, usage_update, fork } = &self.extras;
        let keys = [
            (Extra::Models, models),
            (Extra::Usage, usage),
            (Extra::UserMessageId, user_message_id),
            (Extra::UsageUpdate, usage_update),
            (Extra::Fork, fork),
        ];
        let left_out = keys.into_iter().filter(|(_, is_sent)| self.strict || !**is_sent);
        let excluded = self.clients.iter().map(|rule| ClientExclusion {
            name: rule.name.clone(),
            from: rule.from.clone(),
            below: rule.below.clone(),
            without: rule.without.clone(),
        });
        ExtrasPolicy {
            offered: left_out.fold(ExtraSet::ALL, |offered, (extra, _)| offered.without(extra)),
            excluded: excluded.collect(),
        }
    }
}

fn versions<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<u16>, D::Error> {
    let mut versions = Vec::<u16>::deserialize(value)?;
    versions.sort_unstable();
    versions.dedup();
    match versions.iter().find(|version| !(1..=2).contains(*version)) {
        Some(version) => Err(de::Error::custom(format!("unknown version {version}, expected 1 or 2"))),
        None if versions.is_empty() => Err(de::Error::custom("expected at least one version, 1 or 2")),
        None => Ok(versions),
    }
}

fn extras<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<Extra>, D::Error> {
    let names = Vec::<String>::deserialize(value)?;
    let known = Extra::ALL.map(Extra::name).join(", ");
    let unknown = |name: &str| de::Error::custom(format!("unknown value `{name}`, expected {known}"));
    names.iter().map(|name| Extra::from_name(name).ok_or_else(|| unknown(name))).collect()
}
