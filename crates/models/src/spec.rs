//! A model and the parameters of requests to it, derived from its name (`catalogue`) and other
//! facts.
//!
//! The name gives only defaults. The configuration and a provider's own list take precedence.

use std::borrow::Cow;

use attachments::ImageLimit;
use domain::model::{ModelInfo, Price};
use domain::{ModelId, ThoughtLevel};
use serde::Deserialize;

use crate::catalogue;
use crate::config::ModelApi;

/// A model and the parameters of requests to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) info: ModelInfo,
    /// The provider's own name for it.
    pub(crate) api_name: String,
    /// The number of tokens that one answer may have.
    pub(crate) output: Option<u64>,
    pub(crate) thinking: Thinking,
    /// Its effort levels, lowest first; empty if they are not known.
    pub(crate) efforts: Cow<'static, [String]>,
    /// Whether it reads PDFs. Others get their text.
    pub(crate) documents: bool,
    /// The limits for one image.
    pub(crate) image: ImageLimit,
    /// The API that the configuration names for it.
    pub(crate) dialect: Option<ModelApi>,
    /// Whether its window is a guess, because neither the table nor any other source has it.
    pub(crate) is_guess: bool,
}

/// How a model of the Anthropic dialect is asked to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// By a number of tokens, for models up to Claude 4.5.
    Budget,
    /// By an effort level, for later models.
    Adaptive,
}

/// Facts about a model that override the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelFacts {
    pub(crate) name: Option<String>,
    pub(crate) window: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) images: Option<bool>,
    pub(crate) audio: Option<bool>,
    pub(crate) documents: Option<bool>,
    pub(crate) thinks: Option<bool>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) efforts: Option<Vec<String>>,
    pub(crate) dialect: Option<ModelApi>,
    pub(crate) price: Option<Price>,
}

impl ModelFacts {
    /// Lists the names of the facts that are known.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let ModelFacts { name, window, output, images, audio, documents, thinks, thinking, efforts, dialect, price } =
            self;
        let known = [
            ("name", name.is_some()),
            ("window", window.is_some()),
            ("output", output.is_some()),
            ("images", images.is_some()),
            ("audio", audio.is_some()),
            ("documents", documents.is_some()),
            ("thinks", thinks.is_some()),
            ("thinking", thinking.is_some()),
            ("efforts", efforts.is_some()),
            ("dialect", dialect.is_some()),
            ("price", price.is_some()),
        ];
        known.into_iter().filter(|(_, is_known)| *is_known).map(|(name, _)| name).collect()
    }
}

impl Spec {
    #[must_use]
    pub(crate) fn with(mut self, facts: ModelFacts) -> Self {
        let ModelFacts { name, window, output, images, audio, documents, thinks, thinking, efforts, dialect, price } =
            facts;
        self.info.name = name.unwrap_or(self.info.name);
        if let Some(window) = window.filter(|window| *window > 0) {
            self.info.window = window;
            self.is_guess = false;
        }
        self.info.images = images.unwrap_or(self.info.images);
        self.info.audio = audio.unwrap_or(self.info.audio);
        self.info.thinks = thinks.unwrap_or(self.info.thinks);
        self.info.price = price.or(self.info.price);
        self.output = output.filter(|output| *output > 0).or(self.output);
        self.thinking = thinking.unwrap_or(self.thinking);
        self.documents = documents.unwrap_or(self.documents);
        self.efforts = efforts.map_or(self.efforts, Cow::Owned);
        self.dialect = dialect.or(self.dialect);
        self
    }
}

/// Parts of names that mark a model as able to see images, whatever its family does.
const VISION_NAMES: [&str; 4] = ["vision", "-vl", "2.5vl", "llava"];

/// Derives the model `provider/model` from its name.
pub(crate) fn spec(provider: &str, model: &str) -> Spec {
    let bare = catalogue::bare(model);
    let entry = catalogue::find(model);
    let row = entry.row;
    Spec {
        info: ModelInfo {
            id: ModelId::from(format!("{provider}/{model}")),
            name: model.to_owned(),
            window: row.window,
            images: row.images || VISION_NAMES.iter().any(|part| bare.contains(part)),
            audio: bare.contains("-audio"),
            thinks: row.thinks,
            patches: catalogue::is_trained_on_patches(&bare),
            price: None,
        },
        api_name: model.to_owned(),
        output: Some(row.output),
        thinking: row.thinking.unwrap_or(Thinking::Adaptive),
        efforts: Cow::Borrowed(&row.efforts),
        documents: entry.reads_documents(),
        image: entry.image_limit(),
        dialect: None,
        is_guess: !entry.is_known(),
    }
}

impl Spec {
    /// Returns the family's effort level for a thought level: its lowest for none, its highest for
    /// the highest. None if the family is unknown and nothing need be sent.
    pub(crate) fn effort(&self, level: ThoughtLevel) -> Option<&str> {
        let word = |wanted: &str| self.efforts.iter().find(|word| *word == wanted).map(String::as_str);
        let (least, greatest) = (self.efforts.first().map(String::as_str), self.efforts.last().map(String::as_str));
        match level {
            ThoughtLevel::Off => least,
            ThoughtLevel::Low => word("low").or(least).or(Some("low")),
            ThoughtLevel::Medium => word("medium").or(greatest).or(Some("medium")),
            ThoughtLevel::High => greatest.or(Some("high")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names_have_sensible_defaults() {
        for (name, window, images, thinks) in [
            ("claude-sonnet-4-5-20250929", 200_000, true, true),
            ("anthropic/claude-3-5-haiku", 200_000, true, false),
            ("gpt-4o-mini", 128_000, true, false),
            ("openai/gpt-5.1", 272_000, true, true),
            ("gpt-5.2-chat-latest", 128_000, true, false),
            ("gpt-4-0613", 8_192, false, false),
            ("o1-preview", 128_000, false, true),
            ("gemini-2.0-flash", 1_048_576, true, false),
            ("gemini-2.5-pro", 1_048_576, true, true),
            ("grok-code-fast-1", 256_000, true, false),
            ("x-ai/grok-3", 131_072, false, false),
            ("llama3:8b", 8_192, false, false),
            ("llama3.2-vision:11b", 131_072, true, false),
            ("meta-llama/llama-3.2-11b-vision-instruct", 131_072, true, false),
            ("qwen3:8b", 40_960, false, false),
            ("qwen2.5vl:7b", 32_768, true, false),
            ("my-own", 32_768, false, false),
        ] {
            let spec = spec("p", name);
            assert_eq!((spec.info.window, spec.info.images, spec.info.thinks), (window, images, thinks), "{name}");
            assert_eq!((spec.info.id.as_str(), spec.api_name.as_str()), (&*format!("p/{name}"), name));
        }
    }

    #[test]
    fn models_of_openai_are_trained_on_patches() {
        for (name, patches) in [
            ("gpt-4.1-mini", true),
            ("openai/gpt-5.1-codex", true),
            ("o4-mini", true),
            ("gpt-oss-20b", true),
            ("gpt-4o", false),
            ("claude-sonnet-5", false),
            ("my-own", false),
        ] {
            assert_eq!(spec("p", name).info.patches, patches, "{name}");
        }
    }

    #[test]
    fn each_family_has_its_words_for_effort() {
        use ThoughtLevel::{High, Low, Medium, Off};
        for (model, efforts) in [
            ("gpt-5", ["minimal", "low", "medium", "high"]),
            ("gpt-5.1", ["none", "low", "medium", "high"]),
            ("openai/gpt-5.2", ["none", "low", "medium", "xhigh"]),
            ("gpt-5.1-codex-max", ["low", "low", "medium", "xhigh"]),
            ("gpt-6-sol", ["none", "low", "medium", "max"]),
            ("gpt-5-pro", ["high", "high", "high", "high"]),
            ("o3", ["low", "low", "medium", "high"]),
        ] {
            let spec = spec("p", model);
            assert_eq!([Off, Low, Medium, High].map(|level| spec.effort(level)), efforts.map(Some), "{model}");
        }
        let unknown = spec("p", "my-own");
        let words = [None, Some("low"), Some("medium"), Some("high")];
        assert_eq!([Off, Low, Medium, High].map(|level| unknown.effort(level)), words);
    }

    #[test]
    fn older_models_get_a_thinking_budget_and_later_ones_an_effort() {
        for name in ["claude-3-7-sonnet-latest", "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-haiku-4-5"] {
            assert_eq!(spec("p", name).thinking, Thinking::Budget, "{name}");
        }
        for name in ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-sonnet-5", "claude-fable-5"] {
            assert_eq!(spec("p", name).thinking, Thinking::Adaptive, "{name}");
        }
    }

    #[test]
    fn known_facts_override_the_defaults_of_a_model() {
        let facts = ModelFacts { window: Some(9), images: Some(false), ..ModelFacts::default() };
        let spec = spec("p", "gpt-4o").with(facts).with(ModelFacts { window: Some(0), ..ModelFacts::default() });
        assert_eq!((spec.info.window, spec.info.images, spec.output), (9, false, Some(16_384)));
        let facts = ModelFacts { efforts: Some(vec!["deep".into()]), documents: Some(false), ..ModelFacts::default() };
        assert_eq!(facts.names(), ["documents", "efforts"]);
        let spec = spec.with(facts);
        assert_eq!((spec.effort(ThoughtLevel::High), spec.documents), (Some("deep"), false));
    }
}
