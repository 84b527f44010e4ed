//! The configuration file as `acpd models` changes it: comments and layout are preserved, and a
//! running daemon is asked to reload it.

#![allow(clippy::print_stdout, reason = "the change is printed")]

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use domain::card::ReloadCard;
use serde_json::json;
use toml_edit::{InlineTable, Item, Table, Value};
use wire::method;

use crate::commands::ctl::DaemonClient;
use crate::commands::file_replacement;
use crate::launch;
use crate::paths::Paths;

pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Keeps other commands from changing the file until it is replaced.
    lock: File,
}

impl ConfigFile {
    /// Reads the file and keeps other commands from changing it. A missing one is empty.
    pub(super) fn read(places: &Paths) -> anyhow::Result<Self> {
        let lock = file_replacement::lock(&places.config)?;
        // The configuration file may be a link to a file elsewhere; the link stays.
        let path = fs::canonicalize(&places.config).unwrap_or_else(|_| places.config.clone());
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Ok(Self { path, text, lock })
    }

    /// Writes another text, prints `done`, and has a running daemon reload the file.
    pub(super) async fn replace(self, places: &Paths, text: &str, done: &str) -> anyhow::Result<()> {
        if text != self.text {
            file_replacement::replace(&self.path, text)?;
        }
        drop(self.lock);
        println!("{done}");
        if let Ok(mut daemon) = DaemonClient::begin(&launch::find_running(places), false) {
            match daemon.client.call::<ReloadCard>(method::RELOAD, json!({})).await {
                Ok(_) => eprintln!("the running daemon has reloaded its configuration"),
                Err(error) => eprintln!("the running daemon does not use it yet: {error:#}"),
            }
        }
        Ok(())
    }
}

/// Returns the table with this name, which is created if there is none.
pub(super) fn table<'a>(parent: &'a mut Item, name: &str) -> anyhow::Result<&'a mut Item> {
    let is_inline = parent.is_inline_table();
    let not_a_table = || format!("the parent of `{name}` is not a table");
    let tables = parent.as_table_like_mut().with_context(not_a_table)?;
    if !tables.contains_key(name) {
        let mut own = Table::new();
        // Only a table with values of its own needs a header.
        own.set_implicit(true);
        let inline = Item::Value(Value::InlineTable(InlineTable::new()));
        tables.insert(name, if is_inline { inline } else { Item::Table(own) });
    }
    tables.get_mut(name).filter(|item| item.is_table_like()).with_context(|| format!("`{name}` is not a table"))
}

/// Sets a value. The comments around its key and the value before are preserved.
pub(super) fn set(table: &mut Item, name: &str, mut value: Value) -> anyhow::Result<()> {
    let table = table.as_table_like_mut().with_context(|| format!("the parent of `{name}` is not a table"))?;
    match table.get_mut(name) {
        Some(item) => {
            if let Some(before) = item.as_value() {
                *value.decor_mut() = before.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => {
            table.insert(name, Item::Value(value));
        }
    }
    Ok(())
}
