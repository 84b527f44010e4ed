//! `acpd models override`: writes facts about a model into the configuration file, or removes them.
//!
//! They override the provider's list and the bundled table. A fact that the configuration does not
//! allow is refused, and the file stays as it was.

use anyhow::{Context, bail, ensure};
use domain::{ModelId, similar_names};
use toml_edit::{DocumentMut, Item, Value};

use super::AvailableModels;
use super::config_file::{self, ConfigFile};
use crate::assemble::accounts::{self, ModelPattern, Providers};
use crate::commands::Ending;
use crate::config::Layers;
use crate::launch;
use crate::paths::Paths;

/// Returns whether a pattern names a model that is known without asking a provider.
pub(super) fn is_known_name(providers: &Providers, pattern: &str) -> bool {
    let pattern = ModelPattern::new(pattern);
    providers.known_names().iter().any(|name| pattern.matches(name))
}

/// Fails, with similar names, if a pattern names no model that a session may choose.
pub(super) fn expect_listed(known: &AvailableModels<'_>, pattern: &str) -> anyhow::Result<()> {
    let listed = ModelPattern::new(pattern);
    let ids: Vec<&str> = known.offered.iter().map(|offered| offered.info.id.as_str()).collect();
    if known.has(&ModelId::from(pattern)) || ids.iter().any(|id| listed.matches(id)) {
        return Ok(());
    }
    let names = known.providers.known_names();
    let near = similar_names::did_you_mean(pattern, ids.into_iter().chain(names.iter().map(String::as_str)));
    let hint = near.unwrap_or_else(|| "`acpd models list` lists the models".to_owned());
    bail!("there is no model `{pattern}`; {hint} (`--new` accepts a name that no list has yet)")
}

/// Writes the facts, each as `NAME=VALUE`. Without facts, removes those that are there.
pub(super) async fn run(places: &Paths, model: &str, facts: &[String]) -> anyhow::Result<Ending> {
    let file = ConfigFile::read(places)?;
    let unchanged = || format!("{} was not changed", file.path.display());
    let (text, done) = match facts {
        [] => (without(&file.text, model).with_context(unchanged)?, format!("{model}: the facts were removed")),
        facts => (with(&file.text, model, facts).with_context(unchanged)?, format!("{model}: {}", facts.join(", "))),
    };
    let layers = Layers::read(&places.config, launch::environment(), &[])?.with_file_text(text.clone());
    accounts::providers(places, &layers.check().with_context(unchanged)?).with_context(unchanged)?;
    let done = format!("{done}; written to {}", file.path.display());
    file.replace(places, &text, &done).await?;
    Ok(Ending::Done)
}

/// Returns the text of a configuration with these facts about a model.
fn with(text: &str, model: &str, facts: &[String]) -> anyhow::Result<String> {
    let mut document = parse(text)?;
    for fact in facts {
        let (name, value) =
            fact.split_once('=').with_context(|| format!("`{fact}` does not have the form FACT=VALUE"))?;
        let models = config_file::table(document.as_item_mut(), "models")?;
        let overrides = config_file::table(models, "overrides")?;
        let mut table = config_file::table(overrides, model)?;
        // A price is a separate table: `price.input`.
        let (tables, name) =
            name.trim().rsplit_once('.').map_or((None, name.trim()), |(table, name)| (Some(table), name));
        for name in tables.into_iter().flat_map(|names| names.split('.')) {
            table = config_file::table(table, name)?;
        }
        config_file::set(table, name, value_of(value.trim()))?;
    }
    Ok(document.to_string())
}

/// Returns the text of a configuration without facts about a model.
fn without(text: &str, model: &str) -> anyhow::Result<String> {
    let mut document = parse(text)?;
    let overrides = document.get_mut("models").and_then(|models| models.get_mut("overrides"));
    let removed = overrides.and_then(Item::as_table_like_mut).and_then(|overrides| overrides.remove(model));
    ensure!(removed.is_some(), "no facts about `{model}` are overridden");
    Ok(document.to_string())
}

fn parse(text: &str) -> anyhow::Result<DocumentMut> {
    text.parse().context("the file is not valid TOML")
}

/// Reads a value as TOML. One that is not valid, such as `responses`, is a string.
fn value_of(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(facts: &[&str]) -> Vec<String> {
        facts.iter().map(|fact| (*fact).to_owned()).collect()
    }

    #[test]
    fn only_the_facts_of_the_model_change_in_the_configuration() {
        let set = |text: &str, model: &str, given: &[&str]| with(text, model, &facts(given)).unwrap();
        assert_eq!(set("", "p/m", &["window=9000"]), "[models.overrides.\"p/m\"]\nwindow = 9000\n");
        let text = "# mine\n[models]\ndefault = \"p/m\" # yes\n\n[models.overrides.\"p/*\"]\nimages = true # why\n";
        assert_eq!(
            set(text, "p/*", &["images=false", "dialect=responses"]),
            text.replace("true", "false") + "dialect = \"responses\"\n"
        );
        let priced = set(text, "m", &["price.input=1.5", "price.output=2", "efforts=[\"low\", \"high\"]"]);
        let table: toml::Table = priced.parse().unwrap();
        let own = &table["models"]["overrides"]["m"];
        assert_eq!((own["price"]["input"].as_float(), own["efforts"][1].as_str()), (Some(1.5), Some("high")));
        assert!(priced.starts_with(text), "{priced}");
        let inline = "models = { default = \"p/m\" }\n";
        let table: toml::Table = set(inline, "m", &["window=1"]).parse().unwrap();
        assert_eq!(table["models"]["overrides"]["m"]["window"].as_integer(), Some(1));
    }

    #[test]
    fn facts_are_removed_together() {
        let text = "[models]\ndefault = \"p/m\"\n";
        let with_facts = with(text, "m", &facts(&["window=1", "price.input=2", "price.output=3"])).unwrap();
        assert_eq!(without(&with_facts, "m").unwrap(), text);
        assert!(without(text, "m").is_err());
    }

    #[test]
    fn an_invalid_fact_or_table_is_refused() {
        assert!(with("", "m", &facts(&["window"])).is_err());
        assert!(with("models = 3", "m", &facts(&["window=1"])).is_err());
        assert!(with("models.overrides.m = 3", "m", &facts(&["window=1"])).is_err());
        assert!(with("models = [", "m", &facts(&["window=1"])).is_err());
    }
}
