//! Anthropic's Messages API: `request` builds requests, and `fold` reads responses.

mod fold;
mod request;

pub(crate) use self::fold::AnthropicFold;
pub(crate) use self::request::{adjust, body, vertex_body};
