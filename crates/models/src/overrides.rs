//! Facts about models that the configuration sets under `models.overrides`, for all providers.

use std::collections::BTreeMap;

use crate::config::{ModelApi, ModelOverride};
use crate::providers::ConfigError;
use crate::spec::ModelFacts;

/// The overrides, by the pattern that names the models.
#[derive(Debug, Default)]
pub(crate) struct Overrides(Vec<(ModelPattern, ModelFacts)>);

/// The name of an entry of `models.overrides`: a model's id, its name alone, or a prefix of either
/// with a `*` at its end.
#[derive(Debug)]
pub struct ModelPattern {
    text: String,
    is_prefix: bool,
}

impl ModelPattern {
    pub fn new(name: &str) -> Self {
        let prefix = name.strip_suffix('*');
        Self { text: prefix.unwrap_or(name).to_owned(), is_prefix: prefix.is_some() }
    }

    /// Returns whether it names a model, which is given by its id or by its name alone.
    pub fn matches(&self, model: &str) -> bool {
        let fits = |name: &str| if self.is_prefix { name.starts_with(&self.text) } else { name == self.text };
        fits(model) || model.split_once('/').is_some_and(|(_, name)| fits(name))
    }
}

impl Overrides {
    pub(crate) fn new(config: &BTreeMap<String, ModelOverride>) -> Result<Self, ConfigError> {
        let mut overrides = Vec::new();
        for (name, model) in config {
            check(&format!("overrides.{name}"), model.dialect)?;
            overrides.push((ModelPattern::new(name), model.facts()));
        }
        // The most specific pattern is tried first.
        overrides.sort_by_key(|(pattern, _)| std::cmp::Reverse((!pattern.is_prefix, pattern.text.len())));
        Ok(Self(overrides))
    }

    /// Returns the facts of the most specific override for a model, by its id or by its name alone.
    pub(crate) fn find(&self, provider: &str, model: &str) -> ModelFacts {
        let id = format!("{provider}/{model}");
        let found = self.0.iter().find(|(pattern, _)| pattern.matches(&id));
        found.map(|(_, facts)| facts.clone()).unwrap_or_default()
    }
}

/// Checks that a configured dialect is one that can be chosen.
pub(crate) fn check(setting: &str, dialect: Option<ModelApi>) -> Result<(), ConfigError> {
    match dialect {
        None | Some(ModelApi::Chat | ModelApi::Responses) => Ok(()),
        Some(ModelApi::Anthropic | ModelApi::Gemini) => {
            let reason = "`dialect` is `chat` or `responses`; for others, set the provider's `kind`".to_owned();
            Err(ConfigError { setting: setting.to_owned(), reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(window: u64) -> ModelOverride {
        ModelOverride { window: Some(window), ..ModelOverride::default() }
    }

    #[test]
    fn the_most_specific_override_wins() {
        let config = [
            ("*".to_owned(), model(1)),
            ("gpt-*".to_owned(), model(2)),
            ("gpt-5".to_owned(), model(3)),
            ("router/gpt-5".to_owned(), model(4)),
        ];
        let overrides = Overrides::new(&config.into()).unwrap();
        for (provider, name, window) in
            [("router", "gpt-5", 4), ("openai", "gpt-5", 3), ("openai", "gpt-5-mini", 2), ("ollama", "llama3", 1)]
        {
            assert_eq!(overrides.find(provider, name).window, Some(window), "{provider}/{name}");
        }
        assert_eq!(Overrides::default().find("p", "m"), ModelFacts::default());
    }

    #[test]
    fn an_impossible_dialect_is_refused() {
        let gemini = ModelOverride { dialect: Some(ModelApi::Gemini), ..model(1) };
        let error = Overrides::new(&[("m".to_owned(), gemini)].into()).unwrap_err();
        assert!(error.to_string().starts_with("`overrides.m`: `dialect` is `chat` or `responses`"), "{error}");
    }
}
