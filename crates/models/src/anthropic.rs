//! Anthropic's Messages API: what is sent is built in `request`, what comes back is read in `fold`.

mod fold;
mod request;

pub(crate) use self::fold::AnthropicFold;
pub(crate) use self::request::{body, concede, vertex_body};
