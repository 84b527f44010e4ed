//! `acpd models default`: shows the model of new sessions, or writes it into the configuration
//! file.
//!
//! Comments and layout of the file are preserved. A running daemon is asked to reload it.

#![allow(clippy::print_stdout, reason = "the default is printed")]

use anyhow::{Context, bail};
use domain::ModelId;
use domain::model::Catalogue;
use terminal::picker::{Picker, PickerItem};
use toml_edit::{DocumentMut, Item, Table, Value};

use super::AvailableModels;
use super::config_file::{self, ConfigFile};
use crate::commands::{Ending, ask};
use crate::paths::Paths;

/// Sets the default if a model is given, and shows it otherwise. `configured` is the current
/// setting.
pub(super) async fn run(
    places: &Paths,
    known: &AvailableModels<'_>,
    model: Option<&str>,
    configured: Option<&str>,
) -> anyhow::Result<Ending> {
    let current = match configured {
        Some(configured) => configured.to_owned(),
        None => known.providers.default_model(known.environment).to_string(),
    };
    let chosen = match model {
        Some(model) => model.to_owned(),
        None if !ask::can_choose() => {
            println!("{current}");
            return Ok(Ending::Done);
        }
        None => match choose(known, &current).await? {
            Some(chosen) => chosen,
            None => return Ok(Ending::Cancelled),
        },
    };
    if !known.has(&ModelId::from(chosen.as_str())) {
        return Err(known.unknown(&chosen));
    }
    set(places, Some(&chosen)).await
}

/// Lets the user choose from the models on offer.
async fn choose(known: &AvailableModels<'_>, current: &str) -> anyhow::Result<Option<String>> {
    let ids: Vec<&str> = known.offered.iter().map(|offered| offered.info.id.as_str()).collect();
    if ids.is_empty() {
        bail!("no model can be used; `acpd login` adds a provider");
    }
    let item = |id: &&str| {
        let detail = if *id == current { "the default" } else { "" };
        PickerItem { label: (*id).to_owned(), detail: detail.to_owned() }
    };
    let picker = Picker::new("The model of new sessions", ids.iter().map(item).collect());
    Ok(ask::choose(picker).await?.map(|at| ids[at].to_owned()))
}

/// Writes the default into the file, or removes it, and has a running daemon reload the file.
pub(super) async fn set(places: &Paths, model: Option<&str>) -> anyhow::Result<Ending> {
    let file = ConfigFile::read(places)?;
    let after = with_default(&file.text, model).with_context(|| format!("{} was not changed", file.path.display()))?;
    let done = match model {
        Some(model) => format!("new sessions use {model}; written to {}", file.path.display()),
        None => {
            format!("no default is set in {}; new sessions use the first model that can be used", file.path.display())
        }
    };
    file.replace(places, &after, &done).await?;
    Ok(Ending::Done)
}

/// Returns the text of a configuration with another `models.default`, or without one.
fn with_default(text: &str, model: Option<&str>) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("the file is not valid TOML")?;
    let Some(model) = model else {
        if let Some(models) = document.get_mut("models").and_then(Item::as_table_like_mut) {
            models.remove("default");
        }
        return Ok(document.to_string());
    };
    let models = document.entry("models").or_insert_with(|| Item::Table(Table::new()));
    config_file::set(models, "default", Value::from(model))?;
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_changes_in_the_configuration() {
        let set = |text: &str| with_default(text, Some("p/m")).unwrap();
        assert_eq!(set(""), "[models]\ndefault = \"p/m\"\n");
        assert_eq!(
            set("# mine\n[log]\nfilter = \"info\" # yes\n"),
            "# mine\n[log]\nfilter = \"info\" # yes\n\n[models]\ndefault = \"p/m\"\n"
        );
        let full =
            "# top\n[models] # here\n# why\ndefault   =  \"old\"  # a comment\n\n[models.local]\nprobe = false\n";
        assert_eq!(set(full), full.replace("old", "p/m"));
        assert_eq!(with_default(full, None).unwrap(), "# top\n[models] # here\n\n[models.local]\nprobe = false\n");
        assert_eq!(set("models.default = 'x' # c\n"), "models.default = \"p/m\" # c\n");
        assert_eq!(set("models = { default = \"x\" }\n"), "models = { default = \"p/m\" }\n");
        assert_eq!(with_default("", None).unwrap(), "");
    }

    #[test]
    fn a_table_of_models_without_a_header_of_its_own_gets_one() {
        let text = "# keep\n[models.local]\nprobe = false # why\n";
        let after = with_default(text, Some("p/m")).unwrap();
        let table: toml::Table = after.parse().unwrap();
        assert_eq!(table["models"]["default"].as_str(), Some("p/m"));
        assert_eq!(table["models"]["local"]["probe"].as_bool(), Some(false));
        assert!(after.contains("# keep") && after.contains("probe = false # why"), "{after}");
    }

    #[test]
    fn a_file_that_cannot_be_read_as_toml_is_left_alone() {
        assert!(with_default("models = [", Some("p/m")).is_err());
        assert!(with_default("models = 3", Some("p/m")).is_err());
    }
}
