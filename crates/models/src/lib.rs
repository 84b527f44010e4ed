//! Language models behind `domain::model::Model`, and the catalogue that sessions choose from.
//!
//! This crate knows nothing of ACP, of actix, or of how tools run: a model takes a request and
//! streams an answer. `Providers` is the catalogue. Each API has a module (`anthropic`,
//! `responses`, `openai`, `gemini`, `ollama`), which `remote` selects. `exchange` carries out a
//! request: it prepares images and PDFs (`conversion`), finds the key (`key`), encodes and sends
//! the request (`body`, `service`, `http`), reads the answer (`sse`, `ndjson`) and retries
//! (`retry`, `failure`).

mod anthropic;
mod body;
mod catalogue;
mod config;
mod conversion;
mod device_flow;
mod exchange;
mod failure;
#[cfg(test)]
mod fixtures;
mod gemini;
mod http;
mod json;
mod key;
mod key_store;
mod limits;
mod media;
mod ndjson;
mod normalize;
mod ollama;
mod openai;
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

pub use catalogue::CatalogueVersion;
pub use config::{
    CacheTtl, LocalConfig, ModelApi, ModelConfig, ModelOverride, ModelsConfig, PriceConfig, ProviderConfig,
    ProviderKind,
};
pub use device_flow::{DeviceError, DeviceFlow, DeviceGrant, DevicePoll};
pub use http::{ProviderTimeouts, install_crypto};
pub use key::KeyConfig;
pub use key_store::{KeyStore, KeyStoreError};
pub use overrides::ModelPattern;
pub use providers::{ConfigError, KeyCheck, OfferedModel, ProviderCheck, Providers};
pub use rehearsal::Rehearsal;
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use spec::Thinking;
