//! The variables that may hold keys, described for a form.

use domain::account::KeyVariable;

use super::Providers;

/// The pages where users get keys, by the prefix of the provider's address.
const PAGES: [(&str, &str); 5] = [
    ("https://api.anthropic.com", "https://platform.claude.com/settings/keys"),
    ("https://api.openai.com", "https://platform.openai.com/api-keys"),
    ("https://generativelanguage.googleapis.com", "https://aistudio.google.com/apikey"),
    ("https://models.github.ai", "https://github.com/settings/tokens"),
    ("https://openrouter.ai", "https://openrouter.ai/settings/keys"),
];

impl Providers {
    /// Describes the variables of [`Providers::key_variables`] for users.
    pub fn described_keys(&self) -> Vec<KeyVariable> {
        let mut described: Vec<KeyVariable> = Vec::new();
        for provider in &self.providers {
            let service = &provider.service;
            for name in service.keys.variable_names() {
                if described.iter().any(|known| known.name == name) {
                    continue;
                }
                let page = PAGES.iter().find(|(address, _)| service.address.own.starts_with(address));
                let label = format!("Key for the provider {}", service.name);
                described.push(KeyVariable::new(name, &label, page.map(|(_, page)| *page)));
            }
        }
        described.sort_by(|one, other| one.name.cmp(&other.name));
        described
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{ModelsConfig, Providers, Rehearsal};

    #[test]
    fn every_key_variable_has_a_label_and_known_providers_a_page() {
        let providers = Providers::new(&ModelsConfig::default(), None, vec![Arc::new(Rehearsal::new())]).unwrap();
        let described = providers.described_keys();
        let names: Vec<String> = described.iter().map(|variable| variable.name.clone()).collect();
        assert_eq!(names, providers.key_variables());
        let anthropic = described.iter().find(|variable| variable.name == "ANTHROPIC_API_KEY").unwrap();
        assert_eq!(anthropic.label, "Key for the provider anthropic");
        assert_eq!(anthropic.link.as_deref(), Some("https://platform.claude.com/settings/keys"));
    }
}
