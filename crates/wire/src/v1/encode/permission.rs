//! Encodes the options of a permission question.

use agent_client_protocol_schema::v1 as acp;
use domain::permission::AgentOption;
use domain::{Choice, Question};

/// The options of a question: acpd's own, or those of the agent that asks.
pub(crate) fn options(question: &Question) -> Vec<acp::PermissionOption> {
    if !question.options.is_empty() {
        let one = |option: &AgentOption| {
            acp::PermissionOption::new(option.id.clone(), option.name.clone(), option_kind(option.kind))
        };
        return question.options.iter().map(one).collect();
    }
    let one =
        |choice: &Choice| acp::PermissionOption::new(choice.id(), question.choice_name(*choice), option_kind(*choice));
    question.choices().iter().map(one).collect()
}

fn option_kind(choice: Choice) -> acp::PermissionOptionKind {
    match choice {
        Choice::AllowOnce => acp::PermissionOptionKind::AllowOnce,
        Choice::AllowAlways => acp::PermissionOptionKind::AllowAlways,
        Choice::RejectOnce => acp::PermissionOptionKind::RejectOnce,
        Choice::RejectAlways => acp::PermissionOptionKind::RejectAlways,
    }
}
