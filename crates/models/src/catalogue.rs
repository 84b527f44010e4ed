//! The bundled table of models (`catalogue.toml`): windows, senses, words for effort, and the makers' prices.
//!
//! Read once. A row holds for every name that begins like it, and the longest beginning counts; a name that no row fits is
//! taken for a small model that neither sees nor thinks.

use std::sync::LazyLock;

use domain::model::Price;
use reqwest::Url;
use serde::Deserialize;

use crate::config::PriceConfig;
use crate::spec::Thinking;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    /// Of the form of the table.
    version: u32,
    /// When it was last held against its sources.
    date: String,
    maker: Vec<Maker>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker {
    name: String,
    /// Where its prices count.
    host: Option<String>,
    /// Where the numbers are from.
    source: String,
    models: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// Names that begin so.
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

/// For names that nobody knows.
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

/// What the bundled table of models rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Of the table's form.
    pub version: u32,
    /// When it was last held against its sources.
    pub date: &'static str,
}

impl Table {
    pub fn get() -> Self {
        Self { version: CATALOGUE.version, date: &CATALOGUE.date }
    }

    /// The makers, and where the numbers of their models are from.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        CATALOGUE.maker.iter().map(|maker| (maker.name.as_str(), maker.source.as_str()))
    }
}

/// A model's own name: one of a model market is named after its maker first, and Claude with points in place of dashes.
pub(crate) fn bare(model: &str) -> String {
    let bare = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if bare.starts_with("claude") { bare.replace('.', "-") } else { bare }
}

/// What is known of a model.
pub(crate) fn find(model: &str) -> &'static Row {
    let bare = bare(model);
    rows().filter(|(_, row)| fits(row, &bare)).max_by_key(|(_, row)| row.name.len()).map_or(&UNKNOWN, |(_, row)| row)
}

/// Whether the table has a row for a model, so that what is said of it is no guess.
pub(crate) fn knows(model: &str) -> bool {
    !find(model).name.is_empty()
}

/// What a model costs at its maker's own address, which this must be.
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
