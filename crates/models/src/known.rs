//! What is known of well-known models by their names: windows, senses, how they are asked to think.
//!
//! Only defaults: the configuration and what a provider says of its own models go before this table.

use domain::ModelId;
use domain::model::{ModelInfo, Price};
use serde::Deserialize;

/// A model and how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) info: ModelInfo,
    /// The provider's own name for it.
    pub(crate) wire: String,
    /// Tokens that one answer may have.
    pub(crate) output: Option<u64>,
    pub(crate) thinking: Thinking,
}

/// How a model of the Anthropic dialect is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// By a number of tokens, as models up to Claude 4.5 want it.
    Budget,
    /// By an effort, as later models want it.
    Adaptive,
}

/// What somebody else knows of a model, to be laid over the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) name: Option<String>,
    pub(crate) window: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) images: Option<bool>,
    pub(crate) audio: Option<bool>,
    pub(crate) thinks: Option<bool>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) price: Option<Price>,
}

impl Spec {
    #[must_use]
    pub(crate) fn with(mut self, facts: Facts) -> Self {
        let Facts { name, window, output, images, audio, thinks, thinking, price } = facts;
        self.info.name = name.unwrap_or(self.info.name);
        self.info.window = window.filter(|window| *window > 0).unwrap_or(self.info.window);
        self.info.images = images.unwrap_or(self.info.images);
        self.info.audio = audio.unwrap_or(self.info.audio);
        self.info.thinks = thinks.unwrap_or(self.info.thinks);
        self.info.price = price.or(self.info.price);
        self.output = output.filter(|output| *output > 0).or(self.output);
        self.thinking = thinking.unwrap_or(self.thinking);
        self
    }
}

/// One row: names that start so, the window, the longest answer, and whether it sees and thinks.
struct Row(&'static str, u64, u64, bool, bool);

/// The first row that fits counts, so longer beginnings stand before shorter ones. Where a family differs, or a server may
/// have less than the makers say, the smaller number stands here: a summary too early costs less than an overflow.
const ROWS: [Row; 69] = [
    Row("claude-3-7", 200_000, 32_000, true, true),
    Row("claude-3-5", 200_000, 8_192, true, false),
    Row("claude-3", 200_000, 4_096, true, false),
    Row("claude-2.1", 200_000, 4_096, false, false),
    Row("claude-2", 100_000, 4_096, false, false),
    Row("claude-instant", 100_000, 4_096, false, false),
    // Later ones hold a million tokens, which Anthropic's own list says of them.
    Row("claude", 200_000, 32_000, true, true),
    // Of 400,000 tokens and more these take 272,000 before they answer, or before they cost more.
    Row("gpt-5-chat", 128_000, 16_384, true, false),
    Row("gpt-5.1-chat", 128_000, 16_384, true, false),
    Row("gpt-5.2-chat", 128_000, 16_384, true, false),
    Row("gpt-5.3-chat", 128_000, 16_384, true, false),
    Row("gpt-5", 272_000, 128_000, true, true),
    Row("gpt-4.1", 1_047_576, 32_768, true, false),
    Row("gpt-4o", 128_000, 16_384, true, false),
    Row("gpt-4-turbo", 128_000, 4_096, true, false),
    Row("gpt-4", 8_192, 4_096, false, false),
    Row("gpt-3.5", 16_385, 4_096, false, false),
    Row("gpt-oss", 131_072, 32_768, false, true),
    Row("chatgpt", 128_000, 16_384, true, false),
    Row("codex-mini", 200_000, 100_000, true, true),
    Row("o1-mini", 128_000, 65_536, false, true),
    Row("o1-preview", 128_000, 32_768, false, true),
    Row("o1", 200_000, 100_000, true, true),
    Row("o3-mini", 200_000, 100_000, false, true),
    Row("o3", 200_000, 100_000, true, true),
    Row("o4", 200_000, 100_000, true, true),
    Row("gemini-1", 1_048_576, 8_192, true, false),
    Row("gemini-2.0", 1_048_576, 8_192, true, false),
    Row("gemini", 1_048_576, 65_536, true, true),
    Row("gemma3:1b", 32_768, 8_192, false, false),
    Row("gemma-3-1b", 32_768, 8_192, false, false),
    Row("gemma3n", 32_768, 8_192, false, false),
    Row("gemma-3n", 32_768, 8_192, false, false),
    Row("gemma3", 131_072, 8_192, true, false),
    Row("gemma-3", 131_072, 8_192, true, false),
    Row("deepseek", 128_000, 32_000, false, false),
    Row("kimi-k2.5", 262_144, 32_768, true, false),
    Row("kimi", 131_072, 32_000, false, false),
    Row("glm-4.6", 200_000, 32_000, false, false),
    Row("glm-4.7", 200_000, 32_000, false, false),
    Row("glm-5", 200_000, 32_000, false, false),
    Row("glm", 128_000, 32_000, false, false),
    Row("minimax-m2", 200_000, 32_000, false, false),
    Row("grok-4", 256_000, 32_000, true, false),
    Row("grok-code", 256_000, 32_000, false, false),
    Row("grok-2-vision", 32_768, 8_192, true, false),
    Row("grok", 131_072, 32_000, false, false),
    Row("mistral-large", 128_000, 32_000, false, false),
    Row("mistral-medium", 128_000, 32_000, false, false),
    Row("mistral-nemo", 128_000, 32_000, false, false),
    Row("mistral", 32_768, 8_192, false, false),
    Row("ministral", 128_000, 32_000, false, false),
    Row("pixtral", 128_000, 8_192, true, false),
    Row("codestral-2", 256_000, 32_000, false, false),
    Row("codestral-latest", 256_000, 32_000, false, false),
    Row("devstral", 128_000, 32_000, false, false),
    Row("llama-4", 131_072, 16_384, true, false),
    Row("llama4", 131_072, 16_384, true, false),
    Row("llama-3.", 131_072, 8_192, false, false),
    Row("llama3.", 131_072, 8_192, false, false),
    Row("llama-3", 8_192, 4_096, false, false),
    Row("llama3", 8_192, 4_096, false, false),
    Row("llama", 4_096, 2_048, false, false),
    Row("qwen3-coder", 262_144, 32_768, false, false),
    Row("qwen3-vl", 262_144, 32_768, true, false),
    Row("qwen3", 40_960, 32_768, false, false),
    Row("phi-4-mini", 131_072, 8_192, false, false),
    Row("phi4-mini", 131_072, 8_192, false, false),
    Row("phi", 16_384, 4_096, false, false),
];

/// For names that nobody knows.
const UNKNOWN: Row = Row("", 32_768, 8_192, false, false);

/// Parts of names by which makers say that a model sees, whatever its family does.
const SEEING: [&str; 4] = ["vision", "-vl", "2.5vl", "llava"];

/// Models of the Anthropic dialect that are told a number of tokens; all later ones are told an effort.
const BUDGETED: [&str; 8] = [
    "claude-3",
    "claude-2",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
];

/// The model `provider/model` as far as its name tells.
pub(crate) fn spec(provider: &str, model: &str) -> Spec {
    // A model of a model market is named after its maker first.
    let bare = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let Row(_, window, output, images, thinks) = ROWS.iter().find(|row| bare.starts_with(row.0)).unwrap_or(&UNKNOWN);
    // `claude-opus-4-20250514` is the first of its line.
    let budgeted = BUDGETED.iter().any(|name| bare.starts_with(name))
        || bare.strip_prefix("claude-opus-4-2").or_else(|| bare.strip_prefix("claude-sonnet-4-2")).is_some();
    Spec {
        info: ModelInfo {
            id: ModelId::from(format!("{provider}/{model}")),
            name: model.to_owned(),
            window: *window,
            images: *images || SEEING.iter().any(|part| bare.contains(part)),
            audio: bare.contains("-audio"),
            thinks: *thinks,
            price: None,
        },
        wire: model.to_owned(),
        output: Some(*output),
        thinking: if budgeted { Thinking::Budget } else { Thinking::Adaptive },
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
            ("grok-code-fast-1", 256_000, false, false),
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
            assert_eq!((spec.info.id.as_str(), spec.wire.as_str()), (&*format!("p/{name}"), name));
        }
    }

    #[test]
    fn no_row_stands_behind_one_that_hides_it() {
        for (at, row) in ROWS.iter().enumerate() {
            let before = ROWS[..at].iter().find(|before| row.0.starts_with(before.0));
            assert!(before.is_none(), "{} hides {}", before.unwrap().0, row.0);
        }
    }

    #[test]
    fn older_models_are_told_a_budget_and_later_ones_an_effort() {
        for name in ["claude-3-7-sonnet-latest", "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-haiku-4-5"] {
            assert_eq!(spec("p", name).thinking, Thinking::Budget, "{name}");
        }
        for name in ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-sonnet-5", "claude-fable-5"] {
            assert_eq!(spec("p", name).thinking, Thinking::Adaptive, "{name}");
        }
    }

    #[test]
    fn what_somebody_knows_goes_before_the_defaults() {
        let facts = Facts { window: Some(9), images: Some(false), ..Facts::default() };
        let spec = spec("p", "gpt-4o").with(facts).with(Facts { window: Some(0), ..Facts::default() });
        assert_eq!((spec.info.window, spec.info.images, spec.output), (9, false, Some(16_384)));
    }
}
