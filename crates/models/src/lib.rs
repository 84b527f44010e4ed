//! Language models behind `domain::model::Model`, and the catalogue that sessions choose from.
//!
//! This crate knows nothing of ACP, of actix, or of how tools run: a model takes a request and
//! streams an answer. `Providers` is the catalogue. Each API has a module (`anthropic`,
//! `responses`, `openai`, `gemini`, `ollama`), which `remote` selects. `exchange` carries out a
//! request: it prepares images and PDFs (`conversion`), finds the key (`key`), sends the request
//! (`service`, `http`), reads the answer (`sse`, `ndjson`) and retries (`retry`, `failure`).

mod account;
mod anthropic;
mod catalogue;
mod config;
mod conversion;
mod exchange;
mod failure;
#[cfg(test)]
mod fixtures;
mod gemini;
mod http;
mod json;
mod key;
mod limits;
mod media;
mod ndjson;
mod ollama;
mod openai;
mod outline;
mod overrides;
mod partial_call;
mod providers;
mod rehearsal;
mod remote;
mod responses;
mod retry;
mod secret;
mod service;
mod spec;
mod sse;

pub use account::{AccountError, Accounts, DeviceError, DeviceFlow, DeviceGrant, DevicePoll};
pub use catalogue::CatalogueVersion;
pub use config::{
    CacheTtl, Kind, LocalConfig, ModelApi, ModelConfig, ModelOverride, ModelsConfig, PriceConfig, ProviderConfig,
};
pub use http::{ProviderTimeouts, install_crypto};
pub use key::KeyConfig;
pub use providers::{ConfigError, KeySurvey, Offered, Providers, Survey};
pub use rehearsal::Rehearsal;
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use spec::Thinking;
