//! Authentication methods as `initialize` announces them, and the login page that a client is asked
//! to open.

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use domain::account::KeyVariable;

use super::{acpd_meta, value};
use crate::answer_data::{AgentInfo, ENV_METHOD, GITHUB_METHOD, TERMINAL_METHOD};
use crate::rpc::Id;

pub(super) fn methods(info: &AgentInfo) -> Vec<acp::AuthMethod> {
    let names: Vec<&str> = info.key_variables.iter().map(|variable| variable.name.as_str()).collect();
    let env = acp::AuthMethodAgent::new(ENV_METHOD, "A key in the environment")
        .description(format!("One of {}", names.join(", ")))
        .meta(acpd_meta(json!({ "variables": info.key_variables.iter().map(variable).collect::<Vec<_>>() })));
    let github = acp::AuthMethodAgent::new(GITHUB_METHOD, "Log in to GitHub")
        .description("For the models that GitHub offers; opens a page in the browser".to_owned());
    let mut methods = vec![acp::AuthMethod::Agent(env), acp::AuthMethod::Agent(github)];
    if info.terminal_login {
        let terminal = acp::AuthMethodTerminal::new(TERMINAL_METHOD, "Store a key")
            .description("Asks for a provider and its key in a terminal".to_owned())
            .args(vec!["--login".to_owned()]);
        methods.push(acp::AuthMethod::Terminal(terminal));
    }
    methods
}

/// Describes a variable for the form in which a client asks for it. Each variable is optional,
/// because one key is enough.
pub(crate) fn variable(variable: &KeyVariable) -> Value {
    let mut shown = json!({ "name": variable.name, "label": variable.label, "secret": true, "optional": true });
    if let Some(link) = &variable.link {
        shown["link"] = json!(link);
    }
    shown
}

/// Parameters that ask the client to open a URL while its request `id` is in progress.
pub fn elicit_url(id: &Id, elicitation: &str, address: &str, message: &str) -> Value {
    // The schema crate refuses ids such as `1.0`, which a client may use, so the id is put in by
    // hand.
    let scope = acp::ElicitationScope::Request(acp::ElicitationRequestScope::new(0));
    let mode = acp::ElicitationUrlMode::new(scope, elicitation.to_owned(), address.to_owned());
    let mut params = value(&acp::CreateElicitationRequest::new(mode, message));
    params["requestId"] = serde_json::from_str(id.raw()).unwrap_or_default();
    params
}
