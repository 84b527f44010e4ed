//! The bundled table of models (`catalogue.toml`): windows, image support, effort levels, and the
//! makers' prices.
//!
//! It is parsed once. A row applies to every name that starts with its own, and the longest match
//! wins. A name without a row counts as a small model that neither sees images nor thinks.

use std::sync::LazyLock;

use domain::model::Price;
use reqwest::Url;
use serde::Deserialize;

use crate::config::PriceConfig;
use crate::spec::Thinking;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    /// The version of the table's format.
    version: u32,
    /// The date when the table was last compared with its sources.
    date: String,
    maker: Vec<Maker>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker {
    name: String,
    /// The host at which its prices apply.
    host: Option<String>,
    /// Where the numbers come from.
    source: String,
    models: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// The prefix of the names that this row applies to.
    name: String,
    pub(crate) window: u64,
    pub(crate) output: u64,
    #[serde(default)]
    pub(crate) images: bool,
    #[serde(default)]
    pub(crate) thinks: bool,
    pub(crate) thinking: Option<Thinking>,
    #[serde(default)]
    pub(crate) efforts: Vec<String>,
    price: Option<PriceConfig>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("catalogue.toml")).expect("the table is read by a test"));

/// The row for unknown names.
static UNKNOWN: Row = Row {
    name: String::new(),
    window: 32_768,
    output: 8_192,
    images: false,
    thinks: false,
    thinking: None,
    efforts: Vec::new(),
    price: None,
};

/// The version and date of the bundled table of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The version of the table's format.
    pub version: u32,
    /// The date when the table was last compared with its sources.
    pub date: &'static str,
}

impl Table {
    pub fn get() -> Self {
        Self { version: CATALOGUE.version, date: &CATALOGUE.date }
    }

    /// Lists the makers, and where the numbers of their models come from.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        CATALOGUE.maker.iter().map(|maker| (maker.name.as_str(), maker.source.as_str()))
    }
}

/// Returns a model's own name. A model market puts the maker's name first, and writes Claude's
/// versions with dots instead of dashes.
pub(crate) fn bare(model: &str) -> String {
    let bare = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if bare.starts_with("claude") { bare.replace('.', "-") } else { bare }
}

/// Returns the row for a model.
pub(crate) fn find(model: &str) -> &'static Row {
    let bare = bare(model);
    rows().filter(|(_, row)| fits(row, &bare)).max_by_key(|(_, row)| row.name.len()).map_or(&UNKNOWN, |(_, row)| row)
}

/// Whether the table has a row for a model, so that its numbers are not guesses.
pub(crate) fn knows(model: &str) -> bool {
    !find(model).name.is_empty()
}

/// Returns the price of a model if `address` is that of its maker.
pub(crate) fn price(model: &str, address: &str) -> Option<Price> {
    let address = Url::parse(address).ok()?;
    let bare = bare(model);
    let of_maker = rows().filter(|(maker, _)| maker.host.as_deref() == address.host_str());
    let (_, row) = of_maker.filter(|(_, row)| fits(row, &bare)).max_by_key(|(_, row)| row.name.len())?;
    row.price.as_ref().map(PriceConfig::price)
}

fn fits(row: &Row, bare: &str) -> bool {
    bare.starts_with(&row.name) || bare.starts_with(&row.name.replace('.', "-")) && bare.starts_with("claude")
}

fn rows() -> impl Iterator<Item = (&'static Maker, &'static Row)> {
    CATALOGUE.maker.iter().flat_map(|maker| maker.models.iter().map(move |row| (maker, row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_has_no_row_twice() {
        let table = Table::get();
        assert!(table.version == 1 && table.date.len() == 10 && table.sources().all(|(_, source)| !source.is_empty()));
        let mut names: Vec<&str> = rows().map(|(_, row)| row.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for (maker, row) in rows() {
            assert!(row.output <= row.window && row.window > 0, "{} {}", maker.name, row.name);
            assert!(row.price.is_none() || maker.host.is_some(), "{} is priced nowhere", row.name);
        }
    }

    #[test]
    fn the_longest_beginning_counts_and_a_market_names_the_maker_first() {
        assert_eq!(find("gpt-5-mini-2025-08-07").name, "gpt-5-mini");
        assert_eq!(find("anthropic/claude-sonnet-4.6").name, "claude-sonnet-4-6");
        assert_eq!(find("gpt-4-1106-preview").name, "gpt-4");
        assert!(!knows("my-own") && knows("Qwen3-Coder-30B"));
    }

    #[test]
    fn prices_count_at_the_makers_own_address_only() {
        let price = price("claude-sonnet-4-6", "https://api.anthropic.com").unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.cached_read - 0.3).abs() < 1e-9);
        assert_eq!(super::price("claude-sonnet-4-6", "https://proxy.example"), None);
        assert_eq!(super::price("my-own", "https://api.anthropic.com"), None);
    }
}
