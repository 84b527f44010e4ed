//! Anthropic's Messages API: what is sent is built in `request`, what comes back is read in `fold`.

mod fold;
mod request;

use domain::model::ModelRequest;
use serde_json::Value;

use self::fold::AnthropicFold;
use crate::known::Spec;
use crate::remote::Dialect;
use crate::service::Service;

pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    type Fold = AnthropicFold;

    const PATH: &'static str = "/v1/messages";

    fn body(spec: &Spec, service: &Service, request: &ModelRequest) -> Value {
        request::body(spec, service, request)
    }

    fn fold(provider: &str) -> AnthropicFold {
        AnthropicFold::new(provider)
    }

    fn concede(body: &mut Value, complaint: &str) -> bool {
        request::concede(body, complaint)
    }
}
