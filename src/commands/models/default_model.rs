//! `acpd models default`: shows the model of new sessions, or writes it into the configuration file.
//!
//! Comments and layout of the file are preserved. A running daemon is asked to reload it.

#![allow(clippy::print_stdout, reason = "the default is printed")]

use std::{fs, io};

use anyhow::{Context, bail};
use domain::ModelId;
use domain::card::ReloadCard;
use domain::model::Catalogue;
use serde_json::json;
use terminal::picker::{Picker, PickerItem};
use toml_edit::{DocumentMut, Item, Table, Value};
use wire::method;

use super::Known;
use crate::commands::ctl::DaemonClient;
use crate::commands::{Ending, ask, file_replacement};
use crate::launch;
use crate::paths::Places;

/// Sets the default if a model is given, and shows it otherwise. `configured` is the current
/// setting.
pub(super) async fn run(
    places: &Places,
    known: &Known<'_>,
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
async fn choose(known: &Known<'_>, current: &str) -> anyhow::Result<Option<String>> {
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
pub(super) async fn set(places: &Places, model: Option<&str>) -> anyhow::Result<Ending> {
    // The configuration file may be a link to a file elsewhere; the link stays.
    let path = fs::canonicalize(&places.config).unwrap_or_else(|_| places.config.clone());
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let after = with_default(&before, model).with_context(|| format!("{} was not changed", path.display()))?;
    if after != before {
        file_replacement::replace(&path, &after)?;
    }
    match model {
        Some(model) => println!("new sessions use {model}; written to {}", path.display()),
        None => println!("no default is set in {}; new sessions use the first model that can be used", path.display()),
    }
    if let Ok(mut daemon) = DaemonClient::begin(&launch::find_running(places), false) {
        match daemon.client.call::<ReloadCard>(method::RELOAD, json!({})).await {
            Ok(_) => eprintln!("the running daemon has reloaded its configuration"),
            Err(error) => eprintln!("the running daemon does not use it yet: {error:#}"),
        }
    }
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
    let models = models.as_table_like_mut().context("`models` is not a table")?;
    let mut value = Value::from(model);
    match models.get_mut("default") {
        // The comments around the key and its value are preserved.
        Some(item) => {
            if let Some(before) = item.as_value() {
                *value.decor_mut() = before.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => {
            models.insert("default", Item::Value(value));
        }
    }
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
