//! The bundled table of models (`catalogue.toml`): windows, inputs, effort levels, APIs, and the
//! makers' prices.
//!
//! It is parsed once. A row applies to every name that starts with its own, and the longest match
//! wins. A name without a row counts as a small model that neither sees images nor thinks.

use std::sync::LazyLock;

use attachments::ImageLimit;
use domain::model::Price;
use reqwest::Url;
use serde::Deserialize;

use crate::config::{ModelApi, PriceConfig};
use crate::spec::Thinking;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    /// The version of the table's format.
    version: u32,
    /// The date when the table was last compared with its sources.
    date: String,
    /// Prefixes of the names of models that are trained on the patches of the tool `apply_patch`.
    patches: Vec<String>,
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
    /// The API of its models at its own address.
    dialect: Option<ModelApi>,
    /// Whether its models read PDFs.
    #[serde(default)]
    documents: bool,
    /// The limits of its models for one image.
    image: Option<ImageRow>,
    models: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageRow {
    /// The longest side, in pixels.
    side: u32,
    /// The largest file, in bytes.
    bytes: usize,
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
    /// Whether it reads PDFs, if it differs from the maker's other models.
    documents: Option<bool>,
    /// Its API, if it differs from the maker's other models.
    dialect: Option<ModelApi>,
    #[serde(default)]
    pub(crate) thinks: bool,
    pub(crate) thinking: Option<Thinking>,
    #[serde(default)]
    pub(crate) efforts: Vec<String>,
    price: Option<PriceConfig>,
}

static CATALOGUE: LazyLock<CatalogueFile> =
    LazyLock::new(|| toml::from_str(include_str!("catalogue.toml")).expect("the table is read by a test"));

/// The row for unknown names.
static UNKNOWN: Row = Row {
    name: String::new(),
    window: 32_768,
    output: 8_192,
    images: false,
    documents: None,
    dialect: None,
    thinks: false,
    thinking: None,
    efforts: Vec::new(),
    price: None,
};

/// The limit of images for makers that state none: 20 such images fit into every known limit on a
/// whole request.
const USUAL_IMAGE: ImageLimit = ImageLimit { side: 2_000, bytes: 700_000 };

/// The table's facts about one model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogueEntry {
    pub(crate) row: &'static Row,
    maker: Option<&'static Maker>,
}

impl CatalogueEntry {
    /// Whether the table has a row for the model, so that its numbers are not guesses.
    pub(crate) fn is_known(&self) -> bool {
        self.maker.is_some()
    }

    pub(crate) fn reads_documents(&self) -> bool {
        self.row.documents.unwrap_or_else(|| self.row.images && self.maker.is_some_and(|maker| maker.documents))
    }

    pub(crate) fn image_limit(&self) -> ImageLimit {
        let image = self.maker.and_then(|maker| maker.image);
        image.map_or(USUAL_IMAGE, |ImageRow { side, bytes }| ImageLimit { side, bytes })
    }
}

/// The version and date of the bundled table of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueVersion {
    /// The version of the table's format.
    pub version: u32,
    /// The date when the table was last compared with its sources.
    pub date: &'static str,
}

impl CatalogueVersion {
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

/// Returns the entry of a model.
pub(crate) fn find(model: &str) -> CatalogueEntry {
    let bare = bare(model);
    let found = rows().filter(|(_, row)| fits(row, &bare)).max_by_key(|(_, row)| row.name.len());
    match found {
        Some((maker, row)) => CatalogueEntry { row, maker: Some(maker) },
        None => CatalogueEntry { row: &UNKNOWN, maker: None },
    }
}

/// Returns whether a model, given by its own name, is trained on the patches of the tool
/// `apply_patch`.
pub(crate) fn is_trained_on_patches(bare: &str) -> bool {
    CATALOGUE.patches.iter().any(|family| bare.starts_with(family.as_str()))
}

/// Returns the price of a model if `address` is that of its maker.
pub(crate) fn price(model: &str, address: &str) -> Option<Price> {
    let maker = maker_at(address)?;
    let bare = bare(model);
    let row = maker.models.iter().filter(|row| fits(row, &bare)).max_by_key(|row| row.name.len())?;
    row.price.as_ref().map(PriceConfig::price)
}

/// Returns the API of a model if `address` is that of a maker in the table.
pub(crate) fn dialect(model: &str, address: &str) -> Option<ModelApi> {
    let maker = maker_at(address)?;
    let bare = bare(model);
    let row = maker.models.iter().filter(|row| fits(row, &bare)).max_by_key(|row| row.name.len());
    row.and_then(|row| row.dialect).or(maker.dialect)
}

fn maker_at(address: &str) -> Option<&'static Maker> {
    let address = Url::parse(address).ok()?;
    let host = address.host_str()?;
    CATALOGUE.maker.iter().find(|maker| maker.host.as_deref() == Some(host))
}

/// Lists the names in the table. The row of a family whose name continues, such as `gpt-5.`, names
/// no model.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|(_, row)| row.name.as_str()).filter(|name| name.ends_with(|last: char| last.is_alphanumeric()))
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
        let table = CatalogueVersion::get();
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

    /// Rows without a price are for the families of names that are not known yet or no longer
    /// served.
    #[test]
    fn every_current_model_has_a_price_at_its_maker() {
        const FAMILIES: [&str; 19] = [
            "chatgpt",
            "claude",
            "claude-2",
            "claude-2.1",
            "claude-3",
            "claude-instant",
            "codex-mini",
            "deepseek",
            "gemini",
            "gemini-1",
            "gemini-2.0",
            "gpt-5.",
            "gpt-6",
            "grok",
            "grok-2-vision",
            "mistral",
            "mistral-nemo",
            "o1-mini",
            "o1-preview",
        ];
        let unpriced = rows().filter(|(maker, row)| maker.host.is_some() && row.price.is_none());
        let mut unpriced: Vec<&str> = unpriced.map(|(_, row)| row.name.as_str()).collect();
        unpriced.sort_unstable();
        assert_eq!(unpriced, FAMILIES);
        for (maker, row) in rows() {
            let (Some(host), Some(listed)) = (&maker.host, &row.price) else { continue };
            let price = price(&row.name, &format!("https://{host}/v1")).unwrap();
            assert!((price.input - listed.price().input).abs() < 1e-9, "{}", row.name);
            assert!(price.input > 0.0 && price.output > 0.0 && price.cached_read <= price.input, "{}", row.name);
        }
    }

    #[test]
    fn the_longest_beginning_counts_and_a_market_names_the_maker_first() {
        assert_eq!(find("gpt-5-mini-2025-08-07").row.name, "gpt-5-mini");
        assert_eq!(find("anthropic/claude-sonnet-4.6").row.name, "claude-sonnet-4-6");
        assert_eq!(find("gpt-4-1106-preview").row.name, "gpt-4");
        assert_eq!(find("claude-fable-5-20260609").row.name, "claude-fable-5");
        assert!(!find("my-own").is_known() && find("Qwen3-Coder-30B").is_known());
    }

    #[test]
    fn the_table_knows_who_reads_documents_and_what_an_image_may_be() {
        for (model, documents, side) in [
            ("claude-sonnet-5", true, 2_000),
            ("anthropic/claude-3-haiku", false, 2_000),
            ("gpt-5.1", true, 2_048),
            ("o3-mini", false, 2_048),
            ("gemini-3-pro", true, 3_072),
            ("mistral-small", false, 1_540),
            ("my-own", false, 2_000),
        ] {
            let entry = find(model);
            assert_eq!((entry.reads_documents(), entry.image_limit().side), (documents, side), "{model}");
        }
    }

    #[test]
    fn the_api_depends_on_the_model_at_its_makers_own_address() {
        assert_eq!(dialect("gpt-5.1", "https://api.openai.com/v1"), Some(ModelApi::Responses));
        assert_eq!(dialect("o1-mini", "https://api.openai.com/v1"), Some(ModelApi::Chat));
        assert_eq!(dialect("new-name", "https://api.openai.com/v1"), Some(ModelApi::Responses));
        assert_eq!(dialect("mistral-large", "https://api.mistral.ai/v1"), Some(ModelApi::Chat));
        assert_eq!(dialect("gpt-5.1", "https://proxy.example/v1"), None);
    }

    #[test]
    fn prices_apply_only_at_the_makers_own_address() {
        let price = price("claude-sonnet-4-6", "https://api.anthropic.com").unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.cached_read - 0.3).abs() < 1e-9);
        assert_eq!(super::price("claude-sonnet-4-6", "https://proxy.example"), None);
        assert_eq!(super::price("my-own", "https://api.anthropic.com"), None);
    }
}
